/** IPv4 neighbours and proxy neighbours (`struct ndmsg`, rtnetlink(7)). */
import {
  AF_INET,
  NDA_CACHEINFO,
  NDA_DST,
  NDA_IFINDEX,
  NDA_LLADDR,
  NDA_PROBES,
  NDA_PROTOCOL,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_REPLACE,
  NTF_PROXY,
  RTM_DELNEIGH,
  RTM_GETNEIGH,
  RTM_NEWNEIGH,
} from '../linux.js'
import { AttributeReader, AttributeWriter, type UnknownAttribute } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt, linkIndex } from './expect.js'

export interface Neighbour {
  /** Of the link that it is a neighbour on; 0 for a proxy entry that holds on every link. */
  readonly index: number
  /** Dotted. */
  readonly address: string
  /** NUD_*. */
  readonly state: number
  /** NTF_*. */
  readonly flags: number
  /** An address that this node answers for, not one that it knows. */
  readonly proxy: boolean
  /** Link-layer address, 'aa:bb:…'; null when there is none. */
  readonly lladdr: string | null
  /** RTPROT_*: who made it; 0 when not told. */
  readonly protocol: number
  readonly unknown: readonly UnknownAttribute[]
}

const NDMSG = 12

/** Undefined for a neighbour that is not IPv4. @throws MalformedMessage */
export function decodeNeighbour(message: Message): Neighbour | undefined {
  const { bytes, payload } = message
  const attributes = new AttributeReader(bytes, attributesAt(message, RTM_NEWNEIGH, NDMSG))
  if (bytes[payload] !== AF_INET) return undefined
  const flags = bytes.readUInt8(payload + 10)
  let address: string | undefined
  let lladdr: string | null = null
  let protocol = 0
  const unknown: UnknownAttribute[] = []
  while (attributes.next()) {
    switch (attributes.type) {
      case NDA_DST:
        address = attributes.ipv4()
        break
      case NDA_LLADDR:
        lladdr = formatLinkLayer(attributes.raw())
        break
      case NDA_PROTOCOL:
        protocol = attributes.u8()
        break
      case NDA_CACHEINFO:
      case NDA_PROBES:
        break // ages and counters
      default:
        unknown.push(attributes.unknown())
    }
  }
  if (address === undefined) throw attributes.malformed('a neighbour without an address')
  return {
    index: bytes.readInt32LE(payload + 4),
    address,
    state: bytes.readUInt16LE(payload + 8),
    flags,
    proxy: (flags & NTF_PROXY) !== 0,
    lladdr,
    protocol,
    unknown,
  }
}

/** All IPv4 proxy entries. They never come with the ordinary neighbours. */
export function proxies(): Request<Neighbour> {
  return dump('IPv4 proxy neighbours', NTF_PROXY, 0)
}

/** The IPv4 neighbours of one link, proxy entries not among them. Nothing, and no error, when it is gone. */
export function neighboursOf(index: number): Request<Neighbour> {
  return dump(`IPv4 neighbours of link ${index}`, 0, linkIndex(index))
}

/** Makes this node answer for the address on that link. One that is there already stays. ENODEV: the link is gone. */
export function addProxy(entry: Pick<Neighbour, 'index' | 'address'>, what: string): Request<never> {
  const payload = new AttributeWriter(header(linkIndex(entry.index), NTF_PROXY)).ipv4(NDA_DST, entry.address).finish()
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE
  return { what, type: RTM_NEWNEIGH, flags, payload, decode: () => undefined }
}

/** ENOENT when the entry is gone, ENODEV when its link is. */
export function deleteProxy(entry: Pick<Neighbour, 'index' | 'address'>): Request<never> {
  return remove(`delete proxy neighbour ${entry.address} of link ${entry.index}`, NTF_PROXY, entry)
}

/** ENOENT when the entry is gone. Takes permanent and NOARP entries too: look at the state before. */
export function deleteNeighbour(entry: Pick<Neighbour, 'index' | 'address'>): Request<never> {
  return remove(`delete neighbour ${entry.address} of link ${entry.index}`, 0, entry)
}

function dump(what: string, flags: number, index: number): Request<Neighbour> {
  // Under strict checking an index in the header is refused: the filter is an attribute.
  const payload = new AttributeWriter(header(0, flags))
  if (index !== 0) payload.u32(NDA_IFINDEX, index)
  return {
    what,
    type: RTM_GETNEIGH,
    flags: NLM_F_DUMP,
    payload: payload.finish(),
    decode(message) {
      const entry = decodeNeighbour(message)
      if (entry === undefined || entry.proxy !== (flags === NTF_PROXY)) return undefined
      return index === 0 || entry.index === index ? entry : undefined
    },
  }
}

function remove(what: string, flags: number, entry: Pick<Neighbour, 'index' | 'address'>): Request<never> {
  const payload = new AttributeWriter(header(entry.index, flags)).ipv4(NDA_DST, entry.address).finish()
  return { what, type: RTM_DELNEIGH, flags: NLM_F_ACK, payload, decode: () => undefined }
}

function header(index: number, flags: number): Buffer {
  const bytes = Buffer.alloc(NDMSG)
  bytes.writeUInt8(AF_INET, 0)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt8(flags, 10)
  return bytes
}

function formatLinkLayer(address: Buffer): string {
  return Array.from(address, (octet) => octet.toString(16).padStart(2, '0')).join(':')
}
