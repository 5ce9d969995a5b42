/**
 * What iptables should hold for one workload and its bridge, and the commands that make it so: one atomic batch for each
 * table. Pure. What is right already is left as it is.
 */
import { ruleKey } from '../kernel/iptables/rule.js'
import type { Chain, Save, SavedRule } from '../kernel/iptables/save.js'
import { GENERATION_TAGS, grantChain, identityChain } from './contract.js'
import { admitRules, type Identity, identityRule, jumpRules, replyRule } from './grants.js'
import { acceptRules, isolationRules, type TableRule } from './isolation.js'
import type { ContainerNet } from './net.js'
import type { Subnet } from './subnet.js'

/** Commands of one table, as `formatBatch` takes them. */
export type Commands = readonly (readonly string[])[]

/** What goes before whatever else is there, and what goes behind it. */
type Place = '-I' | '-A'

/** What a bridge needs before anything is forwarded over it: by table, those with nothing to do left out. */
export function bridgeCommands(net: ContainerNet, bridge: string, subnet: Subnet, save: Save): Map<string, Commands> {
  const rules = bridge === net.bridge ? [] : isolationRules(net.bridge, bridge, subnet)
  const [first, lasting] = GENERATION_TAGS
  const commands = new Map<string, string[][]>()
  const add = (table: string, more: string[][]): void => {
    if (more.length > 0) commands.set(table, [...(commands.get(table) ?? []), ...more])
  }
  for (const rule of rules.filter(({ tag }) => tag === lasting)) add(rule.table, once(save, rule, '-I'))
  for (const rule of acceptRules(bridge)) add(rule.table, once(save, rule, '-A'))
  // Behind the others in the same batch: the bridge is never without the rule, whichever generation was there.
  for (const rule of rules.filter(({ tag }) => tag === first)) {
    add(
      rule.table,
      copies(save, rule).map((copy) => remove(copy)),
    )
  }
  return commands
}

/** What a workload's address needs in mangle: identity and grant chain, and the jumps to them. */
export function addressCommands(
  address: string,
  own: Identity,
  admitted: readonly Identity[],
  subnet: Subnet,
  save: Save,
): Commands {
  const peers = admitted.filter(({ bridge }) => bridge !== own.bridge)
  const grants = peers.flatMap((peer) => admitRules(address, peer))
  if (grants.length > 0) grants.push(replyRule(address, own.bridge))
  const [toIdentity, ...toGrants] = jumpRules(address).map(
    (words) => ({ table: 'mangle', chain: 'PREROUTING', words }) as const,
  )
  return [
    ...chainCommands(save, identityChain(address), [identityRule(address, own, subnet)]),
    ...chainCommands(save, grantChain(address), grants),
    ...(toIdentity ? identityJump(save, toIdentity) : []),
    ...toGrants.flatMap((jump) => (grants.length > 0 ? once(save, jump, '-A') : copies(save, jump).map(remove))),
  ]
}

/** A chain with exactly these rules. */
function chainCommands(save: Save, name: string, rules: readonly string[][]): string[][] {
  const chain = save.tables.get('mangle')?.chains.get(name)
  if (chain !== undefined && hasExactly(chain, rules)) return []
  return [chain === undefined ? ['-N', name] : ['-F', name], ...rules.map((words) => ['-A', name, ...words])]
}

function hasExactly(chain: Chain, rules: readonly string[][]): boolean {
  return (
    chain.rules.length === rules.length &&
    chain.rules.every(({ words }, i) => ruleKey(words) === ruleKey(rules[i] ?? []))
  )
}

/** Every identity mark is set before a grant reads it: the jump stands before all jumps to grant chains. */
function identityJump(save: Save, jump: TableRule): string[][] {
  const rules = save.tables.get('mangle')?.chains.get('PREROUTING')?.rules ?? []
  const key = ruleKey(jump.words)
  const at = rules.findIndex(({ words }) => ruleKey(words) === key)
  const firstGrant = rules.findIndex(({ words }) => words.at(-1)?.startsWith(grantChain('')))
  if (at === -1 || firstGrant === -1 || at < firstGrant) return once(save, jump, '-I')
  return [['-I', jump.chain, ...jump.words], ...copies(save, jump).map(remove)]
}

/** One copy of the rule, whatever there is now. Of several the first ones go, of none one is made. */
function once(save: Save, rule: TableRule, place: Place): string[][] {
  const [found, ...more] = copies(save, rule)
  return found === undefined ? [[place, rule.chain, ...rule.words]] : more.map(remove)
}

function copies(save: Save, { table, chain, words }: TableRule): SavedRule[] {
  const key = ruleKey(words)
  const rules = save.tables.get(table)?.chains.get(chain)?.rules ?? []
  // A rule of ours has a tag, a target chain or four words: others are not looked at closer.
  const last = words.at(-1) ?? ''
  return rules.filter((rule) => rule.words.at(-1) === last && ruleKey(rule.words) === key)
}

function remove({ chain, words }: SavedRule): string[] {
  return ['-D', chain, ...words]
}
