/** NodeView → what is live and what is left over. Pure: where two readings differ, what was live in either is live. */
import { byAddress } from '../kernel/ipv4.js'
import type { Address } from '../kernel/rtnetlink/address.js'
import type { Link } from '../kernel/rtnetlink/link.js'
import type { Neighbour } from '../kernel/rtnetlink/neighbour.js'
import type { Route } from '../kernel/rtnetlink/route.js'
import type { Rule } from '../kernel/rtnetlink/rule.js'
import type { Filter } from '../kernel/tc.js'
import { atOnce, type Work } from '../kernel/turns.js'
import { hostVethOctet, peerVethName } from './contract.js'
import { filterKey, type Identity, type Pair, pairsOf, proxyKey, wantedBy } from './grants.js'
import { bridgeNames, type LinkReading, type OwnBridge } from './links.js'
import { ownBridgeProhibit, owned, ownFilter, ownHostRoute, ownProxy, ownWorkloadProhibit } from './ownership.js'
import type { Notice } from './plan.js'
import type { Subnet } from './subnet.js'
import { type OwnTables, ownTablesOf } from './tables.js'
import type { NodeView } from './view.js'

/** A workload that runs: its host veth, on one of the node's bridges. */
export interface Live {
  readonly address: string
  readonly veth: Link
  readonly bridge: OwnBridge
}

/** Everything in the kernel that is this project's, live or not. */
export interface Own {
  readonly hostRoutes: readonly { readonly object: Route; readonly mine: string }[]
  readonly workloadProhibits: readonly { readonly object: Rule; readonly mine: string }[]
  readonly bridgeProhibits: readonly { readonly object: Rule; readonly mine: string }[]
  readonly proxies: readonly { readonly object: Neighbour; readonly mine: string }[]
  readonly filters: readonly { readonly object: Filter; readonly mine: { sender: string; target: string } }[]
  readonly tables: OwnTables
}

export interface Conclusion {
  readonly subnet: Subnet
  readonly own: Own
  /** By address. */
  readonly live: ReadonlyMap<string, Live>
  /** Addresses that state of ours names and no workload has, sorted. */
  readonly departed: readonly string[]
  /** Why a tenant bridge is somebody's who did not wire it the usual way, by name. */
  readonly foreign: ReadonlyMap<string, string>
  readonly dead: readonly OwnBridge[]
  /** Names of tenant bridges that do not exist and that rules of ours name, sorted. */
  readonly detached: readonly string[]
  /** No tenant bridge is there or will remain, nor runs a workload elsewhere, so nobody needs the mesh's reply mark. */
  readonly meshMarkDetached: boolean
  readonly pairs: readonly Pair[]
  /** Proxy entries and filters that no surviving pair wants. */
  readonly unwantedProxies: readonly { readonly object: Neighbour; readonly mine: string }[]
  readonly unwantedFilters: readonly { readonly object: Filter; readonly mine: { sender: string; target: string } }[]
  readonly misplaced: readonly Notice[]
  /** What looked like a leftover until the links were read again, and what else stays on purpose. */
  readonly spared: readonly Notice[]
}

export function conclude(view: NodeView, subnet: Subnet): Conclusion {
  return atOnce(conclusionOf(view, subnet))
}

