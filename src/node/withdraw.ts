/** Withdraws everything of one address, whoever had it: what a sweep would remove once its workload is gone. */
import type { Host } from '../kernel/host.js'
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { neighboursOf } from '../kernel/rtnetlink/neighbour.js'
import { inTurns } from '../kernel/turns.js'
import { applyPlan } from './apply.js'
import { arpChanges } from './arp-path.js'
import type { Conclusion } from './conclude.js'
import { readConnections } from './connections.js'
import { readDisguised } from './disguised.js'
import { WiringError } from './errors.js'
import type { Plan, RestoreStep, Step } from './plan.js'
import { readLists } from './read.js'
import { planOf } from './sweep.js'
import type { Confirmation, NodeView } from './view.js'
import type { Writer } from './writer.js'

/**
 * Returns what is left of the address's chains in each back end: those, empty now, that somebody else's rules hold.
 * `disguised`: of the view's saved rules, read before any of their chains was changed.
 *
 * @throws WiringError when anything else stays.
 */
export async function withdraw(
  writer: Writer,
  view: NodeView,
  conclusion: Conclusion,
  address: string,
  disguised: ReadonlySet<SavedRule>,
): Promise<ReadonlyMap<Backend, Save>> {
  const { host, signal } = writer
  const dumps = view.links.bridges.map(({ link }) => neighboursOf(link.index))
  const neighbours = (await readLists(host, dumps, { signal })).flat()
  const connections = await readConnections(host, [address], { signal })
  const plan = await planWithdrawal(view, conclusion, address, {
    links: view.links,
    neighbours,
    connections,
    disguised,
  })
  const { results } = await applyPlan(host, plan, { signal, mayReplan: false })
  const held = new Map<Backend, string[]>()
  for (const { step, outcome, kept, error } of results) {
    if (outcome === 'removed') writer.done.push(`withdraw ${step.object}`)
    else if (outcome === 'kept' && isChainAlone(step))
      held.set(step.backend, [...(held.get(step.backend) ?? []), ...step.chains])
    else if (outcome === 'kept' || outcome === 'failed') {
      const reason = kept ?? error?.message ?? 'could not be removed'
      throw new WiringError({ object: `withdraw ${step.object}`, code: error?.code ?? 'KEPT', reason })
    }
  }
  return new Map([...view.iptables.keys()].map((backend) => [backend, emptyChains(held.get(backend) ?? [])]))
}

/**
 * What of an address could not be withdrawn, and why, as far as it can be known beforehand, null: nothing; and the disguised rules that
 * this was decided with. @throws ReadError
 */
export async function heldBack(
  host: Host,
  view: NodeView,
  conclusion: Conclusion,
  address: string,
  signal?: AbortSignal,
): Promise<{ held: string | null; disguised: ReadonlySet<SavedRule> }> {
  const none = new Set<SavedRule>()
  const unread = { links: view.links, neighbours: [], connections: new Map(), disguised: none }
  // Most addresses that are deployed have had no owner.
  if ((await planWithdrawal(view, conclusion, address, unread)).steps.length === 0)
    return { held: null, disguised: none }
  const disguised = await readDisguisedIn(host, view, signal)
  const { steps } = await planWithdrawal(view, conclusion, address, { ...unread, disguised })
  const step = steps.find((each) => each.held !== null && !isChainAlone(each))
  return { held: step === undefined ? null : `${step.object}: ${step.held}`, disguised }
}

/** What a sweep would remove of that address, and of no other. */
function planWithdrawal(
  view: NodeView,
  conclusion: Conclusion,
  address: string,
  confirmed: Confirmation,
): Promise<Plan> {
  const { proxiesGone, filtersGone } = arpChanges(view, conclusion, address, null)
  return inTurns(
    planOf(
      { ...view, confirmed },
      {
        ...conclusion,
        departed: [address],
        dead: [],
        detached: [],
        meshMarkDetached: false,
        unwantedProxies: conclusion.own.proxies.filter(({ object }) => proxiesGone.includes(object)),
        unwantedFilters: conclusion.own.filters.filter(({ object }) => filtersGone.includes(object)),
      },
    ),
  )
}

/** Of the rules that the view has. @throws ReadError */
export async function readDisguisedIn(
  host: Host,
  { iptables }: NodeView,
  signal?: AbortSignal,
): Promise<ReadonlySet<SavedRule>> {
  const nft = iptables.get('nft')
  return nft === undefined ? new Set() : await readDisguised(host, nft, { signal })
}

/** A chain that somebody else's rule jumps to: it stays, empty, and is no hindrance. */
function isChainAlone(step: Step): step is RestoreStep {
  return step.action === 'restore' && step.rules.length === 0
}

function emptyChains(names: readonly string[]): Save {
  const chains = new Map(names.map((name) => [name, { name, policy: null, rules: [] }]))
  return { tables: new Map([['mangle', { name: 'mangle', chains }]]), incompatible: [] }
}
