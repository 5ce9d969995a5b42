/** Next hops of a route of several (`struct rtnexthop`, rtnetlink(7)), and gateways of another family. */
import { RTA_GATEWAY, RTA_VIA } from '../linux.js'
import { AttributeReader } from '../netlink/attribute.js'
import { align } from '../netlink/message.js'

export interface NextHop {
  /** Index of the link that it goes out of. */
  readonly oif: number
  /** Dotted, or `via …` for a gateway of another family; null when there is none. */
  readonly gateway: string | null
  /** Its share of the flows, 1 or more. */
  readonly weight: number
}

const RTNEXTHOP = 8

/** The hops of a RTA_MULTIPATH attribute, where `attributes` stands. @throws MalformedMessage */
export function readMultipath(attributes: AttributeReader): NextHop[] {
  const { bytes } = attributes
  const { start, end } = attributes.value()
  const hops: NextHop[] = []
  let at = start
  while (at < end) {
    if (at + RTNEXTHOP > end) throw attributes.malformed('next hop is cut short')
    const length = bytes.readUInt16LE(at)
    if (length < RTNEXTHOP || length > end - at) throw attributes.malformed(`next hop of ${length} bytes`)
    const gateway = readGateway(new AttributeReader(bytes, at + RTNEXTHOP, at + length))
    hops.push({ oif: bytes.readInt32LE(at + 4), gateway, weight: bytes.readUInt8(at + 3) + 1 })
    at += align(length)
  }
  return hops
}

function readGateway(attributes: AttributeReader): string | null {
  let gateway: string | null = null
  while (attributes.next()) {
    if (attributes.type === RTA_GATEWAY) gateway = attributes.ipv4()
    else if (attributes.type === RTA_VIA) gateway = readVia(attributes)
  }
  return gateway
}

/** `struct rtvia`: `via`, the address family, the address in hex. @throws MalformedMessage */
export function readVia(attributes: AttributeReader): string {
  const via = attributes.raw()
  if (via.length < 2) throw attributes.malformed('gateway is cut short')
  return `via family ${via.readUInt16LE(0)} ${via.toString('hex', 2)}`
}
