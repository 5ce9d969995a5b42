/** One direction of a tracked connection (CTA_TUPLE_*). */
import {
  CTA_IP_V4_DST,
  CTA_IP_V4_SRC,
  CTA_PROTO_DST_PORT,
  CTA_PROTO_ICMP_CODE,
  CTA_PROTO_ICMP_ID,
  CTA_PROTO_ICMP_TYPE,
  CTA_PROTO_NUM,
  CTA_PROTO_SRC_PORT,
  CTA_TUPLE_IP,
  CTA_TUPLE_PROTO,
} from '../linux.js'
import type { AttributeReader } from '../netlink/attribute.js'

export interface Tuple {
  /** Dotted. */
  readonly source: string
  readonly destination: string
  /** IPPROTO_*. */
  readonly protocol: number
  /** Null for a protocol without ports. */
  readonly sourcePort: number | null
  readonly destinationPort: number | null
  /** Null for any protocol but ICMP. */
  readonly icmp: { readonly type: number; readonly code: number; readonly id: number } | null
}

/** @throws MalformedMessage */
export function readTuple(attributes: AttributeReader): Tuple {
  let addresses: Pick<Tuple, 'source' | 'destination'> | undefined
  let protocol: Omit<Tuple, 'source' | 'destination'> | undefined
  while (attributes.next()) {
    // The third that there may be, a zone, means nothing without its place in the whole.
    if (attributes.type === CTA_TUPLE_IP) addresses = readAddresses(attributes.nested())
    else if (attributes.type === CTA_TUPLE_PROTO) protocol = readProtocol(attributes.nested())
  }
  if (addresses === undefined || protocol === undefined) throw attributes.malformed('half a tuple')
  return { ...addresses, ...protocol }
}

/** Whether its source or destination is one of these, as numbers. @throws MalformedMessage */
export function namesOneOf(addresses: ReadonlySet<number>, attributes: AttributeReader): boolean {
  while (attributes.next()) {
    if (attributes.type !== CTA_TUPLE_IP) continue
    const ends = attributes.nested()
    while (ends.next()) {
      if ((ends.type === CTA_IP_V4_SRC || ends.type === CTA_IP_V4_DST) && addresses.has(ends.u32be())) return true
    }
    return false
  }
  throw attributes.malformed('a tuple without its addresses')
}

function readAddresses(attributes: AttributeReader): Pick<Tuple, 'source' | 'destination'> {
  let source: string | undefined
  let destination: string | undefined
  while (attributes.next()) {
    if (attributes.type === CTA_IP_V4_SRC) source = attributes.ipv4()
    else if (attributes.type === CTA_IP_V4_DST) destination = attributes.ipv4()
  }
  if (source === undefined || destination === undefined) throw attributes.malformed('a tuple without its addresses')
  return { source, destination }
}

function readProtocol(attributes: AttributeReader): Omit<Tuple, 'source' | 'destination'> {
  let protocol: number | undefined
  let sourcePort: number | null = null
  let destinationPort: number | null = null
  let type: number | undefined
  let code: number | undefined
  let id: number | undefined
  while (attributes.next()) {
    switch (attributes.type) {
      case CTA_PROTO_NUM:
        protocol = attributes.u8()
        break
      case CTA_PROTO_SRC_PORT:
        sourcePort = attributes.u16be()
        break
      case CTA_PROTO_DST_PORT:
        destinationPort = attributes.u16be()
        break
      case CTA_PROTO_ICMP_TYPE:
        type = attributes.u8()
        break
      case CTA_PROTO_ICMP_CODE:
        code = attributes.u8()
        break
      case CTA_PROTO_ICMP_ID:
        id = attributes.u16be()
        break
    }
  }
  if (protocol === undefined) throw attributes.malformed('a tuple without its protocol')
  const icmp = type === undefined || code === undefined || id === undefined ? null : { type, code, id }
  return { protocol, sourcePort, destinationPort, icmp }
}
