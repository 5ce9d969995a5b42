/** Tracked connections (ctnetlink, linux/netfilter/nfnetlink_conntrack.h), IPv4. */
import {
  AF_INET,
  CTA_ID,
  CTA_MARK,
  CTA_STATUS,
  CTA_TUPLE_ORIG,
  CTA_TUPLE_REPLY,
  CTA_ZONE,
  IPCTNL_MSG_CT_NEW,
} from '../linux.js'
import type { Message } from '../netlink/message.js'
import { attributesOf } from './message.js'
import { namesOneOf, readTuple, type Tuple } from './tuple.js'

export interface Connection {
  /** The first packet's direction. */
  readonly original: Tuple
  /** What an answer looks like when it comes in: the other way round, and with NAT other addresses. */
  readonly reply: Tuple
  /**
   * The kernel makes it of the place in memory and the original tuple: a later connection of the same addresses and
   * ports has another one, unless it happens to be kept in the same place.
   */
  readonly id: number
  /** Conntrack zone of both directions; 0 when none is set, or one of a single direction. */
  readonly zone: number
  readonly mark: number
  /** IPS_*. */
  readonly status: number
  /** CTA_TUPLE_ORIG as it came, the zone of its direction included: what it is deleted by. */
  readonly tuple: Buffer
}

/** Undefined for a connection that is not IPv4. @throws MalformedMessage */
export function decodeConnection(message: Message): Connection | undefined {
  const attributes = attributesOf(message, IPCTNL_MSG_CT_NEW)
  if (message.bytes[message.payload] !== AF_INET) return undefined
  let original: Tuple | undefined
  let reply: Tuple | undefined
  let tuple: Buffer | undefined
  let id: number | undefined
  let zone = 0
  let mark = 0
  let status = 0
  while (attributes.next()) {
    switch (attributes.type) {
      case CTA_TUPLE_ORIG:
        original = readTuple(attributes.nested())
        // A copy: the list that it comes from is not kept for it.
        tuple = Buffer.from(attributes.raw())
        break
      case CTA_TUPLE_REPLY:
        reply = readTuple(attributes.nested())
        break
      case CTA_ID:
        id = attributes.u32be()
        break
      case CTA_ZONE:
        zone = attributes.u16be()
        break
      case CTA_MARK:
        mark = attributes.u32be()
        break
      case CTA_STATUS:
        status = attributes.u32be()
        break
      // Counters, timeouts, the state of its protocol: nothing is decided by them.
    }
  }
  if (original === undefined || reply === undefined || tuple === undefined || id === undefined) {
    throw attributes.malformed('a connection without its tuples and id')
  }
  return { original, reply, id, zone, mark, status, tuple }
}

/**
 * Whether one of the addresses, as numbers, is source or destination of either direction. It looks at nothing else: of a
 * table of a hundred thousand connections few are wanted, and this is many times faster than decoding them.
 *
 * @throws MalformedMessage
 */
export function isConnectionOf(addresses: ReadonlySet<number>, message: Message): boolean {
  const attributes = attributesOf(message, IPCTNL_MSG_CT_NEW)
  if (message.bytes[message.payload] !== AF_INET) return false
  let tuples = 0
  while (tuples < 2 && attributes.next()) {
    if (attributes.type !== CTA_TUPLE_ORIG && attributes.type !== CTA_TUPLE_REPLY) continue
    if (namesOneOf(addresses, attributes.nested())) return true
    tuples++
  }
  if (tuples < 2) throw attributes.malformed('a connection without its tuples')
  return false
}
