/** What in iptables is this project's: chains and jumps of addresses, tagged rules and ACCEPTs of bridges. Pure. */
import { addTo } from '../kernel/groups.js'
import { isOneOf, KnownRules, parseRule } from '../kernel/iptables/rule.js'
import type { Chain, Save, SavedRule, Table } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { atOnce, type Work } from '../kernel/turns.js'
import { chainAddress, grantChain, hasTag, identityChain, tenantBridgePrefix } from './contract.js'
import { admittedBy, type Identity, identitiesOf, jumpRules } from './grants.js'
import { acceptRules, isolationRules, meshReplyRules, type TableRule } from './isolation.js'
import type { ContainerNet } from './net.js'
import type { Subnet } from './subnet.js'

/** One address's chains and the jumps to them, in one back end's mangle table. */
export interface AddressChains {
  readonly backend: Backend
  readonly address: string
  readonly chains: readonly Chain[]
  /** Jumps of the known form. */
  readonly jumps: readonly SavedRule[]
  /** Other people's rules that jump to one of the chains, by chain: while there are any, the kernel keeps the chain. */
  readonly holders: ReadonlyMap<string, readonly SavedRule[]>
  /** Empty when no identity chain was found, or none of its rules is understood. */
  readonly identities: readonly Identity[]
  readonly admitted: readonly Identity[]
}

/** One rule that names a tenant bridge, or, with `bridge` null, the mesh's reply mark. */
export interface BridgeRule {
  readonly backend: Backend
  readonly table: string
  readonly bridge: string | null
  readonly rule: SavedRule
}

export interface OwnTables {
  readonly chains: readonly AddressChains[]
  readonly rules: readonly BridgeRule[]
}

export function ownTables(saves: ReadonlyMap<Backend, Save>, net: ContainerNet, subnet: Subnet): OwnTables {
  return atOnce(ownTablesOf(saves, net, subnet))
}

export function* ownTablesOf(saves: ReadonlyMap<Backend, Save>, net: ContainerNet, subnet: Subnet): Work<OwnTables> {
  const forms = new RuleForms(net, subnet)
  const chains: AddressChains[] = []
  const rules: BridgeRule[] = []
  for (const [backend, { tables }] of saves) {
    const mangle = tables.get('mangle')
    if (mangle !== undefined) chains.push(...(yield* addressChains(backend, mangle, subnet)))
    for (const [table, chain] of RULE_PLACES) {
      const place = placeOf({ table, chain })
      for (const rule of rulesAt(tables, table, chain)) {
        const bridge = forms.bridgeOf(place, rule)
        if (bridge !== undefined) rules.push({ backend, table, bridge, rule })
        yield
      }
    }
  }
  return { chains, rules }
}

/** Where the rules of a bridge stand: other chains are other people's, however many rules they hold. */
export const RULE_PLACES = [
  ['raw', 'PREROUTING'],
  ['mangle', 'PREROUTING'],
  ['filter', 'FORWARD'],
  ['filter', 'INPUT'],
] as const

function rulesAt(tables: ReadonlyMap<string, Table>, table: string, chain: string): readonly SavedRule[] {
  return tables.get(table)?.chains.get(chain)?.rules ?? []
}

function candidates(tables: ReadonlyMap<string, Table>): SavedRule[] {
  return RULE_PLACES.flatMap(([table, chain]) => rulesAt(tables, table, chain))
}

/** In the place of a bridge's name; no text that is read has it. */
const ANY_BRIDGE = '\0'

/** The rules that a tenant bridge may have, by the place where they stand. */
class RuleForms {
  /** As iptables-save prints them: the same for all bridges but for the name. */
  readonly #texts: ReadonlyMap<string, ReadonlySet<string>>
  readonly #byBridge = new Map<string, ReadonlyMap<string, KnownRules>>()
  readonly #shared: ReadonlyMap<string, KnownRules>

  constructor(
    readonly net: ContainerNet,
    readonly subnet: Subnet,
  ) {
    this.#shared = known(byPlace(meshReplyRules(subnet)))
    const texts = [...byPlace(this.#rulesOf(ANY_BRIDGE))].map(([place, rules]) => {
      return [place, new Set(rules.map((words) => words.join(' ')))] as const
    })
    this.#texts = new Map(texts)
  }

  /** The tenant bridge that a rule of this project's names, null for the one that names none, undefined: not ours. */
  bridgeOf(place: string, rule: SavedRule): string | null | undefined {
    const bridges = bridgesIn(rule, this.net)
    if (bridges.length === 0) return this.#shared.get(place)?.has(rule) ? null : undefined
    const texts = this.#texts.get(place)
    return bridges.find(
      (bridge) =>
        (rule.text !== null && texts?.has(rule.text.replaceAll(bridge, ANY_BRIDGE))) ||
        this.#formsOf(bridge).get(place)?.has(rule),
    )
  }

  #formsOf(bridge: string): ReadonlyMap<string, KnownRules> {
    let forms = this.#byBridge.get(bridge)
    if (forms === undefined) {
      forms = known(byPlace(this.#rulesOf(bridge)))
      this.#byBridge.set(bridge, forms)
    }
    return forms
  }

  #rulesOf(bridge: string): TableRule[] {
    const rules = isolationRules(this.net.bridge, bridge, this.subnet).filter(({ shared }) => !shared)
    return [...rules, ...acceptRules(bridge)]
  }
}

