/** Links (`struct ifinfomsg`, rtnetlink(7)). */
import {
  AF_UNSPEC,
  IFF_UP,
  IFLA_ADDRESS,
  IFLA_ALT_IFNAME,
  IFLA_EXT_MASK,
  IFLA_GROUP,
  IFLA_IFNAME,
  IFLA_INFO_DATA,
  IFLA_INFO_KIND,
  IFLA_LINK,
  IFLA_LINK_NETNSID,
  IFLA_LINKINFO,
  IFLA_MASTER,
  IFLA_MTU,
  IFLA_NET_NS_FD,
  IFLA_OPERSTATE,
  IFLA_PROP_LIST,
  IFLA_VXLAN_LINK,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  RTEXT_FILTER_SKIP_STATS,
  RTM_DELLINK,
  RTM_GETLINK,
  RTM_NEWLINK,
  VETH_INFO_PEER,
} from '../linux.js'
import { AttributeReader, AttributeWriter } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt, linkIndex } from './expect.js'

export interface Link {
  /** Its identity: a name can change hands. */
  readonly index: number
  /** The kernel's own name (IFLA_IFNAME), not one of the alternative ones. */
  readonly name: string
  /** IFLA_INFO_KIND: 'bridge', 'veth', …; '' for a link that was not made by a kind (a NIC, lo). */
  readonly kind: string
  /** Index of the device that this one is enslaved to; 0 when none. */
  readonly master: number
  readonly up: boolean
  /** IFF_*. */
  readonly flags: number
  /** Bytes. */
  readonly mtu: number
  /** Index of a veth's other end, or of the device below, in the namespace that `peerNamespace` names; 0 when none. */
  readonly peerIndex: number
  /** Id, in this namespace's numbering, of the namespace that the peer lives in; -1 when it is this one, or none. */
  readonly peerNamespace: number
  readonly altNames: readonly string[]
}

const IFINFOMSG = 16

/** @throws MalformedMessage */
export function decodeLink(message: Message): Link {
  const { bytes, payload } = message
  const attributes = new AttributeReader(bytes, attributesAt(message, RTM_NEWLINK, IFINFOMSG))
  const index = bytes.readInt32LE(payload + 4)
  const flags = bytes.readUInt32LE(payload + 8)
  let name: string | undefined
  let info: LinkInfo = { kind: '', below: 0 }
  let master = 0
  let mtu = 0
  let peerIndex = 0
  let peerNamespace = -1
  const altNames: string[] = []
  while (attributes.next()) {
    switch (attributes.type) {
      case IFLA_IFNAME:
        name = attributes.string()
        break
      case IFLA_MTU:
        mtu = attributes.u32()
        break
      case IFLA_LINK:
        peerIndex = attributes.u32()
        break
      case IFLA_LINK_NETNSID:
        peerNamespace = attributes.s32()
        break
      case IFLA_MASTER:
        master = attributes.u32()
        break
      case IFLA_LINKINFO:
        info = readInfo(attributes.nested())
        break
      case IFLA_PROP_LIST:
        readAltNames(attributes.nested(), altNames)
        break
      // Some forty others, statistics and all, are passed over: nothing is decided by them, and a node may have
      // thousands of links.
    }
  }
  if (name === undefined) throw attributes.malformed('a link without a name')
  const up = (flags & IFF_UP) !== 0
  const { kind, below } = info
  // Where it lives in another namespace than the device below, IFLA_LINK is there too, and says nothing.
  return { index, name, kind, master, up, flags, mtu, peerIndex: below || peerIndex, peerNamespace, altNames }
}

/** Links of one kind: 'bridge', 'veth'. Kernels that do not know the kind list all links: those are left out here. */
export function linksOfKind(kind: string): Request<Link> {
  const filter = new AttributeWriter().string(IFLA_INFO_KIND, kind)
  return dumpLinks(`links of kind ${kind}`, dump().nested(IFLA_LINKINFO, filter), (link) => link.kind === kind)
}

/** Links enslaved to this device. Nothing, and no error, when that device is gone. */
export function portsOf(masterIndex: number): Request<Link> {
  const payload = dump().u32(IFLA_MASTER, linkIndex(masterIndex))
  return dumpLinks(`ports of link ${masterIndex}`, payload, (link) => link.master === masterIndex)
}

