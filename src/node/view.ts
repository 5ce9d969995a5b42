/** Reads the node: kernel and iptables → NodeView. It reads and decides nothing. */
import type { Host } from '../kernel/host.js'
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import { type Backend, IptablesError, readIptables } from '../kernel/iptables/tools.js'
import { RT_TABLE_MAIN, RTN_UNICAST } from '../kernel/linux.js'
import { linkByIndex, linkByName } from '../kernel/rtnetlink/link.js'
import { type Neighbour, neighboursOf, proxies } from '../kernel/rtnetlink/neighbour.js'
import { type Route, routes } from '../kernel/rtnetlink/route.js'
import { allRules, type Rule } from '../kernel/rtnetlink/rule.js'
import { arpFiltersOf, type Filter } from '../kernel/tc.js'
import { type ConnectionsByAddress, readConnections } from './connections.js'
import { GRANT_FILTER_PREF } from './contract.js'
import { readDisguised } from './disguised.js'
import { ReadError, type ReadErrorCode } from './errors.js'
import { type LinkReading, readLinks, readUppers } from './links.js'
import type { ContainerNet } from './net.js'
import { freshly, readLists } from './read.js'
import { tenantBridgesNamed } from './tables.js'

export interface NodeView {
  readonly net: ContainerNet
  readonly links: LinkReading
  /** IPv4 unicast routes of the main table, those out of the node's own bridges at least. */
  readonly routes: readonly Route[]
  /** All IPv4 policy rules, in the kernel's order. */
  readonly rules: readonly Rule[]
  readonly proxies: readonly Neighbour[]
  /** ARP filters of the grants' pref on the bridges. */
  readonly filters: readonly Filter[]
  /** raw, mangle and filter of each back end that is looked at. */
  readonly iptables: ReadonlyMap<Backend, Save>
  /** Read after everything else, before anything is removed; null when that was not done. */
  readonly confirmed: Confirmation | null
}

/** The second reading: liveness again, and what concerns departed addresses alone. */
export interface Confirmation {
  readonly links: LinkReading
  /** The IPv4 neighbours of the bridges. */
  readonly neighbours: readonly Neighbour[]
  /** Of the departed addresses; null where the kernel does not list connections. */
  readonly connections: ConnectionsByAddress
  /** Saved rules that are not what iptables prints of them. */
  readonly disguised: ReadonlySet<SavedRule>
}

export interface ViewOptions {
  readonly signal?: AbortSignal | undefined
}

/** Reads everything but what confirms it. @throws ReadError */
export async function readNode(host: Host, net: ContainerNet, options: ViewOptions = {}): Promise<NodeView> {
  // iptables-save is a process of its own: it runs while the kernel is asked for the rest.
  const abort = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, abort.signal]) : abort.signal
  try {
    const [kernel, iptables] = await Promise.all([
      freshly(() => readKernel(host, net, { signal }), signal),
      readTables(host, net, signal),
    ])
    const absent = absentBridges({ net, ...kernel, iptables })
    const taken = await freshly(() => readTaken(host, absent, { signal }), signal)
    return { net, ...kernel, links: { ...kernel.links, taken }, iptables, confirmed: null }
  } finally {
    abort.abort(OVER)
  }
}

/**
 * Reads liveness again, last: what was wired between the reading of the links and that of iptables would look like a leftover.
 * `departed`: addresses whose connections are wanted. @throws ReadError
 */
export async function confirmNode(
  host: Host,
  view: NodeView,
  departed: readonly string[],
  options: ViewOptions = {},
): Promise<NodeView> {
  const absent = absentBridges(view)
  const confirmed = await freshly(async () => {
    const neighbours = await readLists(
      host,
      view.links.bridges.map(({ link }) => neighboursOf(link.index)),
      options,
    )
    const connections = await readConnections(host, departed, options)
    const nft = view.iptables.get('nft')
    const disguised = nft === undefined ? new Set<SavedRule>() : await readDisguised(host, nft, options)
    const links = await readLinks(host, view.net, options)
    const bridges = await readUppers(host, links.bridges, options)
    const taken = await readTaken(host, absent, options)
    return { links: { ...links, bridges, taken }, neighbours: neighbours.flat(), connections, disguised }
  }, options.signal)
  return { ...view, confirmed }
}