/** The words of a rule that are the name of a tenant bridge. Where nothing is quoted, the rule need not be split for it. */
function bridgesIn(rule: SavedRule, net: ContainerNet): string[] {
  const { text } = rule
  if (text === null) return rule.words.filter((word) => net.isTenantBridge(word))
  const found: string[] = []
  const prefix = tenantBridgePrefix(net.bridge)
  for (let at = text.indexOf(prefix); at !== -1; at = text.indexOf(prefix, at + 1)) {
    if (at > 0 && text[at - 1] !== ' ') continue
    const end = text.indexOf(' ', at)
    const word = text.slice(at, end === -1 ? undefined : end)
    if (net.isTenantBridge(word)) found.push(word)
  }
  return found
}

const placeOf = ({ table, chain }: { table: string; chain: string }): string => `${table} ${chain}`

function byPlace(rules: readonly TableRule[]): ReadonlyMap<string, readonly (readonly string[])[]> {
  const words = new Map<string, (readonly string[])[]>()
  for (const rule of rules) addTo(words, placeOf(rule), rule.words)
  return words
}

function known(rules: ReturnType<typeof byPlace>): ReadonlyMap<string, KnownRules> {
  return new Map([...rules].map(([place, words]) => [place, new KnownRules(words)]))
}

function* addressChains(backend: Backend, mangle: Table, subnet: Subnet): Work<AddressChains[]> {
  const byAddress = new Map<string, Chain[]>()
  for (const chain of mangle.chains.values()) {
    const address = chain.policy === null ? chainAddress(chain.name) : null
    if (address === null || subnet.workloadOctet(address) === null) continue
    addTo(byAddress, address, chain)
  }
  yield
  const jumps = jumpsTo(mangle, new Set([...byAddress.values()].flat().map(({ name }) => name)))
  const found: AddressChains[] = []
  for (const [address, chains] of byAddress) {
    yield
    found.push(chainsOf(backend, address, chains, jumps, subnet))
  }
  return found
}

function chainsOf(
  backend: Backend,
  address: string,
  chains: readonly Chain[],
  jumps: ReadonlyMap<string, readonly SavedRule[]>,
  subnet: Subnet,
): AddressChains {
  const ownJumps = jumpRules(address)
  const own: SavedRule[] = []
  const holders = new Map<string, SavedRule[]>()
  for (const { name } of chains) {
    for (const rule of jumps.get(name) ?? []) {
      if (rule.chain === 'PREROUTING' && isOneOf(ownJumps, rule)) own.push(rule)
      else addTo(holders, name, rule)
    }
  }
  const isIdentity = ({ name }: Chain): boolean => name === identityChain(address)
  return {
    backend,
    address,
    chains,
    jumps: own,
    holders,
    identities: chains.filter(isIdentity).flatMap((chain) => identitiesOf(chain, address, subnet)),
    admitted: chains.filter((chain) => !isIdentity(chain)).flatMap((chain) => admittedBy(chain, address)),
  }
}

/** Every rule of the table that jumps to one of these chains, by chain. */
function jumpsTo(table: Table, names: ReadonlySet<string>): Map<string, SavedRule[]> {
  const jumps = new Map<string, SavedRule[]>()
  for (const chain of table.chains.values()) {
    for (const rule of chain.rules) {
      const target = targetOf(rule)
      if (target !== null && names.has(target)) addTo(jumps, target, rule)
    }
  }
  return jumps
}

/** The chain of this project's form that a rule jumps or goes to. What has just the form of our own jumps is not taken apart. */
function targetOf(rule: SavedRule): string | null {
  const { text } = rule
  if (text !== null && !OWN_CHAINS.some((prefix) => text.includes(prefix))) return null
  return /^-[sd] \S+ -j (\S+)$/.exec(text ?? '')?.[1] ?? parseRule(rule.words).target
}

const OWN_CHAINS = [identityChain(''), grantChain('')]

/** The names of tenant bridges that rules in iptables name, whether there are such bridges or not. */
export function tenantBridgesNamed(saves: ReadonlyMap<Backend, Save>, net: ContainerNet): string[] {
  const rules = [...saves.values()].flatMap(({ tables }) => candidates(tables))
  return rules.flatMap((rule) => bridgesIn(rule, net))
}

/** Every `/24` of the range that a rule or chain of this project's form names. */
export function subnetsNamed(saves: ReadonlyMap<Backend, Save>, net: ContainerNet): Subnet[] {
  const named: Subnet[] = []
  const note = (address: string | null | undefined): void => {
    const subnet = address ? net.subnetOf(address) : null
    if (subnet !== null) named.push(subnet)
  }
  for (const { tables } of saves.values()) {
    for (const { name, policy } of tables.get('mangle')?.chains.values() ?? [])
      if (policy === null) note(chainAddress(name))
    for (const rule of candidates(tables)) {
      if (!hasTag(rule)) continue
      for (const word of rule.words) note(/^([0-9.]+)\/24$/.exec(word)?.[1])
    }
  }
  return named
}
