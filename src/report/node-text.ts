/** The node as text: what runs, what is left over, and what else is there. */
import type { BridgeReport, NodeReport, WorkloadReport } from './node.js'
import { count, type Style, table } from './style.js'

/** `range`: where a gateway was looked for. */
export function nodeText(node: NodeReport, range: string, style: Style): string {
  const sections = [
    [heading(node, range, style)],
    section('bridges', bridgeLines(node), style),
    section('workloads', workloadLines(node), style),
    section('left over', leftLines(node), style),
    section('not ours to remove', [...foreignLines(node), ...noticeLines(node)], style),
    node.subnet === null ? [] : [totals(node)],
    [advice(node, style)],
  ]
  return sections.flatMap((lines) => (lines.length > 0 ? [`${lines.join('\n')}\n`] : [])).join('\n')
}

function heading({ subnet, nodeBridge }: NodeReport, range: string, style: Style): string {
  if (subnet !== null) return `${style.bold(subnet)}, node bridge ${style.bold(nodeBridge)}`
  return `${style.yellow('subnet not known')}: no bridge carries a gateway in ${range}; say which /24 it is with --subnet`
}

function section(title: string, lines: readonly string[], style: Style): string[] {
  return lines.length === 0 ? [] : [style.bold(title), ...lines.map((line) => `  ${line}`)]
}

function bridgeLines({ bridges, workloads, foreign }: NodeReport): string[] {
  const why = new Map(foreign.map(({ bridge, reason }) => [bridge, reason]))
  const about = (bridge: BridgeReport): string => {
    const hanging = workloads.filter((workload) => workload.bridge === bridge.name).length
    const stranger = why.get(bridge.name)
    return [count(hanging, 'workload'), ...(stranger === undefined ? [] : [stranger])].join(', ')
  }
  return table(
    bridges.map((bridge) => [
      bridge.name,
      bridge.verdict ?? 'not known',
      bridge.gateway ?? 'no gateway',
      about(bridge),
    ]),
  )
}

function workloadLines({ workloads }: NodeReport): string[] {
  return table(
    workloads.map((workload) => [
      workload.address ?? 'address not known',
      workload.veth,
      workload.bridge,
      workload.namespace === null ? 'namespace without a name' : `namespace ${workload.namespace}`,
      workload.identityMark === null ? 'no identity' : `identity ${workload.identityMark}`,
      admits(workload),
    ]),
  )
}

function admits({ admittedPeers }: WorkloadReport): string {
  const peers = admittedPeers.map(({ address, bridge, mark }) => address ?? `${mark} on ${bridge} (not there)`)
  return peers.length === 0 ? '' : `admits ${peers.join(', ')}`
}

function leftLines(node: NodeReport): string[] {
  const unwanted = [
    ...node.proxies.filter(({ wanted }) => !wanted).map(({ address, bridge }) => `proxy entry ${address} on ${bridge}`),
    ...node.filters
      .filter(({ wanted }) => !wanted)
      .map(({ sender, target, bridge }) => `grant filter ${sender} to ${target} on ${bridge}`),
  ]
  return [
    ...node.departed.map((address) => `address ${address}: no workload, but ${traces(node, address).join(', ')}`),
    ...node.dead.map((name) => `bridge ${name}: no workload`),
    ...node.detached.map((name) => `bridge ${name}: does not exist, but rules name it`),
    ...unwanted.map((what) => `${what}: no granted pair wants it`),
  ]
}

/** What still names an address. */
function traces(node: NodeReport, address: string): string[] {
  const found: [number, string, string?][] = [
    [node.hostRoutes.filter((route) => route.address === address).length, 'host route'],
    [node.prohibits.filter(({ to }) => to === `${address}/32`).length, 'prohibit'],
    [node.chains.filter((chain) => chain.address === address).length, 'chain'],
    [node.proxies.filter((proxy) => proxy.address === address).length, 'proxy entry', 'proxy entries'],
    [node.filters.filter(({ sender, target }) => sender === address || target === address).length, 'grant filter'],
  ]
  return found.flatMap(([number, one, many]) => (number === 0 ? [] : [count(number, one, many)]))
}

function foreignLines({ foreign }: NodeReport): string[] {
  return foreign.map(({ bridge, reason }) => `bridge ${bridge}: foreign, ${reason}`)
}

function noticeLines({ misplaced, notices }: NodeReport): string[] {
  return [...misplaced, ...notices].map(({ object, reason }) => `${object}: ${reason}`)
}

function totals(node: NodeReport): string {
  const { hostRoutes, prohibits, proxies, filters, chains } = node
  return [
    count(hostRoutes.length, 'host route'),
    count(prohibits.length, 'prohibit'),
    count(proxies.length, 'proxy entry', 'proxy entries'),
    count(filters.length, 'grant filter'),
    count(chains.length, 'chain'),
  ].join(', ')
}

function advice(node: NodeReport, style: Style): string {
  const left = node.subnet === null ? node.notices : leftLines(node)
  if (left.length === 0) return style.green('nothing is left over')
  const hint = node.subnet === null ? 'nothing of this goes until the /24 is known' : DRY_RUN_HINT
  return style.yellow(hint)
}

const DRY_RUN_HINT = '`netsweep sweep --dry-run` lists what a sweep would remove'