/** Made once: an abort without a reason makes an exception each time, of a pass that went well too. */
const OVER = new Error('another part of the reading has failed')

type KernelReading = Pick<NodeView, 'links' | 'routes' | 'rules' | 'proxies' | 'filters'>

async function readKernel(host: Host, net: ContainerNet, options: ViewOptions): Promise<KernelReading> {
  const [links, [rules, proxyEntries]] = await Promise.all([
    readLinks(host, net, options),
    readLists(host, [allRules(), proxies()], options),
  ])
  const indexes = links.bridges.map(({ link }) => link.index)
  const [filters, hostRoutes] = await Promise.all([
    readLists(
      host,
      indexes.map((index) => arpFiltersOf(index, GRANT_FILTER_PREF)),
      options,
    ),
    readLists(host, routeDumps(indexes), { ...options, empty: ['ENOENT'], gone: ['ENODEV'] }),
  ])
  // A link that has gone answers a filter dump with an empty list: only now is it known that none had.
  await assertPresent(host, indexes, options)
  return { links, routes: onceEach(hostRoutes, indexes), rules, proxies: proxyEntries, filters: filters.flat() }
}

/**
 * A dump that the kernel filters by link sends what is wanted and walks the whole table all the same; one of the whole table
 * costs as much as six of those.
 */
const MANY_BRIDGES = 6

function routeDumps(indexes: readonly number[]): ReturnType<typeof routes>[] {
  const main = { table: RT_TABLE_MAIN, type: RTN_UNICAST }
  if (indexes.length > MANY_BRIDGES) return [routes({ ...main, devices: indexes })]
  return indexes.map((device) => routes({ ...main, devices: [device] }))
}

/**
 * A dump for each link lists a route of several hops for each that it leaves by, and in one of them before routes that it
 * stands behind. What a deletion takes depends on the order, and is told by the first hop: the dump of that one counts.
 */
function onceEach(dumps: readonly (readonly Route[])[], indexes: readonly number[]): Route[] {
  if (dumps.length !== indexes.length) return dumps.flat()
  const own = new Set(indexes)
  const firstOf = ({ oif, nextHops }: Route): number | undefined =>
    [oif, ...nextHops.map((hop) => hop.oif)].find((index) => own.has(index))
  return dumps.flatMap((routes, i) => routes.filter((route) => firstOf(route) === indexes[i]))
}

async function assertPresent(host: Host, indexes: readonly number[], options: ViewOptions): Promise<void> {
  await readLists(
    host,
    indexes.map((index) => linkByIndex(index)),
    { ...options, gone: ['ENODEV'] },
  )
}

/** The names of tenant bridges that rules name and that no bridge bears: somebody else's link may. */
function absentBridges({ net, links, rules, iptables }: Omit<NodeView, 'confirmed'>): string[] {
  const named = new Set([...rules.map(({ iif }) => iif), ...tenantBridgesNamed(iptables, net)])
  for (const { link } of links.bridges) named.delete(link.name)
  return [...named].filter((name) => net.isTenantBridge(name))
}

async function readTaken(host: Host, names: readonly string[], options: ViewOptions): Promise<ReadonlySet<string>> {
  const answers = await readLists(
    host,
    names.map((name) => linkByName(name)),
    { ...options, absent: ['ENODEV'] },
  )
  return new Set(names.filter((_, i) => answers[i]?.length !== 0))
}

const CODES: Readonly<Record<string, ReadErrorCode>> = { DENIED: 'PRIVILEGE', TIMEOUT: 'TIMEOUT', ABORTED: 'ABORTED' }

async function readTables(host: Host, net: ContainerNet, signal: AbortSignal): Promise<ReadonlyMap<Backend, Save>> {
  try {
    return await readIptables(host, net.iptables, { signal })
  } catch (error) {
    if (!(error instanceof IptablesError)) throw error
    throw new ReadError({
      read: error.tool,
      code: CODES[error.code] ?? 'FAILED',
      reason: error.reason,
      hint: error.hint,
      cause: error,
    })
  }
}
