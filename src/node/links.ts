/** Reads the links that concern the node: its own bridges with what hangs on them, and the host veths. Decides nothing. */
import type { BridgePorts, Host } from '../kernel/host.js'
import { NetlinkError } from '../kernel/netlink/errors.js'
import type { Request } from '../kernel/netlink/request.js'
import { type Address, addressesOf } from '../kernel/rtnetlink/address.js'
import { type Link, linkByIndex, linkByName, linksOfKind, linksOn, portsOf } from '../kernel/rtnetlink/link.js'
import { hostVethName, hostVethOctet, workloadOctets } from './contract.js'
import type { ContainerNet } from './net.js'
import { type ReadOptions, readError, readLists, Stale } from './read.js'

/** The node bridge, or a bridge whose name has a tenant bridge's form. */
export interface OwnBridge {
  readonly link: Link
  readonly tenant: boolean
  readonly addresses: readonly Address[]
  /** What is enslaved to a tenant bridge; not read for the node bridge, where it decides nothing. */
  readonly ports: readonly Link[]
  /** What stands on a tenant bridge and goes with it: macvlan, vlan, vxlan. Read by the second reading alone. */
  readonly uppers?: readonly Link[]
}

/** What one reading of the links saw. */
export interface LinkReading {
  readonly bridges: readonly OwnBridge[]
  /** Links of kind veth named exactly `veth<octet>`, enslaved or not. */
  readonly veths: readonly Link[]
  /** The peers of those veths that hang on nothing, by the veth's index, where they are in this namespace. */
  readonly loosePeers: ReadonlyMap<number, Link>
  /** The names of the bridges that are not the node's own, by index. */
  readonly otherBridges: ReadonlyMap<number, string>
  /** Those of the names asked after that the kernel knows a link by: of any kind, and as an alternative name too. */
  readonly taken: ReadonlySet<string>
}

/** The names of the node's own bridges, by index. */
export function bridgeNames({ bridges }: Pick<LinkReading, 'bridges'>): ReadonlyMap<number, string> {
  return new Map(bridges.map(({ link }) => [link.index, link.name]))
}

export async function readLinks(host: Host, net: ContainerNet, options: ReadOptions): Promise<LinkReading> {
  // Veths first: the other way round, one might hang on a bridge that was made in between, and seem to hang on none.
  const named = await readLists(host, hostVeths(), { ...options, absent: ['ENODEV'] })
  // The kernel answers to alternative names too; a host veth is one by its own name, and once.
  const byIndex = new Map(named.flat().map((link) => [link.index, link]))
  const veths = [...byIndex.values()].filter(({ name, kind }) => kind === 'veth' && hostVethOctet(name) !== null)
  const found = await tellBridges(host, options)
  const own = found.filter(({ name }) => name === net.bridge || net.isTenantBridge(name))
  const bridges = await readBridges(host, net, own, veths, options)
  const loosePeers = await readLoosePeers(host, veths, options)
  const otherBridges = new Map(found.filter((bridge) => !own.includes(bridge)).map(({ index, name }) => [index, name]))
  return { bridges, veths, loosePeers, otherBridges, taken: new Set() }
}

/** The questions for all host veths, worded once. */
function hostVeths(): readonly Request<Link>[] {
  hostVethRequests ??= workloadOctets().map((octet) => linkByName(hostVethName(octet)))
  return hostVethRequests
}

let hostVethRequests: readonly Request<Link>[] | undefined

/** A bridge as it was listed. */
type ToldBridge = Pick<Link, 'index' | 'name'>

/** All bridges of the node. */
async function tellBridges(host: Host, options: ReadOptions): Promise<readonly ToldBridge[]> {
  const told = await tell(host.bridgeNames(), 'bridges')
  if (told !== null) return Array.from(told, ([index, name]) => ({ index, name }))
  const [found] = await readLists(host, [linksOfKind('bridge')], options)
  return found
}

async function readBridges(
  host: Host,
  net: ContainerNet,
  bridges: readonly ToldBridge[],
  veths: readonly Link[],
  options: ReadOptions,
): Promise<OwnBridge[]> {
  const tenants = bridges.filter(({ name }) => name !== net.bridge)
  const asked = await askPorts(host, tenants, veths)
  const count = bridges.length
  const indexes = bridges.map(({ index }) => index)
  const lists = await readLists(host, [...indexes.map(linkByIndex), ...indexes.map(addressesOf), ...asked.requests], {
    ...options,
    gone: ['ENODEV'],
  })
  const links = stillBridges(bridges, lists.slice(0, count) as readonly (readonly Link[])[])
  const addresses = lists.slice(count, 2 * count) as readonly (readonly Address[])[]
  const ports = asked.ports(lists.slice(2 * count) as readonly (readonly Link[])[])
  return links.map((link, i) => ({
    link,
    tenant: link.name !== net.bridge,
    addresses: addresses[i] ?? [],
    ports: ports[tenants.findIndex(({ index }) => index === link.index)] ?? [],
  }))
}

