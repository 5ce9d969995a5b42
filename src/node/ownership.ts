/**
 * Ours, or not, and why: one pure predicate for each kind of kernel object. Whatever none of them claims does not exist
 * for the sweep, so nothing else can be deleted.
 */
import { ETH_P_ARP, RT_SCOPE_LINK, RT_TABLE_MAIN, RTN_UNICAST } from '../kernel/linux.js'
import type { Neighbour } from '../kernel/rtnetlink/neighbour.js'
import type { Route } from '../kernel/rtnetlink/route.js'
import { ANY, type Rule } from '../kernel/rtnetlink/rule.js'
import type { Filter } from '../kernel/tc.js'
import { GRANT_FILTER_PREF, GRANT_MARK, grantFilterHandle } from './contract.js'
import { bridgeProhibits, type Prohibit, prohibitRule, workloadProhibit } from './isolation.js'
import type { ContainerNet } from './net.js'
import type { Subnet } from './subnet.js'

/** `mine`: what it says. `foreign`: the first thing that tells it from one of ours. */
export type Ownership<T> = { readonly mine: T } | { readonly foreign: string }

/** What `own` says of those that are ours, with the object itself. */
export function owned<O, T>(objects: readonly O[], own: (object: O) => Ownership<T>): { object: O; mine: T }[] {
  return objects.flatMap((object) => {
    const ownership = own(object)
    return 'mine' in ownership ? [{ object, mine: ownership.mine }] : []
  })
}

const foreign = (reason: string): { foreign: string } => ({ foreign: reason })

/** A workload's host route, `<addr>/32 dev <bridge>`: its address. `indexes`: the node's own bridges. */
export function ownHostRoute(route: Route, subnet: Subnet, indexes: ReadonlySet<number>): Ownership<string> {
  if (route.table !== RT_TABLE_MAIN) return foreign(`table ${route.table}`)
  if (route.type !== RTN_UNICAST) return foreign(`type ${route.type}`)
  if (route.prefix !== 32) return foreign(`prefix ${route.prefix}`)
  if (subnet.workloadOctet(route.destination) === null) return foreign(`no workload's address in ${subnet}`)
  if (!indexes.has(route.oif)) return foreign('out of a link that is not one of the bridges')
  if (route.hops !== 1 || route.nexthopId !== 0) return foreign('not one hop of its own')
  if (route.scope !== RT_SCOPE_LINK) return foreign(`scope ${route.scope}`)
  if (route.gateway !== null) return foreign(`gateway ${route.gateway}`)
  if (route.metric !== 0) return foreign(`metric ${route.metric}`)
  // Nobody who wires workloads sets any of these: it is somebody else's route to the same address.
  if (route.tos !== 0) return foreign(`tos ${route.tos}`)
  if (route.preferredSource !== null) return foreign(`preferred source ${route.preferredSource}`)
  if (route.metrics !== null) return foreign('metrics')
  if (route.encapsulation !== 0) return foreign(`encapsulation ${route.encapsulation}`)
  if (route.unknown.length > 0) return foreign(`attribute ${route.unknown[0]?.type}`)
  return { mine: route.destination }
}

/** A prohibit of an address at 1200: the address. */
export function ownWorkloadProhibit(rule: Rule, net: ContainerNet, subnet: Subnet): Ownership<string> {
  if (subnet.workloadOctet(rule.destination) === null) return foreign(`no workload's address in ${subnet}`)
  const difference = differenceFrom(workloadProhibit(net.bridge, rule.destination), rule)
  return difference === null ? { mine: rule.destination } : foreign(difference)
}

/** A prohibit of a tenant bridge, of either generation, whether the bridge exists or not: the bridge's name. */
export function ownBridgeProhibit(rule: Rule, net: ContainerNet, subnet: Subnet): Ownership<string> {
  if (!net.isTenantBridge(rule.iif)) return foreign('no tenant bridge')
  const differences = bridgeProhibits(rule.iif, subnet).map((prohibit) => differenceFrom(prohibit, rule))
  return differences.includes(null) ? { mine: rule.iif } : foreign(differences.join(', '))
}