/** Links whose device below, in this namespace, is one of these: what stands on them, as a macvlan, a vlan or a vxlan does. */
export function linksOn(indexes: readonly number[]): Request<Link> {
  const isOn = ({ index, peerIndex, peerNamespace }: Link): boolean =>
    peerNamespace === -1 && peerIndex !== index && indexes.includes(peerIndex)
  // Without it: a vxlan, and whatever stands on nothing. Veths, which are most links where there are many, have it.
  const keep = { header: IFINFOMSG, attribute: IFLA_LINK, values: indexes.map(linkIndex), without: true }
  return { ...dumpLinks('all links', dump(), isOn), keep }
}

export function allLinks(): Request<Link> {
  return dumpLinks('all links', dump(), () => true)
}

/**
 * One link, by its name. The kernel also answers for an alternative name: compare the name in the answer.
 * ENODEV when there is none. No dump, so never interrupted.
 */
export function linkByName(name: string): Request<Link> {
  const payload = new AttributeWriter(header(0)).string(IFLA_IFNAME, name).u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
  return { what: `link ${name}`, type: RTM_GETLINK, flags: 0, payload: payload.finish(), decode: decodeLink }
}

/** One link, by its index. ENODEV when there is none. No dump, so never interrupted. */
export function linkByIndex(index: number): Request<Link> {
  const payload = new AttributeWriter(header(linkIndex(index))).u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
  return { what: `link ${index}`, type: RTM_GETLINK, flags: 0, payload: payload.finish(), decode: decodeLink }
}

/** The link address (IFLA_ADDRESS) of one link. ENODEV when there is none. No dump, so never interrupted. */
export function linkAddress(index: number): Request<Buffer> {
  return { ...linkByIndex(index), what: `link address of link ${index}`, decode: readLinkAddress }
}

/** The operational state (IFLA_OPERSTATE, IF_OPER_*) of one link. ENODEV when there is none. */
export function operationalState(index: number): Request<number> {
  return {
    ...linkByIndex(index),
    what: `state of link ${index}`,
    decode(message) {
      const attributes = new AttributeReader(message.bytes, attributesAt(message, RTM_NEWLINK, IFINFOMSG))
      while (attributes.next()) if (attributes.type === IFLA_OPERSTATE) return attributes.u8()
      return undefined
    },
  }
}

/** A veth pair in two namespaces, to be made. */
export interface NewVeth {
  /** Of the end here. */
  readonly name: string
  /** Index of the bridge that the end here hangs on. */
  readonly master: number
  /** The other end: its name, and an open descriptor of this process of the namespace that it is made in. */
  readonly peer: { readonly name: string; readonly namespaceFd: number }
  /** Bytes, of both ends; the kernel's default when left out. */
  readonly mtu?: number
}

/** What is to be different; the rest stays. */
export interface LinkChange {
  readonly up?: boolean
  /** 0: of none. */
  readonly master?: number
  readonly name?: string
  /** Bytes. */
  readonly mtu?: number
  /** The link address: a bridge that was given one, its own too, does not take its ports' any more. */
  readonly address?: Buffer
  /** Of links that `deleteGroup` deletes together; 0 is everybody's. */
  readonly group?: number
}

/** Makes a bridge, down. EEXIST when a link has that name, an alternative one too. */
export function createBridge(name: string, what: string): Request<never> {
  const info = new AttributeWriter().string(IFLA_INFO_KIND, 'bridge')
  return create(new AttributeWriter(header(0)).string(IFLA_IFNAME, name).nested(IFLA_LINKINFO, info), what)
}

/**
 * Makes a pair, both ends down, in one step: the end here is on its bridge, and the other one in its namespace, from
 * the moment that they exist, and a refusal leaves neither. EEXIST when either name is taken in its namespace, EINVAL
 * when there is no such master, EBADF when the descriptor is no network namespace.
 */
export function createVeth({ name, master, peer, mtu }: NewVeth, what: string): Request<never> {
  const other = new AttributeWriter(header(0)).string(IFLA_IFNAME, peer.name).u32(IFLA_NET_NS_FD, peer.namespaceFd)
  const link = new AttributeWriter(header(0)).string(IFLA_IFNAME, name).u32(IFLA_MASTER, linkIndex(master))
  // Each end has its own: the kernel gives neither the other's.
  if (mtu !== undefined) for (const end of [link, other]) end.u32(IFLA_MTU, mtu)
  const info = new AttributeWriter()
    .string(IFLA_INFO_KIND, 'veth')
    .nested(IFLA_INFO_DATA, new AttributeWriter().nested(VETH_INFO_PEER, other))
  return create(link.nested(IFLA_LINKINFO, info), what)
}