export function* conclusionOf(view: NodeView, subnet: Subnet): Work<Conclusion> {
  const readings = view.confirmed === null ? [view.links] : [view.links, view.confirmed.links]
  const own = yield* ownObjects(view, subnet)
  yield
  // An address that moved between the readings was live in two places.
  const seen = readings.flatMap((links) => [...liveIn(links, subnet).values()])
  const live = new Map(seen.map((each) => [each.address, each]))
  const foreign = new Map(readings.flatMap((links) => [...foreignIn(links, subnet)]))
  const foreignBridges = foreignIndexes(view.links, foreign)
  const named = addressesNamed(own, foreignBridges)
  const elsewhere = elsewhereIn(readings, own.tables, subnet)
  const departed = [...named]
    .filter((address) => subnet.workloadOctet(address) !== null && !live.has(address) && !elsewhere.has(address))
    .sort(byAddress)
  yield
  const dead = deadIn(readings, foreign)
  const detached = detachedNames(own, readings)
  const identities = identitiesByAddress(own.tables)
  const names = bridgeNames(view.links)
  const allPairs = pairsOf(identities, admittedByAddress(own.tables))
  const pairs = allPairs.filter(({ granting, peer }) => live.has(granting.address) && live.has(peer.address))
  const ours = { departed: new Set(departed), proxies: wantedBy(allPairs, subnet).proxies }
  const { unwantedProxies, unwantedFilters } = unwanted(view, own, { subnet, live, seen, pairs, identities })
  const tenants = new Set(
    readings.flatMap(({ bridges }) => bridges.filter(({ tenant }) => tenant)).map(({ link }) => link.index),
  )
  return {
    subnet,
    own,
    live,
    departed,
    foreign,
    dead,
    detached,
    // Where a workload runs elsewhere, so may tenants: their bridges were not looked for under their names.
    meshMarkDetached:
      tenants.size === dead.length && elsewhere.size === 0 && own.tables.rules.some(({ bridge }) => bridge === null),
    pairs,
    // Anybody may want one on a bridge of his: there, ours is what a departed address or a pair accounts for.
    unwantedProxies: unwantedProxies.filter(
      ({ object, mine }) =>
        !foreignBridges.has(object.index) ||
        ours.departed.has(mine) ||
        ours.proxies.has(proxyKey(names.get(object.index) ?? '', mine)),
    ),
    unwantedFilters,
    misplaced: misplaced(view, own, live),
    spared: [...spared(readings, named, subnet), ...elsewhere.values()],
  }
}

/** Keeps only what an earlier conclusion had found too: what is settling is left alone. */
export function settled(now: Conclusion, before: Conclusion | null): Conclusion {
  if (before === null) {
    const none = { departed: [], dead: [], detached: [], unwantedProxies: [], unwantedFilters: [] }
    return { ...now, ...none, meshMarkDetached: false }
  }
  const proxies = new Set(before.unwantedProxies.map(({ object }) => `${object.index} ${object.address}`))
  const filters = new Set(before.unwantedFilters.map(({ object }) => `${object.index} ${object.handle}`))
  const names = new Map(before.dead.map(({ link }) => [link.index, link.name]))
  const dead = now.dead.filter(({ link }) => names.get(link.index) === link.name)
  return {
    ...now,
    departed: now.departed.filter((address) => before.departed.includes(address)),
    dead,
    detached: now.detached.filter((name) => before.detached.includes(name)),
    // A bridge that is being wired meanwhile stays, and needs it.
    meshMarkDetached: now.meshMarkDetached && before.meshMarkDetached && dead.length === now.dead.length,
    unwantedProxies: now.unwantedProxies.filter(({ object }) => proxies.has(`${object.index} ${object.address}`)),
    unwantedFilters: now.unwantedFilters.filter(({ object }) => filters.has(`${object.index} ${object.handle}`)),
  }
}

function* ownObjects(view: NodeView, subnet: Subnet): Work<Own> {
  const { net } = view
  const indexes = new Set(view.links.bridges.map(({ link }) => link.index))
  const hostRoutes = owned(view.routes, (route) => ownHostRoute(route, subnet, indexes))
  yield
  const workloadProhibits = owned(view.rules, (rule) => ownWorkloadProhibit(rule, net, subnet))
  yield
  const bridgeProhibits = owned(view.rules, (rule) => ownBridgeProhibit(rule, net, subnet))
  yield
  const proxies = owned(view.proxies, (entry) => ownProxy(entry, subnet, indexes))
  const filters = owned(view.filters, (filter) => ownFilter(filter, subnet, indexes))
  const tables = yield* ownTablesOf(view.iptables, net, subnet)
  return { hostRoutes, workloadProhibits, bridgeProhibits, proxies, filters, tables }
}

/** Host veths on one of the bridges, up or down: those that were asked for by name, and those listed as ports. */
export function liveIn({ bridges, veths }: LinkReading, subnet: Subnet): Map<string, Live> {
  const live = new Map<string, Live>()
  const byIndex = new Map(bridges.map((bridge) => [bridge.link.index, bridge]))
  for (const veth of [...veths, ...bridges.flatMap(({ ports }) => ports)]) {
    const octet = workloadPort(veth)
    const bridge = byIndex.get(veth.master)
    if (octet === null || bridge === undefined) continue
    const address = subnet.address(octet)
    live.set(address, { address, veth, bridge })
  }
  return live
}

