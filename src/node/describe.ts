/** Kernel objects in a person's words: what `ip`, `tc` and `iptables` would call them. */
import type { Backend } from '../kernel/iptables/tools.js'
import { RT_SCOPE_LINK, RTN_UNICAST, RTPROT_BOOT, RTPROT_KERNEL, RTPROT_STATIC } from '../kernel/linux.js'
import type { Route } from '../kernel/rtnetlink/route.js'
import type { Rule } from '../kernel/rtnetlink/rule.js'
import type { Filter } from '../kernel/tc.js'

const hex = (value: number): string => `0x${value.toString(16)}`

/** `priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`, as `ip rule add` takes it. */
export function describeRule(rule: Rule): string {
  const mark = rule.mark === 0 ? '0' : hex(rule.mark)
  const parts: string[] = []
  if (rule.invert) parts.push('not')
  parts.push(`priority ${rule.priority}`)
  if (rule.sourcePrefix > 0) parts.push(`from ${rule.source}/${rule.sourcePrefix}`)
  if (rule.iif !== '') parts.push(`iif ${shellQuote(rule.iif)}`)
  if (rule.oif !== '') parts.push(`oif ${shellQuote(rule.oif)}`)
  if (rule.destinationPrefix > 0) parts.push(`to ${rule.destination}/${rule.destinationPrefix}`)
  if (rule.tos !== 0) parts.push(`tos ${hex(rule.tos)}`)
  if (rule.mark !== 0 || rule.mask !== 0) parts.push(`fwmark ${mark}/${hex(rule.mask)}`)
  if (rule.uidRange !== null) parts.push(`uidrange ${rule.uidRange.start}-${rule.uidRange.end}`)
  if (rule.ipProtocol !== 0) parts.push(`ipproto ${rule.ipProtocol}`)
  if (rule.sourcePorts !== null) parts.push(`sport ${rule.sourcePorts.start}-${rule.sourcePorts.end}`)
  if (rule.destinationPorts !== null) parts.push(`dport ${rule.destinationPorts.start}-${rule.destinationPorts.end}`)
  if (rule.tunnelId !== 0n) parts.push(`tun_id ${rule.tunnelId}`)
  if (rule.l3mdev) parts.push('l3mdev')
  if (rule.protocol !== 0) parts.push(`protocol ${protocolName(rule.protocol)}`)
  if (rule.suppressPrefixLength !== -1) parts.push(`suppress_prefixlength ${rule.suppressPrefixLength}`)
  if (rule.suppressGroup !== -1) parts.push(`suppress_ifgroup ${rule.suppressGroup}`)
  if (rule.realms !== 0) parts.push(`realms ${rule.realms >>> 16}/${rule.realms & 0xffff}`)
  parts.push(rule.action === 'table' ? `lookup ${rule.table}` : `${rule.action}`)
  if (rule.goto !== 0) parts.push(`${rule.goto}`)
  return parts.join(' ')
}

/** `10.128.3.9/32 dev yah0-91auqknbeu proto boot scope link`, as `ip route` takes it. `dev`: the name of its link. */
export function describeRoute(route: Route, dev: string): string {
  const parts = [`${route.destination}/${route.prefix}`]
  if (route.tos !== 0) parts.push(`tos ${hex(route.tos)}`)
  if (route.gateway !== null) parts.push(`via ${route.gateway}`)
  parts.push(`dev ${shellQuote(dev)}`)
  parts.push(`proto ${protocolName(route.protocol)}`)
  if (route.scope === RT_SCOPE_LINK) parts.push('scope link')
  if (route.preferredSource !== null) parts.push(`src ${route.preferredSource}`)
  if (route.metric !== 0) parts.push(`metric ${route.metric}`)
  if (route.metrics !== null) parts.push('(with metrics)')
  return parts.join(' ')
}

/** A route of any type and any hops, in words that `ip route del` takes. `names`: those of its links, by index. */
export function routeWords(route: Route, names: ReadonlyMap<number, string>): string {
  const hop = ({ oif, gateway }: Pick<Route, 'oif' | 'gateway'>): string[] => [
    // A gateway of another family has no words here; its link tells the route.
    ...(gateway?.startsWith('via') === false ? [`via ${gateway}`] : []),
    ...(oif === 0 ? [] : [`dev ${shellQuote(names.get(oif) ?? '')}`]),
  ]
  return [
    ...(route.type === RTN_UNICAST ? [] : [TYPES.get(route.type) ?? String(route.type)]),
    `${route.destination}/${route.prefix}`,
    ...(route.nexthopId === 0 ? hop(route) : [`nhid ${route.nexthopId}`]),
    `proto ${protocolName(route.protocol)}`,
    ...(route.scope === RT_SCOPE_LINK ? ['scope link'] : []),
    ...(route.preferredSource === null ? [] : [`src ${route.preferredSource}`]),
    ...(route.nexthopId === 0 ? route.nextHops.map((each) => ['nexthop', ...hop(each)].join(' ')) : []),
  ].join(' ')
}

/** RTN_* (linux/rtnetlink.h), as ip(8) has them. */
const TYPES: ReadonlyMap<number, string> = new Map([
  [2, 'local'],
  [3, 'broadcast'],
  [4, 'anycast'],
  [5, 'multicast'],
  [6, 'blackhole'],
  [7, 'unreachable'],
  [8, 'prohibit'],
  [9, 'throw'],
  [10, 'nat'],
])

const PROTOCOLS: ReadonlyMap<number, string> = new Map([
  [RTPROT_KERNEL, 'kernel'],
  [RTPROT_BOOT, 'boot'],
  [RTPROT_STATIC, 'static'],
])

function protocolName(protocol: number): string {
  return PROTOCOLS.get(protocol) ?? String(protocol)
}

/** `dev yah0-… ingress protocol arp pref 895 handle 0x907 flower`, as `tc filter` takes it. */
export function describeFilter(filter: Filter, dev: string): string {
  return `dev ${shellQuote(dev)} ingress protocol arp pref ${filter.pref} handle ${hex(filter.handle)} ${filter.kind}`
}

/** `iptables-nft -t mangle -D PREROUTING …`, quoted for a shell. */
export function iptablesCommand(backend: Backend, table: string, words: readonly string[]): string {
  return [`iptables-${backend}`, '-t', table, ...words].map(shellQuote).join(' ')
}

export function shellQuote(word: string): string {
  return /^[A-Za-z0-9_./:,=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Why an object of ours stays: what the kernel would delete in its place. */
export function wouldGoFirst(other: string): string {
  return `the kernel would take another one first, which is not ours: ${other}`
}