/**
 * Changes one link. Not atomic: where the kernel refuses one thing, others may have been done, so a change that must
 * be all or nothing names one. ENODEV when the link is gone.
 */
export function changeLink(
  index: number,
  { up, master, name, mtu, address, group }: LinkChange,
  what: string,
): Request<never> {
  const payload = new AttributeWriter(header(linkIndex(index), up ? IFF_UP : 0, up === undefined ? 0 : IFF_UP))
  if (master !== undefined) payload.u32(IFLA_MASTER, master)
  if (name !== undefined) payload.string(IFLA_IFNAME, name)
  if (mtu !== undefined) payload.u32(IFLA_MTU, mtu)
  if (address !== undefined) payload.raw(IFLA_ADDRESS, address)
  if (group !== undefined) payload.u32(IFLA_GROUP, group)
  return { what, type: RTM_NEWLINK, flags: NLM_F_ACK, payload: payload.finish(), decode: () => undefined }
}

/** Deletes by index alone: the kernel ignores whatever name is sent along. ENODEV when it is gone. */
export function deleteLink(index: number, what: string): Request<never> {
  return { what, type: RTM_DELLINK, flags: NLM_F_ACK, payload: header(linkIndex(index)), decode: () => undefined }
}

/** Deletes all links of a group, or, where one of them cannot be deleted, none. ENODEV when there are none. */
export function deleteGroup(group: number, what: string): Request<never> {
  if (group === 0) throw new RangeError(`${what}: group 0 is everybody's`)
  const payload = new AttributeWriter(header(0)).u32(IFLA_GROUP, group).finish()
  return { what, type: RTM_DELLINK, flags: NLM_F_ACK, payload, decode: () => undefined }
}

function create(payload: AttributeWriter, what: string): Request<never> {
  const flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
  return { what, type: RTM_NEWLINK, flags, payload: payload.finish(), decode: () => undefined }
}

function dumpLinks(what: string, payload: AttributeWriter, wanted: (link: Link) => boolean): Request<Link> {
  return {
    what,
    type: RTM_GETLINK,
    flags: NLM_F_DUMP,
    payload: payload.finish(),
    decode(message) {
      const link = decodeLink(message)
      return wanted(link) ? link : undefined
    },
  }
}

function dump(): AttributeWriter {
  return new AttributeWriter(header(0)).u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
}

/** Of `flags` (IFF_*), those in `change` are set or cleared. */
function header(index: number, flags = 0, change = 0): Buffer {
  const bytes = Buffer.alloc(IFINFOMSG)
  bytes.writeUInt8(AF_UNSPEC, 0)
  bytes.writeInt32LE(index, 4)
  bytes.writeUInt32LE(flags, 8)
  bytes.writeUInt32LE(change, 12)
  return bytes
}

function readLinkAddress(message: Message): Buffer | undefined {
  const attributes = new AttributeReader(message.bytes, attributesAt(message, RTM_NEWLINK, IFINFOMSG))
  while (attributes.next()) if (attributes.type === IFLA_ADDRESS) return attributes.raw()
  return undefined
}

interface LinkInfo {
  readonly kind: string
  /** Index of the device below that the kind's own data name; 0 when none. */
  readonly below: number
}

function readInfo(info: AttributeReader): LinkInfo {
  let kind = ''
  let below = 0
  while (info.next()) {
    if (info.type === IFLA_INFO_KIND) kind = info.string()
    // The kernel deletes a vxlan along with that device, and does not tell it as IFLA_LINK. The kind comes first.
    else if (info.type === IFLA_INFO_DATA && kind === 'vxlan') below = readVxlanLink(info.nested())
  }
  return { kind, below }
}

function readVxlanLink(data: AttributeReader): number {
  while (data.next()) if (data.type === IFLA_VXLAN_LINK) return data.u32()
  return 0
}

function readAltNames(properties: AttributeReader, into: string[]): void {
  while (properties.next()) if (properties.type === IFLA_ALT_IFNAME) into.push(properties.string())
}