/**
 * Addresses whose host veth hangs on just the bridge that their identity chain names, though it is none of the node's own:
 * the workload runs, and is another node bridge's. Whoever named the wrong one must not take the marks of the right one's.
 */
function elsewhereIn(readings: readonly LinkReading[], tables: OwnTables, subnet: Subnet): ReadonlyMap<string, Notice> {
  const identities = identitiesByAddress(tables)
  const elsewhere = new Map<string, Notice>()
  for (const { veths, otherBridges } of readings) {
    for (const veth of veths) {
      const octet = workloadPort(veth)
      const bridge = otherBridges.get(veth.master)
      if (octet === null || bridge === undefined) continue
      const address = subnet.address(octet)
      if (!identities.get(address)?.some((identity) => identity.bridge === bridge)) continue
      const reason = `spared: ${veth.name} is on ${bridge}, as its identity chain says, so --bridge may be wrong`
      elsewhere.set(address, { object: `address ${address}`, reason })
    }
  }
  return elsewhere
}

function workloadPort({ kind, name }: Link): number | null {
  return kind === 'veth' ? hostVethOctet(name) : null
}

/**
 * Tenant bridges with a port that is no host veth, with an address that is not the gateway, or with a link on top, which the
 * kernel would delete along: somebody uses them.
 */
function foreignIn({ bridges }: LinkReading, subnet: Subnet): Map<string, string> {
  const foreign = new Map<string, string>()
  for (const { link, tenant, ports, addresses, uppers = [] } of bridges) {
    if (!tenant) continue
    const port = ports.find((port) => workloadPort(port) === null)
    const address = addresses.find((address) => !isGateway(address, subnet))
    if (port !== undefined) foreign.set(link.name, `port ${port.name}`)
    else if (address !== undefined) foreign.set(link.name, `address ${address.address}/${address.prefix}`)
    else if (uppers[0] !== undefined) foreign.set(link.name, `link ${uppers[0].name} on top of it`)
  }
  return foreign
}

/** The gateway as a deploy adds it: a point-to-point address is somebody's tunnel, whatever its own end is. */
export function isGateway({ address, prefix, peer }: Address, subnet: Subnet): boolean {
  return address === subnet.gateway && (prefix === 24 || prefix === 32) && peer === null
}

function foreignIndexes({ bridges }: LinkReading, foreign: ReadonlyMap<string, string>): ReadonlySet<number> {
  return new Set(bridges.filter(({ link }) => foreign.has(link.name)).map(({ link }) => link.index))
}

/**
 * The addresses that state of ours names. A host route or a proxy entry on a foreign bridge does not count by itself: it
 * is what a person adds who plugs a machine of his own into that bridge.
 */
function addressesNamed(own: Own, foreignBridges: ReadonlySet<number>): Set<string> {
  return new Set([
    ...own.hostRoutes.filter(({ object }) => !foreignBridges.has(object.oif)).map(({ mine }) => mine),
    ...own.workloadProhibits.map(({ mine }) => mine),
    ...own.tables.chains.map(({ address }) => address),
    ...own.proxies.filter(({ object }) => !foreignBridges.has(object.index)).map(({ mine }) => mine),
    ...own.filters.flatMap(({ mine }) => [mine.sender, mine.target]),
  ])
}

/** Tenant bridges that are empty in every reading, and the same link in each. */
function deadIn(readings: readonly LinkReading[], foreign: ReadonlyMap<string, string>): OwnBridge[] {
  const [first, ...later] = readings
  const empty = ({ bridges, veths }: LinkReading): OwnBridge[] =>
    bridges.filter(
      ({ link, tenant, ports }) =>
        tenant && !foreign.has(link.name) && ports.length === 0 && !veths.some(({ master }) => master === link.index),
    )
  const same = (a: OwnBridge, b: OwnBridge): boolean => a.link.index === b.link.index && a.link.name === b.link.name
  return (first === undefined ? [] : empty(first)).filter((bridge) =>
    later.every((links) => empty(links).some((other) => same(bridge, other))),
  )
}

