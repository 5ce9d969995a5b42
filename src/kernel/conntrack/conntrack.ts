/**
 * Finding and deleting tracked connections. Requests for netfilter: `ask(host, …, { protocol: 'netfilter' })`. EINVAL
 * where the kernel has no ctnetlink (nf_conntrack_netlink).
 */
import { parseIpv4 } from '../ipv4.js'
import {
  CTA_ID,
  CTA_STATS_GLOBAL_ENTRIES,
  CTA_TUPLE_ORIG,
  CTA_ZONE,
  IPCTNL_MSG_CT_DELETE,
  IPCTNL_MSG_CT_GET,
  IPCTNL_MSG_CT_GET_STATS,
  NLA_F_NESTED,
  NLM_F_ACK,
  NLM_F_DUMP,
} from '../linux.js'
import { AttributeWriter } from '../netlink/attribute.js'
import type { Request } from '../netlink/request.js'
import { type Connection, decodeConnection, isConnectionOf } from './connection.js'
import { attributesOf, conntrackType, ipv4Header } from './message.js'

/**
 * How many connections, IPv6 too, the host's namespace tracks: one item. With none there is nothing to list, and
 * listing nothing still takes the kernel some 20 ms: it walks the table that all namespaces of the machine share.
 */
export function connectionCount(): Request<number> {
  return {
    what: 'number of tracked connections',
    type: conntrackType(IPCTNL_MSG_CT_GET_STATS),
    // The answer claims to be one of several (NLM_F_MULTI), and none of them says that it is the last.
    flags: NLM_F_ACK,
    payload: ipv4Header(),
    decode(message) {
      const attributes = attributesOf(message, IPCTNL_MSG_CT_GET_STATS)
      while (attributes.next()) if (attributes.type === CTA_STATS_GLOBAL_ENTRIES) return attributes.u32be()
      throw attributes.malformed('statistics without a count')
    },
  }
}

/**
 * The IPv4 connections in which one of the addresses, dotted, is source or destination of either direction. One that
 * begins while they are listed may be missing.
 *
 * The kernel sends all that it tracks, and the rest is left out here. Its own filter (CTA_FILTER) knows one address in
 * one place: it would walk the table four times for each address.
 */
export function connectionsOf(addresses: readonly string[]): Request<Connection> {
  const wanted = new Set(addresses.map(numberOf))
  return {
    what: 'tracked connections',
    type: conntrackType(IPCTNL_MSG_CT_GET),
    flags: NLM_F_DUMP,
    payload: ipv4Header(),
    decode: (message) => (isConnectionOf(wanted, message) ? decodeConnection(message) : undefined),
  }
}

/**
 * Deletes that connection and no other. ENOENT when it is gone, also when one with another id has taken its addresses
 * and ports.
 *
 * @throws RangeError for one without a tuple: the kernel would delete all that it tracks.
 */
export function deleteConnection({ tuple, zone, id }: Connection, what: string): Request<never> {
  if (tuple.length === 0) throw new RangeError(`${what}: a connection without a tuple`)
  const payload = new AttributeWriter(ipv4Header()).raw(CTA_TUPLE_ORIG | NLA_F_NESTED, tuple)
  if (zone !== 0) payload.u16be(CTA_ZONE, zone)
  payload.u32be(CTA_ID, id)
  const type = conntrackType(IPCTNL_MSG_CT_DELETE)
  return { what, type, flags: NLM_F_ACK, payload: payload.finish(), decode: () => undefined }
}

/** @throws RangeError when it is no dotted IPv4 address */
function numberOf(address: string): number {
  const number = parseIpv4(address)
  if (number === null) throw new RangeError(`not an IPv4 address: ${JSON.stringify(address)}`)
  return number
}
