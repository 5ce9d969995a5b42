/**
 * Finding and deleting tracked connections. Requests for netfilter: `ask(host, …, { protocol: 'netfilter' })`. EINVAL
 * where the kernel tracks but has no ctnetlink (nf_conntrack_netlink).
 */
import {
  CTA_FILTER,
  CTA_FILTER_ORIG_FLAGS,
  CTA_FILTER_REPLY_FLAGS,
  CTA_ID,
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_TUPLE_IP,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_REPLY,
  CTA_ZONE,
  IPCTNL_MSG_CT_DELETE,
  IPCTNL_MSG_CT_GET,
  NLA_F_NESTED,
  NLM_F_ACK,
  NLM_F_DUMP,
} from '../linux.js'
import { AttributeWriter } from '../netlink/attribute.js'
import type { Request } from '../netlink/request.js'
import { type Connection, decodeConnection } from './connection.js'
import { conntrackType, ipv4Header } from './message.js'

// What a dump compares of a tuple. No header for programs has them: CTA_FILTER_F_* of the kernel's nf_internals.h.
const COMPARE_SOURCE = 1 << 0
const COMPARE_DESTINATION = 1 << 1

/** A place where a connection has an address, and how a dump is told to look there. */
interface Place {
  readonly name: string
  readonly tuple: number
  readonly address: number
  readonly flag: number
  read(connection: Connection): string
}

const PLACES: readonly Place[] = [
  {
    name: 'original source',
    tuple: CTA_TUPLE_ORIG,
    address: CTA_IP_V4_SRC,
    flag: COMPARE_SOURCE,
    read: ({ original }) => original.source,
  },
  {
    name: 'original destination',
    tuple: CTA_TUPLE_ORIG,
    address: CTA_IP_V4_DST,
    flag: COMPARE_DESTINATION,
    read: ({ original }) => original.destination,
  },
  {
    name: 'reply source',
    tuple: CTA_TUPLE_REPLY,
    address: CTA_IP_V4_SRC,
    flag: COMPARE_SOURCE,
    read: ({ reply }) => reply.source,
  },
  {
    name: 'reply destination',
    tuple: CTA_TUPLE_REPLY,
    address: CTA_IP_V4_DST,
    flag: COMPARE_DESTINATION,
    read: ({ reply }) => reply.destination,
  },
]

/**
 * The IPv4 connections in which the address is source or destination of either direction: a list for each of the four
 * places, and no connection in two of them. One that is made meanwhile may be missing.
 */
export function connectionsOf(address: string): Request<Connection>[] {
  return PLACES.map((place, index) => {
    const before = PLACES.slice(0, index)
    return {
      what: `connections with ${place.name} ${address}`,
      type: conntrackType(IPCTNL_MSG_CT_GET),
      flags: NLM_F_DUMP,
      payload: filter(place, address),
      decode(message) {
        const connection = decodeConnection(message)
        // Kernels before 5.8 know no filter, and list everything.
        if (connection === undefined || place.read(connection) !== address) return undefined
        return before.some((other) => other.read(connection) === address) ? undefined : connection
      },
    }
  })
}

/**
 * Deletes that connection and no other. ENOENT when it is gone, also when another one has taken its addresses and ports.
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

function filter({ tuple, address: attribute, flag }: Place, address: string): Buffer {
  const flags = (direction: number): number => (direction === tuple ? flag : 0)
  const addresses = new AttributeWriter().ipv4(attribute, address)
  return new AttributeWriter(ipv4Header())
    .nested(tuple, new AttributeWriter().nested(CTA_TUPLE_IP, addresses))
    .nested(
      CTA_FILTER,
      new AttributeWriter()
        .u32(CTA_FILTER_ORIG_FLAGS, flags(CTA_TUPLE_ORIG))
        .u32(CTA_FILTER_REPLY_FLAGS, flags(CTA_TUPLE_REPLY)),
    )
    .finish()
}
