/** A bridge and all that it carries by itself. Isolation stands before anything is forwarded, and is never taken away. */
import { KnownRules } from '../kernel/iptables/rule.js'
import { type Address, addAddress, deleteAddress } from '../kernel/rtnetlink/address.js'
import { changeLink, createBridge, type Link, linkAddress, linkByName } from '../kernel/rtnetlink/link.js'
import { addRule, allRules, deleteRule, type Rule, ruleTakenFirst, wholeRule } from '../kernel/rtnetlink/rule.js'
import { ruleInTheWay } from '../kernel/rtnetlink/rule-match.js'
import { inTurns } from '../kernel/turns.js'
import { isGateway } from './conclude.js'
import { describeRule, wouldGoFirst } from './describe.js'
import { bridgeCommands } from './desired-tables.js'
import { WiringError } from './errors.js'
import { bridgeProhibits, describeProhibit, natRule, type Prohibit, prohibitRule } from './isolation.js'
import { ownBridgeProhibit } from './ownership.js'
import { readLists } from './read.js'
import type { Site } from './site.js'
import type { Subnet } from './subnet.js'
import type { Progress } from './undo.js'
import type { NodeView } from './view.js'
import type { Writer } from './writer.js'

/** Makes the bridge, or mends it, and returns its link. */
export async function wireBridge(writer: Writer, site: Site, progress: Progress): Promise<Link> {
  const { net, view, subnet, bridge, isolated: isTenant, tables } = site
  await writer.batches(tables.backend, await inTurns(bridgeCommands(net, bridge, subnet, tables.save)))
  if (await masquerade(writer, tables, subnet)) progress.addedNat = true
  if (isTenant) await assertProhibits(writer, view, subnet, bridge)

  const before = view.links.bridges.find(({ link }) => link.name === bridge)
  if (before === undefined) {
    await writer.requests([createBridge(bridge, `make bridge ${bridge}`)])
    progress.madeBridge = true
  }
  const link = before?.link ?? (await linkNamed(writer, bridge))
  await writer.sysctl(['net', 'ipv4', 'ip_forward'], '1')
  if (isTenant) {
    await writer.sysctl(['net', 'ipv6', 'conf', bridge, 'disable_ipv6'], '1', true)
    await writer.sysctl(['net', 'ipv4', 'conf', 'all', 'src_valid_mark'], '1')
    await writer.sysctl(['net', 'ipv4', 'conf', bridge, 'rp_filter'], '1')
  }
  await assertGateway(writer, site, link, before?.addresses ?? [])
  if (!link.up) await writer.requests([changeLink(link.index, { up: true }, `set ${bridge} up`)])
  return link
}

/**
 * With one prefix: the node bridge is the way to the `/24`, and a tenant bridge that were one too would draw the singleton's packets.
 */
async function assertGateway(
  writer: Writer,
  { subnet, isolated }: Site,
  { index, name }: Link,
  addresses: readonly Address[],
): Promise<void> {
  const there = addresses.filter((address) => isGateway(address, subnet))
  const prefix = isolated ? 32 : 24
  if (!there.some((address) => address.prefix === prefix)) {
    const gateway = { index, address: subnet.gateway, prefix }
    await writer.requests([addAddress(gateway, `add ${subnet.gateway}/${prefix} to ${name}`)], ['EEXIST'])
  }
  const wrong = there.filter((address) => address.prefix !== prefix)
  await writer.requests(
    wrong.map((address) => deleteAddress(address, `delete ${address.address}/${address.prefix} from ${name}`)),
    ['EADDRNOTAVAIL'],
  )
}

/**
 * Gives the bridge the link address that it has, for good. Of itself it takes the lowest of its ports', and whenever that port
 * went, its other workloads, who know the gateway by it, would have no way out for most of a minute.
 */
export async function keepLinkAddress(writer: Writer, { index, name }: Link): Promise<void> {
  const [[address]] = await readLists(writer.host, [linkAddress(index)], { signal: writer.signal })
  if (address === undefined) return
  await writer.requests([changeLink(index, { address }, `keep the link address of ${name}`)])
}

