/**
 * What iptables should hold for one workload and its bridge, and the commands that make it so: one atomic batch for each
 * table. Pure, and in turns: on a full node each rule is looked for among hundreds. What is right already is left as it is.
 */
import { KnownRules, lastWord } from '../kernel/iptables/rule.js'
import type { Chain, Save, SavedRule } from '../kernel/iptables/save.js'
import type { Work } from '../kernel/turns.js'
import { GENERATION_TAGS, grantChain, hasTag, identityChain } from './contract.js'
import { admitRules, type Identity, identityRule, jumpRules, replyRule } from './grants.js'
import { acceptRules, isolationRules, type TableRule } from './isolation.js'
import type { ContainerNet } from './net.js'
import type { Subnet } from './subnet.js'

/** Commands of one table, as `formatBatch` takes them. */
export type Commands = readonly (readonly string[])[]

/** What goes before whatever else is there, and what goes behind it. */
type Place = '-I' | '-A'

/** What a bridge needs before anything is forwarded over it: by table, those with nothing to do left out. */
export function* bridgeCommands(
  net: ContainerNet,
  bridge: string,
  subnet: Subnet,
  save: Save,
): Work<Map<string, Commands>> {
  const rules = bridge === net.bridge ? [] : isolationRules(net.bridge, bridge, subnet)
  const [first, lasting] = GENERATION_TAGS
  const commands = new Map<string, string[][]>()
  const add = (table: string, more: string[][]): void => {
    if (more.length > 0) commands.set(table, [...(commands.get(table) ?? []), ...more])
  }
  for (const rule of rules.filter(({ tag }) => tag === lasting)) {
    add(rule.table, once(save, rule, '-I', aboveOthers))
    yield
  }
  for (const rule of acceptRules(bridge)) {
    add(rule.table, once(save, rule, '-A', anywhere))
    yield
  }
  // Behind the others in the same batch: the bridge is never without the rule, whichever generation was there.
  for (const rule of rules.filter(({ tag }) => tag === first)) {
    add(
      rule.table,
      copies(save, rule).map((copy) => remove(copy)),
    )
    yield
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
    ...(toIdentity ? once(save, toIdentity, '-I', aboveGrants) : []),
    ...toGrants.flatMap((jump) =>
      grants.length > 0 ? once(save, jump, '-A', anywhere) : copies(save, jump).map(remove),
    ),
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
    rules.every((rule, i) => new KnownRules([rule]).has(chain.rules[i] ?? { words: [] }))
  )
}

/** One copy of the rule, where it belongs. Any other copy goes first: of two alike, `-D` takes the one that stands higher. */
function once(
  save: Save,
  rule: TableRule,
  place: Place,
  isPlaced: (rules: readonly SavedRule[]) => boolean,
): string[][] {
  const found = copies(save, rule)
  const [only, ...more] = found
  const above = only === undefined ? [] : rulesOf(save, rule).slice(0, rulesOf(save, rule).indexOf(only))
  if (only !== undefined && more.length === 0 && isPlaced(above)) return []
  return [...found.map(remove), [place, rule.chain, ...rule.words]]
}

/** Isolation works only above what other people accept: nothing of theirs stands above it. */
const aboveOthers = (above: readonly SavedRule[]): boolean => above.every(letsNobodyIn)

/** This project's, of whichever bridge. Our comment is anybody's to write, so what decides is what the rule does. */
function letsNobodyIn(rule: SavedRule): boolean {
  if (lastWord(rule).startsWith(identityChain(''))) return true
  return hasTag(rule) && HARMLESS.has(rule.words[rule.words.indexOf('-j') + 1] ?? '')
}

const HARMLESS: ReadonlySet<string> = new Set(['DROP', 'MARK'])

/** Every identity mark is set before a grant reads it. */
const aboveGrants = (above: readonly SavedRule[]): boolean =>
  !above.some((rule) => lastWord(rule).startsWith(grantChain('')))

const anywhere = (): boolean => true

function copies(save: Save, rule: TableRule): SavedRule[] {
  const known = new KnownRules([rule.words])
  // The last word is the target, or its mark: rules that differ there are not looked at closer.
  const last = rule.words.at(-1) ?? ''
  return rulesOf(save, rule).filter((copy) => lastWord(copy) === last && known.has(copy))
}

function rulesOf(save: Save, { table, chain }: TableRule): readonly SavedRule[] {
  return save.tables.get(table)?.chains.get(chain)?.rules ?? []
}

function remove({ chain, words }: SavedRule): string[] {
  return ['-D', chain, ...words]
}
