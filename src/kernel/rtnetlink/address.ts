/** IPv4 addresses of links (`struct ifaddrmsg`, rtnetlink(7)). */
import {
  AF_INET,
  IFA_ADDRESS,
  IFA_BROADCAST,
  IFA_CACHEINFO,
  IFA_FLAGS,
  IFA_LABEL,
  IFA_LOCAL,
  IFA_PROTO,
  IFA_RT_PRIORITY,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  RTM_DELADDR,
  RTM_GETADDR,
  RTM_NEWADDR,
} from '../linux.js'
import { AttributeReader, AttributeWriter, type UnknownAttribute } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt, linkIndex } from './expect.js'

export interface Address {
  /** Of the link that holds it. */
  readonly index: number
  /** The link's own address, dotted (IFA_LOCAL). */
  readonly address: string
  readonly prefix: number
  /** The other end of a point-to-point address (IFA_ADDRESS where it differs); null otherwise. */
  readonly peer: string | null
  readonly broadcast: string | null
  /** '' when none. */
  readonly label: string
  /** RT_SCOPE_*. */
  readonly scope: number
  /** IFA_F_*. */
  readonly flags: number
  /** Metric of the route to its network; 0 when not set. */
  readonly metric: number
  /** IFAPROT_*: who set it; 0 when not told. */
  readonly protocol: number
  readonly unknown: readonly UnknownAttribute[]
}

const IFADDRMSG = 8

/** Undefined for an address that is not IPv4. @throws MalformedMessage */
export function decodeAddress(message: Message): Address | undefined {
  const { bytes, payload } = message
  const attributes = new AttributeReader(bytes, attributesAt(message, RTM_NEWADDR, IFADDRMSG))
  if (bytes[payload] !== AF_INET) return undefined
  const prefix = bytes.readUInt8(payload + 1)
  if (prefix > 32) throw attributes.malformed(`prefix length ${prefix}`)
  let flags = bytes.readUInt8(payload + 2)
  let local: string | undefined
  let remote: string | undefined
  let broadcast: string | null = null
  let label = ''
  let metric = 0
  let protocol = 0
  const unknown: UnknownAttribute[] = []
  while (attributes.next()) {
    switch (attributes.type) {
      case IFA_ADDRESS:
        remote = attributes.ipv4()
        break
      case IFA_LOCAL:
        local = attributes.ipv4()
        break
      case IFA_BROADCAST:
        broadcast = attributes.ipv4()
        break
      case IFA_LABEL:
        label = attributes.string()
        break
      case IFA_FLAGS:
        flags = attributes.u32()
        break
      case IFA_RT_PRIORITY:
        metric = attributes.u32()
        break
      case IFA_PROTO:
        protocol = attributes.u8()
        break
      case IFA_CACHEINFO:
        break // lifetimes and time stamps
      default:
        unknown.push(attributes.unknown())
    }
  }
  const address = local ?? remote
  if (address === undefined) throw attributes.malformed('an address entry without an address')
  const peer = remote === undefined || remote === address ? null : remote
  const scope = bytes.readUInt8(payload + 3)
  const index = bytes.readUInt32LE(payload + 4)
  return { index, address, prefix, peer, broadcast, label, scope, flags, metric, protocol, unknown }
}

/** The IPv4 addresses of one link. ENODEV when it is gone. */
export function addressesOf(index: number): Request<Address> {
  return {
    what: `IPv4 addresses of link ${index}`,
    type: RTM_GETADDR,
    flags: NLM_F_DUMP,
    payload: header(linkIndex(index)),
    decode(message) {
      const address = decodeAddress(message)
      return address?.index === index ? address : undefined
    },
  }
}

/**
 * Not point-to-point, and without a broadcast address, as ip(8) has it. EEXIST when the link has that address with that
 * prefix: with another it is another. ENODEV: the link is gone.
 */
export function addAddress(
  { index, address, prefix }: Pick<Address, 'index' | 'address' | 'prefix'>,
  what: string,
): Request<never> {
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
  return { what, type: RTM_NEWADDR, flags, payload: whole(index, address, prefix), decode: () => undefined }
}

/** Not a point-to-point one. EADDRNOTAVAIL when the link has no such address with that prefix. ENODEV: the link is gone. */
export function deleteAddress(
  { index, address, prefix }: Pick<Address, 'index' | 'address' | 'prefix'>,
  what: string,
): Request<never> {
  const payload = whole(index, address, prefix)
  return { what, type: RTM_DELADDR, flags: NLM_F_ACK, payload, decode: () => undefined }
}

function whole(index: number, address: string, prefix: number): Buffer {
  const payload = new AttributeWriter(header(linkIndex(index), prefix)).ipv4(IFA_LOCAL, address)
  return payload.ipv4(IFA_ADDRESS, address).finish()
}

/** Scope 0: everywhere. */
function header(index: number, prefix = 0): Buffer {
  const bytes = Buffer.alloc(IFADDRMSG)
  bytes.writeUInt8(AF_INET, 0)
  bytes.writeUInt8(prefix, 1)
  bytes.writeUInt32LE(index, 4)
  return bytes
}
