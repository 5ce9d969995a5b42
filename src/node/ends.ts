/** Both ends of a workload's veth: the links on the node that bear its names, and the inside of its namespace. Reads, and changes nothing. */
import type { Host, OpenNamespace } from '../kernel/host.js'
import type { Save } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { RT_TABLE_MAIN, RTN_UNICAST } from '../kernel/linux.js'
import { type Address, addressesOf } from '../kernel/rtnetlink/address.js'
import { allLinks, type Link, linkByIndex, linkByName } from '../kernel/rtnetlink/link.js'
import { namespaceId } from '../kernel/rtnetlink/namespace-id.js'
import { type Route, routes } from '../kernel/rtnetlink/route.js'
import type { Live } from './conclude.js'
import { hostVethName, hostVethOctet, namespaceName, peerVethName, workloadOctets } from './contract.js'
import type { ContainerNet } from './net.js'
import { freshly, readLists } from './read.js'
import type { Subnet } from './subnet.js'
import { openNamed } from './system.js'
import { ownTables } from './tables.js'
import type { NodeView } from './view.js'

/** The inside of a workload's namespace. */
export interface Inside {
  readonly name: string
  readonly opened: OpenNamespace
  readonly links: readonly Link[]
  /**
   * eth0, when there is one, or what an older deploy that was killed did not get to name so; its addresses, and the routes
   * out of it.
   */
  readonly eth0: Link | null
  readonly addresses: readonly Address[]
  readonly routes: readonly Route[]
  /** eth0's other end, when it is in the host's namespace. */
  readonly hostEnd: Link | null
  /** Of a host end that hangs on nothing, its IPv4 addresses. */
  readonly hostEndAddresses: readonly Address[]
  /** The host veth that is eth0's other end and hangs on one of the node's bridges: the workload runs. */
  readonly live: Live | null
}

/** Opens and reads the namespace that a workload's name stands for. Null when there is none. The caller closes it. */
export async function readInside(
  host: Host,
  live: ReadonlyMap<string, Live>,
  workload: string,
  signal?: AbortSignal,
): Promise<Inside | null> {
  const name = namespaceName(workload)
  const opened = await openNamed(host, name)
  if (opened === null) return null
  try {
    const read = await freshly(async () => {
      const [links] = await readLists(opened.host, [allLinks()], { signal })
      const eth0 = links.find((link) => link.name === 'eth0') ?? links.find(isUnnamedPeer) ?? null
      if (eth0 === null) return { links, eth0, addresses: [], routes: [] }
      const [addresses, out] = await readLists(
        opened.host,
        [addressesOf(eth0.index), routes({ table: RT_TABLE_MAIN, type: RTN_UNICAST, devices: [eth0.index] })],
        { signal, empty: ['ENOENT'], gone: ['ENODEV'] },
      )
      return { links, eth0, addresses, routes: out }
    }, signal)
    const hostEnd = read.eth0 === null ? null : await readHostEnd(host, opened, read.eth0, signal)
    const hostEndAddresses = await addressesOfLoose(host, [hostEnd], signal)
    const found = [...live.values()].find(({ veth }) => veth.index === hostEnd?.index)
    return { name, opened, ...read, hostEnd, hostEndAddresses, live: found ?? null }
  } catch (error) {
    opened.host.close()
    throw error
  }
}

function isUnnamedPeer({ name, kind }: Link): boolean {
  return kind === 'veth' && workloadOctets().some((octet) => name === peerVethName(octet))
}

/** The other end of eth0, when it is in the host's namespace: an index says nothing without the namespace that it counts in. */
async function readHostEnd(
  host: Host,
  opened: OpenNamespace,
  eth0: Link,
  signal: AbortSignal | undefined,
): Promise<Link | null> {
  if (eth0.kind !== 'veth' || eth0.peerIndex === 0) return null
  const [[id = -1]] = await readLists(host, [namespaceId(opened.descriptor)], { signal })
  const [[end]] = await readLists(host, [linkByIndex(eth0.peerIndex)], { signal, absent: ['ENODEV'] })
  const isPair = end !== undefined && end.kind === 'veth' && end.peerIndex === eth0.index && end.peerNamespace === id
  return isPair && id !== -1 ? end : null
}

/** The IPv4 addresses of those of the links that hang on nothing. */
async function addressesOfLoose(
  host: Host,
  links: readonly (Link | null)[],
  signal: AbortSignal | undefined,
): Promise<readonly Address[]> {
  const loose = links.flatMap((link) => (link?.master === 0 ? [addressesOf(link.index)] : []))
  return (await freshly(() => readLists(host, loose, { signal, empty: ['ENODEV'] }), signal)).flat()
}

