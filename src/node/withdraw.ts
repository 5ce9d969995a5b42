/** Withdraws everything of one address, whoever had it: what a sweep would remove once its workload is gone. */
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { neighboursOf } from '../kernel/rtnetlink/neighbour.js'
import { applyPlan } from './apply.js'
import { arpChanges } from './arp-path.js'
import type { Conclusion } from './conclude.js'
import { readConnections } from './connections.js'
import { readDisguised } from './disguised.js'
import { WiringError } from './errors.js'
import { readLists } from './read.js'
import { planSweep } from './sweep.js'
import type { NodeView } from './view.js'
import type { Writer } from './writer.js'

/**
 * Returns what is left of the address's chains in each back end: those, empty now, that somebody else's rules hold.
 *
 * @throws WiringError when anything else stays.
 */
export async function withdraw(
  writer: Writer,
  view: NodeView,
  conclusion: Conclusion,
  address: string,
): Promise<ReadonlyMap<Backend, Save>> {
  const { host, signal } = writer
  const dumps = view.links.bridges.map(({ link }) => neighboursOf(link.index))
  const neighbours = (await readLists(host, dumps, { signal })).flat()
  const connections = await readConnections(host, [address], { signal })
  const nft = view.iptables.get('nft')
  const disguised = nft === undefined ? new Set<SavedRule>() : await readDisguised(host, nft, { signal })
  const { proxiesGone, filtersGone } = arpChanges(view, conclusion, address, null)
  const departing: Conclusion = {
    ...conclusion,
    departed: [address],
    dead: [],
    detached: [],
    meshMarkDetached: false,
    unwantedProxies: conclusion.own.proxies.filter(({ object }) => proxiesGone.includes(object)),
    unwantedFilters: conclusion.own.filters.filter(({ object }) => filtersGone.includes(object)),
  }
  const plan = planSweep({ ...view, confirmed: { links: view.links, neighbours, connections, disguised } }, departing)
  const { results } = await applyPlan(host, plan, { signal, mayReplan: false })
  const held = new Map<Backend, string[]>()
  for (const { step, outcome, kept, error } of results) {
    if (outcome === 'removed') writer.done.push(`withdraw ${step.object}`)
    else if (outcome === 'kept' && step.action === 'restore' && step.rules.length === 0)
      held.set(step.backend, [...(held.get(step.backend) ?? []), ...step.chains])
    else if (outcome === 'kept' || outcome === 'failed') {
      const reason = kept ?? error?.message ?? 'could not be removed'
      throw new WiringError({ object: `withdraw ${step.object}`, code: error?.code ?? 'KEPT', reason })
    }
  }
  return new Map([...view.iptables.keys()].map((backend) => [backend, emptyChains(held.get(backend) ?? [])]))
}

function emptyChains(names: readonly string[]): Save {
  const chains = new Map(names.map((name) => [name, { name, policy: null, rules: [] }]))
  return { tables: new Map([['mangle', { name: 'mangle', chains }]]), incompatible: [] }
}
