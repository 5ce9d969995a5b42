/** Kernel objects in a person's words: what `ip`, `tc` and `iptables` would call them. */
import type { Backend } from '../kernel/iptables/tools.js'
import { RT_SCOPE_LINK, RTPROT_BOOT, RTPROT_KERNEL, RTPROT_STATIC } from '../kernel/linux.js'
import type { Route } from '../kernel/rtnetlink/route.js'
import type { Rule } from '../kernel/rtnetlink/rule.js'
import type { Filter } from '../kernel/tc.js'

const hex = (value: number): string => `0x${value.toString(16)}`

/** `priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`, as `ip rule add` takes it. */
export function describeRule(rule: Rule): string {
  const mark = rule.mark === 0 ? '0' : hex(rule.mark)
  const parts: [boolean, string][] = [
    [rule.invert, 'not'],
    [true, `priority ${rule.priority}`],
    [rule.sourcePrefix > 0, `from ${rule.source}/${rule.sourcePrefix}`],
    [rule.iif !== '', `iif ${shellQuote(rule.iif)}`],
    [rule.oif !== '', `oif ${shellQuote(rule.oif)}`],
    [rule.destinationPrefix > 0, `to ${rule.destination}/${rule.destinationPrefix}`],
    [rule.tos !== 0, `tos ${hex(rule.tos)}`],
    [rule.mark !== 0 || rule.mask !== 0, `fwmark ${mark}/${hex(rule.mask)}`],
    [rule.uidRange !== null, `uidrange ${rule.uidRange?.start}-${rule.uidRange?.end}`],
    [rule.ipProtocol !== 0, `ipproto ${rule.ipProtocol}`],
    [rule.sourcePorts !== null, `sport ${rule.sourcePorts?.start}-${rule.sourcePorts?.end}`],
    [rule.destinationPorts !== null, `dport ${rule.destinationPorts?.start}-${rule.destinationPorts?.end}`],
    [rule.tunnelId !== 0n, `tun_id ${rule.tunnelId}`],
    [rule.l3mdev, 'l3mdev'],
    [rule.protocol !== 0, `protocol ${protocolName(rule.protocol)}`],
    [rule.suppressPrefixLength !== -1, `suppress_prefixlength ${rule.suppressPrefixLength}`],
    [rule.suppressGroup !== -1, `suppress_ifgroup ${rule.suppressGroup}`],
    [rule.realms !== 0, `realms ${rule.realms >>> 16}/${rule.realms & 0xffff}`],
    [true, rule.action === 'table' ? `lookup ${rule.table}` : `${rule.action}`],
    [rule.goto !== 0, `${rule.goto}`],
  ]
  return parts.flatMap(([present, text]) => (present ? [text] : [])).join(' ')
}

/** `10.128.3.9/32 dev yah0-91auqknbeu proto boot scope link`, as `ip route` takes it. `dev`: the name of its link. */
export function describeRoute(route: Route, dev: string): string {
  const parts: [boolean, string][] = [
    [true, `${route.destination}/${route.prefix}`],
    [route.tos !== 0, `tos ${hex(route.tos)}`],
    [route.gateway !== null, `via ${route.gateway}`],
    [true, `dev ${shellQuote(dev)}`],
    [true, `proto ${protocolName(route.protocol)}`],
    [route.scope === RT_SCOPE_LINK, 'scope link'],
    [route.preferredSource !== null, `src ${route.preferredSource}`],
    [route.metric !== 0, `metric ${route.metric}`],
    [route.metrics !== null, '(with metrics)'],
  ]
  return parts.flatMap(([present, text]) => (present ? [text] : [])).join(' ')
}

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
