/** Everything on the node that goes by a workload's address: marks and grants, routes, prohibits, the ARP path. */
import type { Save } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { NUD_NOARP, NUD_PERMANENT } from '../kernel/linux.js'
import type { Link } from '../kernel/rtnetlink/link.js'
import { addProxy, deleteNeighbour, deleteProxy, neighboursOf } from '../kernel/rtnetlink/neighbour.js'
import { addRoute, deleteRoute } from '../kernel/rtnetlink/route.js'
import { deleteFilter, replaceClsact, replaceGrantFilter } from '../kernel/tc.js'
import { arpChanges, missingEntries } from './arp-path.js'
import { GRANT_FILTER_PREF, GRANT_MARK } from './contract.js'
import { addressCommands } from './desired-tables.js'
import { arpHandle } from './grants.js'
import { workloadProhibit } from './isolation.js'
import { readLists } from './read.js'
import { hostRoutes, type Site } from './site.js'
import { addProhibit, deleteRules } from './wire-bridge.js'
import type { Writer } from './writer.js'

/** `save`: what the written back end holds of the address now. */
export async function assertAddress(
  writer: Writer,
  site: Site,
  bridge: Link,
  save: Save,
  anew: boolean,
): Promise<void> {
  await assertChains(writer, site, site.tables.backend, save)
  // A grant that is withdrawn in one back end would go on admitting in the other.
  if (!anew) for (const [backend, there] of otherTables(site)) await assertChains(writer, site, backend, there)
  await assertRoutes(writer, site, bridge, anew)
  await assertProhibit(writer, site, anew)
  await assertArpPath(writer, site, bridge, anew)
}

async function assertChains(
  writer: Writer,
  { workload, owner, subnet }: Site,
  backend: Backend,
  save: Save,
): Promise<void> {
  const commands = addressCommands(workload.address, owner.identity, owner.admitted, subnet, save)
  await writer.batches(backend, new Map([['mangle', commands]]))
}

/** The back ends that are not written to, and hold chains of the address all the same. */
function otherTables({ view, conclusion, workload, tables }: Site): [Backend, Save][] {
  const holding = conclusion.own.tables.chains.filter(({ address }) => address === workload.address)
  return [...view.iptables].filter(
    ([backend]) => backend !== tables.backend && holding.some((chains) => chains.backend === backend),
  )
}

/** A tenant's workload has one host route, out of its bridge; the singleton's has none. */
async function assertRoutes(writer: Writer, site: Site, bridge: Link, anew: boolean): Promise<void> {
  const { address } = site.workload
  const { right, wrong } = anew ? { right: null, wrong: [] } : hostRoutes(site, bridge.index)
  for (const route of wrong)
    await writer.requests([deleteRoute(route, `delete route ${address}/32 of link ${route.oif}`)], ['ESRCH'])
  if (!site.isolated || right !== null) return
  // Fails where somebody put one there meanwhile.
  const route = { destination: address, prefix: 32, oif: bridge.index }
  await writer.requests([addRoute(route, `add route ${address}/32 dev ${bridge.name}`)])
}

async function assertProhibit(
  writer: Writer,
  { net, conclusion, isolated, workload, view }: Site,
  anew: boolean,
): Promise<void> {
  const prohibit = workloadProhibit(net.bridge, workload.address)
  const there = anew
    ? []
    : conclusion.own.workloadProhibits.filter(({ mine }) => mine === workload.address).map(({ object }) => object)
  const [priority = 0] = prohibit.priorities
  if (isolated && there.length === 0) await addProhibit(writer, prohibit, priority)
  await deleteRules(writer, view, isolated ? there.slice(1) : there)
}

/** Each side of a granted pair takes the other for a neighbour on its own link, and the node answers for exactly these. */
async function assertArpPath(writer: Writer, site: Site, bridge: Link, anew: boolean): Promise<void> {
  const { view, conclusion, workload, owner, subnet } = site
  const changes = arpChanges(view, conclusion, workload.address, owner)
  const links = new Map([...view.links.bridges.map(({ link }) => [link.name, link] as const), [bridge.name, bridge]])
  if (!anew) {
    await writer.requests(
      [
        ...changes.filtersGone.map((filter) =>
          deleteFilter(filter, `delete filter ${filter.handle} of link ${filter.index}`),
        ),
        ...changes.proxiesGone.map((entry) => deleteProxy(entry)),
      ],
      ['ENOENT', 'ENODEV'],
    )
  }
  // A peer whose bridge is gone gets its half when it is deployed again.
  const possible = changes.wanted.filter(
    (entry) => links.has(entry.bridge) && links.has(bridgeOfTarget(entry, changes.wanted)),
  )
  for (const name of bridgesOf(possible)) await writer.sysctl(['net', 'ipv4', 'neigh', name, 'proxy_delay'], '0')
  const missing = anew ? possible : missingEntries(view, conclusion, possible)
  if (missing.length === 0) return
  const clsact = bridgesOf(missing).map((name) => replaceClsact(links.get(name)?.index ?? 0, `give ${name} clsact`))
  await writer.requests(clsact)
  await writer.requests(
    missing.flatMap((entry) => {
      const { index = 0 } = links.get(entry.bridge) ?? {}
      const filter = {
        index,
        pref: GRANT_FILTER_PREF,
        handle: arpHandle(entry, subnet),
        mark: GRANT_MARK,
        mask: GRANT_MARK,
      }
      const pair = `${entry.sender} asks for ${entry.target} on ${entry.bridge}`
      return [
        addProxy({ index, address: entry.target }, `add proxy ${entry.target} dev ${entry.bridge}`),
        replaceGrantFilter({ ...filter, sender: entry.sender, target: entry.target }, `add filter: ${pair}`),
      ]
    }),
  )
  await flush(writer, [...links.values()], new Set(missing.flatMap(({ sender, target }) => [sender, target])))
}

function bridgesOf(entries: readonly { bridge: string }[]): string[] {
  return [...new Set(entries.map(({ bridge }) => bridge))]
}

/** The bridge of the other side: the entry of the pair that runs the other way sits on it. */
function bridgeOfTarget(
  { sender, target }: { sender: string; target: string },
  entries: readonly { bridge: string; sender: string; target: string }[],
): string {
  return entries.find((other) => other.sender === target && other.target === sender)?.bridge ?? ''
}

/** Forgets what the node learned of these addresses before. */
async function flush(writer: Writer, links: readonly Link[], addresses: ReadonlySet<string>): Promise<void> {
  const dumps = links.map(({ index }) => neighboursOf(index))
  const entries = (await readLists(writer.host, dumps, { signal: writer.signal })).flat()
  const learned = entries.filter(
    ({ address, state }) => addresses.has(address) && (state & (NUD_PERMANENT | NUD_NOARP)) === 0,
  )
  await writer.requests(
    learned.map((entry) => deleteNeighbour(entry)),
    ['ENOENT', 'ENODEV'],
  )
}