function detachedNames(own: Own, readings: readonly LinkReading[]): string[] {
  const named = new Set(own.bridgeProhibits.map(({ mine }) => mine))
  for (const { bridge } of own.tables.rules) if (bridge !== null) named.add(bridge)
  for (const { bridges, taken } of readings) {
    for (const { link } of bridges) named.delete(link.name)
    for (const name of taken) named.delete(name)
  }
  return [...named].sort()
}

export function identitiesByAddress({ chains }: OwnTables): Map<string, readonly Identity[]> {
  const identities = new Map<string, readonly Identity[]>()
  for (const { address, identities: found } of chains) {
    if (found.length > 0) identities.set(address, [...(identities.get(address) ?? []), ...found])
  }
  return identities
}

export function admittedByAddress({ chains }: OwnTables): Map<string, readonly Identity[]> {
  const admitted = new Map<string, readonly Identity[]>()
  for (const { address, admitted: found } of chains) admitted.set(address, [...(admitted.get(address) ?? []), ...found])
  return admitted
}

/**
 * A live workload without an identity says nothing of its pairs, so what may belong to one of them stays: entries that
 * name it, and entries for live addresses on its bridge.
 */
function unwanted(
  view: NodeView,
  own: Own,
  known: {
    subnet: Subnet
    live: ReadonlyMap<string, Live>
    seen: readonly Live[]
    pairs: readonly Pair[]
    identities: ReadonlyMap<string, readonly Identity[]>
  },
): Pick<Conclusion, 'unwantedProxies' | 'unwantedFilters'> {
  const names = bridgeNames(view.links)
  const { proxies, filters } = wantedBy(known.pairs, known.subnet)
  const silent = known.seen.filter(({ address }) => !known.identities.has(address))
  const silentAddresses = new Set(silent.map(({ address }) => address))
  const silentBridges = new Set(silent.map(({ bridge }) => bridge.link.index))
  return {
    unwantedProxies: own.proxies.filter(({ object, mine }) => {
      if (proxies.has(proxyKey(names.get(object.index) ?? '', mine))) return false
      return !silentAddresses.has(mine) && !(known.live.has(mine) && silentBridges.has(object.index))
    }),
    unwantedFilters: own.filters.filter(({ object, mine: { sender, target } }) => {
      if (filters.has(filterKey(names.get(object.index) ?? '', object.handle))) return false
      const bothLive = known.live.has(sender) && known.live.has(target)
      return !bothLive || !(silentAddresses.has(sender) || silentAddresses.has(target))
    }),
  }
}

/** What is in the wrong place for a live address, and half-made pairs: a deploy or stop of the address puts them right. */
function misplaced(view: NodeView, own: Own, live: ReadonlyMap<string, Live>): Notice[] {
  const names = bridgeNames(view.links)
  const notices: Notice[] = []
  for (const { object, mine } of own.hostRoutes) {
    const bridge = live.get(mine)?.bridge.link
    if (bridge !== undefined && bridge.index !== object.oif) {
      const reason = `misplaced: ${mine} is live on ${bridge.name}`
      notices.push({ object: `route ${mine}/32 dev ${names.get(object.oif)}`, reason })
    }
  }
  for (const { object, mine } of own.workloadProhibits) {
    if (live.get(mine)?.bridge.tenant === false) {
      const reason = `misplaced: ${mine} is live on the node bridge`
      notices.push({ object: `prohibit priority ${object.priority} to ${mine}/32`, reason })
    }
  }
  for (const veth of view.links.veths) {
    const peer = view.links.loosePeers.get(veth.index)
    if (peer !== undefined && peer.name === peerVethName(hostVethOctet(veth.name) ?? 0)) {
      notices.push({ object: `veth ${veth.name}`, reason: `misplaced: ${veth.name} and ${peer.name} hang on nothing` })
    }
  }
  return notices
}

function spared([first, again]: readonly LinkReading[], named: ReadonlySet<string>, subnet: Subnet): Notice[] {
  if (first === undefined || again === undefined) return []
  const before = liveIn(first, subnet)
  return [...liveIn(again, subnet).values()]
    .filter(({ address }) => named.has(address) && !before.has(address))
    .map(({ address, veth }) => ({
      object: `address ${address}`,
      reason: `spared: ${veth.name} came while the node was read`,
    }))
}