/**
 * What is compared of a rule, the action first. Not what the kernel alone knows of it, nor a source, which says nothing
 * without its prefix.
 */
const COMPARED: readonly (keyof Rule)[] = (() => {
  const leftOut: readonly string[] = ['action', 'flags', 'iifDetached', 'oifDetached', 'source', 'unknown']
  const names = Object.keys(ANY) as (keyof Rule)[]
  return ['action', ...names.filter((name) => !leftOut.includes(name))]
})()

/** The first thing in which a rule is not exactly that prohibit, and nothing besides; null when it is. */
function differenceFrom(prohibit: Prohibit, rule: Rule): string | null {
  if (!prohibit.priorities.includes(rule.priority)) return `priority ${rule.priority}`
  const wanted: Partial<Rule> = prohibitRule(prohibit, rule.priority)
  const different = COMPARED.find((name) => rule[name] !== (wanted[name] ?? ANY[name]))
  if (different !== undefined) return `${different} ${String(rule[different])}`
  return rule.unknown.length > 0 ? `attribute ${rule.unknown[0]?.type}` : null
}

/** A proxy neighbour inside the `/24` on one of the bridges: its address. */
export function ownProxy(entry: Neighbour, subnet: Subnet, indexes: ReadonlySet<number>): Ownership<string> {
  if (!entry.proxy) return foreign('no proxy entry')
  if (!indexes.has(entry.index)) return foreign('on a link that is not one of the bridges')
  return subnet.includes(entry.address) ? { mine: entry.address } : foreign(`not in ${subnet}`)
}

/** A grant's ARP filter on one of the bridges: who may ask, and for whom. */
export function ownFilter(
  filter: Filter,
  subnet: Subnet,
  indexes: ReadonlySet<number>,
): Ownership<{ readonly sender: string; readonly target: string }> {
  if (!indexes.has(filter.index)) return foreign('on a link that is not one of the bridges')
  if (filter.pref !== GRANT_FILTER_PREF) return foreign(`pref ${filter.pref}`)
  if (filter.protocol !== ETH_P_ARP) return foreign(`protocol ${filter.protocol}`)
  if (filter.kind !== 'flower') return foreign(`kind ${filter.kind}`)
  if (filter.chain !== 0) return foreign(`chain ${filter.chain}`)
  const { arpOperation, arpSender, arpTarget } = filter
  if (arpOperation?.value !== ARPOP_REQUEST || arpOperation.mask !== 0xff) return foreign('not for ARP requests')
  const sender = wholeAddress(arpSender)
  const target = wholeAddress(arpTarget)
  if (sender === null || target === null) return foreign('not for one sender and one target')
  if (!subnet.includes(sender) || !subnet.includes(target)) return foreign(`not between addresses of ${subnet}`)
  if (filter.handle !== grantFilterHandle(lastOctet(sender), lastOctet(target)))
    return foreign(`handle ${filter.handle}`)
  if (filter.otherKeys.length > 0) return foreign(`key ${filter.otherKeys[0]}`)
  const [action, ...more] = filter.actions
  if (action === undefined || more.length > 0 || action.kind !== 'skbedit') return foreign('not one skbedit')
  if (action.mark !== GRANT_MARK || action.mask !== GRANT_MARK || action.otherEdits.length > 0)
    return foreign('an edit of something else than the grant mark')
  return { mine: { sender, target } }
}

/** linux/if_arp.h */
const ARPOP_REQUEST = 1

function lastOctet(address: string): number {
  return Number(address.slice(address.lastIndexOf('.') + 1))
}

function wholeAddress(key: { value: Buffer; mask: Buffer } | null): string | null {
  return key?.mask.equals(Buffer.from([255, 255, 255, 255])) ? [...key.value].join('.') : null
}