/** What a kernel puts into every namespace, down, unless net.core.fb_tunnels_only_for_init_net says otherwise. */
const FALLBACK_TUNNELS: ReadonlySet<string> = new Set([
  'tunl0',
  'gre0',
  'gretap0',
  'erspan0',
  'ip_vti0',
  'ip6_vti0',
  'sit0',
  'ip6tnl0',
  'ip6gre0',
])

/**
 * Why a namespace was not made for a workload; null when it may have been: it holds no more than its loopback, and an eth0
 * whose other end is a host veth. `subnet`: null when it is not known.
 */
export function strangerInside(inside: Inside, net: ContainerNet, subnet: Subnet | null): string | null {
  const { links, eth0, hostEnd, live } = inside
  const other = links.find((link) => !isUsual(link, eth0))
  if (other !== undefined) return `it holds link ${other.name}`
  if (eth0 === null || live !== null) return null
  if (eth0.kind !== 'veth') return `its eth0 is of kind ${eth0.kind || 'none'}`
  if (hostEnd === null) return 'the other end of its eth0 is not in this network namespace'
  const octet = hostVethOctet(hostEnd.name)
  if (octet === null || hostEnd.master !== 0)
    return `the other end of its eth0 is ${hostEnd.name}, on none of this node's bridges`
  // Of a host veth that hangs on nothing, somebody took the bridge away; or it is of another making, and routed.
  const [routed] = inside.hostEndAddresses
  if (routed !== undefined) return `the other end of its eth0, ${hostEnd.name}, has address ${routed.address}`
  const another = inside.addresses.find(
    ({ address }) => (subnet ?? net.subnetOf(address))?.workloadOctet(address) !== octet,
  )
  return another === undefined
    ? null
    : `its eth0 has address ${another.address}, which ${hostEnd.name} does not stand for`
}

function isUsual({ name, up }: Link, eth0: Link | null): boolean {
  return name === 'lo' || name === eth0?.name || (FALLBACK_TUNNELS.has(name) && !up)
}

/** The links that bear the names of an address's veth pair, and the one that answers to its bridge's. */
export interface HostEnds {
  readonly bridge: Link | null
  readonly veth: Link | null
  readonly peer: Link | null
  /** The IPv4 addresses of both ends, as far as they hang on nothing. */
  readonly addresses: readonly Address[]
}

export async function readHostEnds(host: Host, octet: number, bridge: string, signal?: AbortSignal): Promise<HostEnds> {
  const names = [hostVethName(octet), peerVethName(octet), bridge]
  const found = await readLists(
    host,
    names.map((name) => linkByName(name)),
    { signal, absent: ['ENODEV'] },
  )
  // The kernel answers to alternative names too.
  const [veth = null, peer = null] = names.map((name, i) => found[i]?.find((link) => link.name === name) ?? null)
  const addresses = await addressesOfLoose(host, [veth, peer], signal)
  return { veth, peer, bridge: found[2]?.[0] ?? null, addresses }
}

/**
 * Why the names `veth<n>` and `vethc<n>` are somebody else's; null when they are free or ours: on one of the node's bridges, or
 * the pair that an interrupted deploy leaves, which hangs on nothing and has no address.
 */
export function strangerEnds({ veth, peer, addresses }: Omit<HostEnds, 'bridge'>, view: NodeView): string | null {
  const isPair = veth !== null && peer !== null && veth.peerNamespace === -1 && veth.peerIndex === peer.index
  const isOurs = veth !== null && view.links.bridges.some(({ link }) => link.index === veth.master)
  if (veth !== null && veth.kind !== 'veth')
    return `${veth.name} is somebody else's: a link of kind ${veth.kind || 'none'}`
  if (veth !== null && !isOurs && !(isPair && veth.master === 0))
    return `${veth.name} is somebody else's: it is on none of this node's bridges`
  const [routed] = addresses
  if (veth !== null && !isOurs && routed !== undefined)
    return `${veth.name} is somebody else's: the pair has address ${routed.address}`
  if (peer !== null && !(isPair && peer.master === 0))
    return `${peer.name} is somebody else's: it is no end of a pair that an interrupted deploy left`
  return null
}

/** Which back end a deploy writes to: the one that holds this project's state; nft when both do, or none. */
export function writingBackend(net: ContainerNet, view: NodeView, subnet: Subnet): { backend: Backend; save: Save } {
  const empty: Save = { tables: new Map(), incompatible: [] }
  const holds = (backend: Backend): boolean => {
    const save = view.iptables.get(backend)
    if (save === undefined) return false
    const { chains, rules } = ownTables(new Map([[backend, save]]), net, subnet)
    return chains.length + rules.length > 0
  }
  const backend = net.iptables === 'auto' ? (holds('legacy') && !holds('nft') ? 'legacy' : 'nft') : net.iptables
  return { backend, save: view.iptables.get(backend) ?? empty }
}