export async function linkNamed(writer: Writer, name: string, host = writer.host): Promise<Link> {
  const [found] = await readLists(host, [linkByName(name)], { signal: writer.signal })
  const link = found.find((link) => link.name === name)
  if (link === undefined) throw new Error(`the kernel answered without link ${name}`)
  return link
}

/**
 * Both prohibits at their lasting priority. One is added before another is taken away, so that the bridge is never without.
 */
async function assertProhibits(writer: Writer, view: NodeView, subnet: Subnet, bridge: string): Promise<void> {
  for (const prohibit of bridgeProhibits(bridge, subnet)) {
    const [, lasting = 0] = prohibit.priorities
    const there = view.rules.filter((rule) => isProhibit(rule, prohibit, view, subnet))
    const [keep] = there.filter(({ priority }) => priority === lasting)
    if (keep === undefined) await addProhibit(writer, prohibit, lasting)
    await deleteRules(
      writer,
      view,
      there.filter((rule) => rule !== keep),
    )
  }
}

function isProhibit(rule: Rule, prohibit: Prohibit, view: NodeView, subnet: Subnet): boolean {
  if (rule.iif !== prohibit.iif || !prohibit.priorities.includes(rule.priority)) return false
  return 'mine' in ownBridgeProhibit(rule, view.net, subnet)
}

/** @throws WiringError; when the kernel takes another rule for this one, it names that. */
export async function addProhibit(writer: Writer, prohibit: Prohibit, priority: number): Promise<void> {
  const rule = prohibitRule(prohibit, priority)
  const what = `add rule ${describeProhibit(prohibit, priority)}`
  try {
    await writer.requests([addRule(rule, what)])
  } catch (error) {
    if (!(error instanceof WiringError && error.code === 'EEXIST')) throw error
    const [rules] = await readLists(writer.host, [allRules()], { signal: writer.signal })
    const other = ruleInTheWay(rules, wholeRule(rule))
    if (other === undefined) throw error
    const reason = `the kernel takes another rule for it, to be removed first: ip rule del ${describeRule(other)}`
    throw new WiringError({ object: what, code: error.code, reason, cause: error })
  }
}

/** Deletes rules of ours. One before which the kernel would take somebody else's stays: it forbids, and lets nobody in. */
export async function deleteRules(writer: Writer, view: NodeView, rules: readonly Rule[]): Promise<void> {
  let left: readonly Rule[] = view.rules
  for (const rule of rules) {
    // Of several copies the kernel takes the first: any of them will do.
    const taken = ruleTakenFirst(left, rule)
    if (taken === undefined) continue
    if (JSON.stringify(plain(taken)) !== JSON.stringify(plain(rule))) {
      writer.notices.push({ object: describeRule(rule), reason: `kept: ${wouldGoFirst(describeRule(taken))}` })
      continue
    }
    left = left.filter((other) => other !== taken)
    await writer.requests([deleteRule(rule, `delete rule at priority ${rule.priority} iif ${rule.iif}`)], ['ENOENT'])
  }
}

const plain = ({ tunnelId, unknown, ...rule }: Rule): object => ({
  ...rule,
  tunnelId: String(tunnelId),
  unknown: unknown.length,
})

/**
 * Whether it was not there. Where nat was not saved along with the rest, asks with `-C`, so that native nft rules in it, which
 * iptables cannot print, are no hindrance.
 */
async function masquerade(writer: Writer, { backend, save }: Site['tables'], subnet: Subnet): Promise<boolean> {
  const known = new KnownRules([natRule(subnet)])
  const saved = save.tables.get('nat')?.chains.get('POSTROUTING')?.rules ?? []
  if (saved.some((rule) => known.has(rule))) return false
  const rule = ['POSTROUTING', ...natRule(subnet)]
  const check = await writer.host.run(`iptables-${backend}`, ['-w', '5', '-t', 'nat', '-C', ...rule], {
    signal: writer.signal,
  })
  if (check.status === 0) return false
  // 1: there is no such rule. Anything else says nothing, and one more would be added each time.
  if (check.status !== 1) {
    const reason = check.stderr.trim() || `ended with ${check.code ?? check.signal ?? `status ${check.status}`}`
    throw new WiringError({ object: `iptables nat (${backend})`, code: 'FAILED', reason })
  }
  await writer.batches(backend, new Map([['nat', [['-A', ...rule]]]]))
  return true
}