/** The ports of these bridges, each by its place. */
export async function readPorts(
  host: Host,
  bridges: readonly ToldBridge[],
  options: ReadOptions,
): Promise<readonly (readonly Link[])[]> {
  const asked = await askPorts(host, bridges, [])
  const requests = [...bridges.map(({ index }) => linkByIndex(index)), ...asked.requests]
  const lists = await readLists(host, requests, { ...options, gone: ['ENODEV'] })
  stillBridges(bridges, lists)
  return asked.ports(lists.slice(bridges.length))
}

/** Bridges are listed, and asked for their ports, by name: each must have had its own at the end as well. @throws Stale */
function stillBridges(bridges: readonly ToldBridge[], answers: readonly (readonly Link[])[]): readonly Link[] {
  return bridges.map(({ index, name }, i) => {
    const link = answers[i]?.[0]
    if (link?.name !== name || link.kind !== 'bridge') throw new Stale(`link ${index}`, `it is not ${name} any more`)
    return link
  })
}

/** What the bridges say of their ports, the questions that this leaves, and what the answers to these come to. */
interface AskedPorts {
  readonly requests: readonly Request<Link>[]
  /** @throws Stale */
  ports(answers: readonly (readonly Link[])[]): readonly (readonly Link[])[]
}

/** `known`: links that need not be asked for again. */
async function askPorts(host: Host, bridges: readonly ToldBridge[], known: readonly Link[]): Promise<AskedPorts> {
  const told = await tellPorts(host, bridges)
  const byIndex = new Map(known.map((link) => [link.index, link]))
  const isKnown = (index: number, bridge: ToldBridge): boolean => byIndex.get(index)?.master === bridge.index
  const requests = bridges.map((bridge, i) => {
    const ports = told[i]
    // A kernel whose bridges do not tell: by walking all links.
    if (ports === undefined || 'code' in ports) return [portsOf(bridge.index)]
    return ports.indexes.filter((index) => !isKnown(index, bridge)).map((index) => linkByIndex(index))
  })
  return {
    requests: requests.flat(),
    ports(answers) {
      const links = [...answers]
      return bridges.map((bridge, i) => {
        const others = links.splice(0, requests[i]?.length ?? 0).flat()
        const moved = others.find(({ master }) => master !== bridge.index)
        if (moved !== undefined) throw new Stale(`ports of ${bridge.name}`, `port ${moved.name} has left it meanwhile`)
        const ports = told[i]
        const kept =
          ports !== undefined && 'indexes' in ports ? ports.indexes.filter((index) => isKnown(index, bridge)) : []
        return [...kept.flatMap((index) => byIndex.get(index) ?? []), ...others]
      })
    },
  }
}

/** What a kernel answers whose bridges do not tell. */
const UNTOLD: ReadonlySet<string> = new Set(['EOPNOTSUPP', 'ENOTTY'])

async function tellPorts(host: Host, bridges: readonly ToldBridge[]): Promise<readonly BridgePorts[]> {
  const names = bridges.map(({ name }) => name)
  const found = await tell(host.bridgePorts(names), 'ports of the tenant bridges')
  for (const [i, ports] of found.entries()) {
    if ('indexes' in ports || UNTOLD.has(ports.code)) continue
    const what = `ports of ${bridges[i]?.name}`
    if (ports.code === 'ENODEV') throw new Stale(what, 'it has gone meanwhile')
    throw readError(what, new NetlinkError({ operation: what, code: ports.code }))
  }
  return found
}

async function tell<T>(telling: Promise<T>, read: string): Promise<T> {
  try {
    return await telling
  } catch (cause) {
    const { code = 'FAILED' } = cause as NodeJS.ErrnoException
    throw readError(read, new NetlinkError({ operation: read, code, cause }))
  }
}

/** What stands on tenant bridges without a port and would go with them, as far as it is in this namespace. */
export async function readUppers(
  host: Host,
  bridges: readonly OwnBridge[],
  options: ReadOptions,
): Promise<readonly OwnBridge[]> {
  const empty = bridges.filter(({ tenant, ports }) => tenant && ports.length === 0).map(({ link }) => link.index)
  // The kernel walks all of the node's links for it: for the sake of bridges that may be deleted alone.
  if (empty.length === 0) return bridges
  const [links] = await readLists(host, [linksOn(empty)], options)
  return bridges.map((bridge) => ({
    ...bridge,
    uppers: links.filter(({ peerIndex }) => peerIndex === bridge.link.index),
  }))
}

async function readLoosePeers(
  host: Host,
  veths: readonly Link[],
  options: ReadOptions,
): Promise<ReadonlyMap<number, Link>> {
  const loose = veths.filter(
    ({ master, peerNamespace, peerIndex }) => master === 0 && peerNamespace === -1 && peerIndex !== 0,
  )
  const peers = await readLists(
    host,
    loose.map(({ peerIndex }) => linkByIndex(peerIndex)),
    { ...options, absent: ['ENODEV'] },
  )
  return new Map(loose.flatMap(({ index }, i) => (peers[i]?.[0] ? [[index, peers[i][0]] as const] : [])))
}
