/** Conclusion → Plan: what goes, in which order, and why. Pure. */

import type { Connection } from '../kernel/conntrack/connection.js'
import { addTo } from '../kernel/groups.js'
import { ruleKey } from '../kernel/iptables/rule.js'
import type { SavedRule } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { NUD_NOARP, NUD_PERMANENT } from '../kernel/linux.js'
import { routeTakenFirst } from '../kernel/rtnetlink/route.js'
import { type Rule, ruleTakenFirst } from '../kernel/rtnetlink/rule.js'
import { atOnce, type Work } from '../kernel/turns.js'
import { type Conclusion, isGateway } from './conclude.js'
import { describeFilter, describeRoute, describeRule, iptablesCommand, shellQuote, wouldGoFirst } from './describe.js'
import { bridgeNames } from './links.js'
import type { Notice, Plan, RestoreStep, Step } from './plan.js'
import type { AddressChains, BridgeRule } from './tables.js'
import type { NodeView } from './view.js'

/** Whose leftover a step is, and why it goes. */
type About = Pick<Step, 'reason' | 'bridges' | 'addresses' | 'held'>

/** What a pass removes. The order is part of the contract: what the next pass needs to find the rest goes last. */
export function planSweep(view: NodeView, conclusion: Conclusion): Plan {
  return atOnce(planOf(view, conclusion))
}

export function* planOf(view: NodeView, conclusion: Conclusion): Work<Plan> {
  const sweep = new Sweep(view, conclusion)
  const steps = [
    ...sweep.filters(),
    ...sweep.proxies(),
    ...(yield* sweep.tables()),
    ...(yield* sweep.routes()),
    ...(yield* sweep.workloadProhibits()),
    ...sweep.neighbours(),
    ...sweep.connections(),
    ...(yield* sweep.bridgeProhibits()),
    ...sweep.links(),
  ]
  const said = [...notices(conclusion), ...sweep.unlisted()]
  return { subnet: conclusion.subnet, steps, notices: said, gatewayStays: sweep.gatewayStays() }
}

function notices({ foreign, misplaced, spared }: Conclusion): Notice[] {
  const strangers = [...foreign].map(([name, reason]) => ({ object: `bridge ${name}`, reason: `foreign: ${reason}` }))
  return [...strangers, ...misplaced, ...spared]
}

class Sweep {
  readonly #departed: ReadonlySet<string>
  readonly #dead: ReadonlySet<string>
  readonly #detached: ReadonlySet<string>
  readonly #names: ReadonlyMap<number, string>
  /** What iptables would delete in the place of a rule of ours. */
  readonly #disguised: ReadonlySet<string>

  constructor(
    readonly view: NodeView,
    readonly conclusion: Conclusion,
  ) {
    this.#departed = new Set(conclusion.departed)
    this.#dead = new Set(conclusion.dead.map(({ link }) => link.name))
    this.#detached = new Set(conclusion.detached)
    this.#disguised = new Set([...(view.confirmed?.disguised ?? [])].map(disguiseKey))
    this.#names = bridgeNames(view.links)
  }

  filters(): Step[] {
    return this.conclusion.unwantedFilters.map(({ object: filter, mine: { sender, target } }) => {
      const object = describeFilter(filter, this.#name(filter.index))
      return {
        ...this.#about(this.#withoutWorkload([sender, target])),
        action: 'delete-filter',
        object: `filter ${object}`,
        command: `tc filter del ${object}`,
        filter,
      }
    })
  }

  proxies(): Step[] {
    return this.conclusion.unwantedProxies.map(({ object: neighbour, mine }) => {
      const object = `proxy ${mine} dev ${shellQuote(this.#name(neighbour.index))}`
      const command = `ip neigh del ${object}`
      return { ...this.#about(this.#withoutWorkload([mine])), action: 'delete-proxy', object, command, neighbour }
    })
  }

  /** Table by table, each to be committed as a whole: what names addresses, then what names bridges. */
  *tables(): Work<RestoreStep[]> {
    const { chains, rules } = this.conclusion.own.tables
    const steps: RestoreStep[] = []
    for (const backend of this.view.iptables.keys()) {
      for (const table of ['mangle', 'raw', 'filter']) {
        for (const each of table === 'mangle' ? chains : []) {
          if (each.backend === backend) steps.push(...this.#chains(each))
          yield
        }
        const here = rules.filter((rule) => rule.backend === backend && rule.table === table)
        steps.push(...(yield* this.#bridgeRules(backend, table, here)))
      }
    }
    return steps
  }

  *routes(): Work<Step[]> {
    const steps: Step[] = []
    // Each deletion changes what the kernel would take next.
    const left = [...this.view.routes]
    for (const { object: route, mine } of this.conclusion.own.hostRoutes) {
      if (!this.#departed.has(mine)) continue
      const dev = this.#name(route.oif)
      const taken = routeTakenFirst(left, route)
      if (taken === route) left.splice(left.indexOf(route), 1)
      const held = taken === undefined || taken === route ? null : wouldGoFirst(describeRoute(taken, dev))
      const command = `ip route del ${describeRoute(route, dev)}`
      const object = `route ${mine}/32 dev ${dev}`
      steps.push({ ...this.#about([mine]), held, action: 'delete-route', object, command, route })
      yield
    }
    return steps
  }

  neighbours(): Step[] {
    const fixed = NUD_PERMANENT | NUD_NOARP
    return (this.view.confirmed?.neighbours ?? []).flatMap((neighbour): Step[] => {
      if (!this.#departed.has(neighbour.address) || neighbour.proxy || (neighbour.state & fixed) !== 0) return []
      const object = `${neighbour.address} dev ${shellQuote(this.#name(neighbour.index))}`
      return [
        {
          ...this.#about([neighbour.address]),
          action: 'delete-neighbour',
          object: `neighbour ${object}`,
          command: `ip neigh del ${object}`,
          neighbour,
        },
      ]
    })
  }

  workloadProhibits(): Work<Step[]> {
    const going = this.conclusion.own.workloadProhibits.filter(({ mine }) => this.#departed.has(mine))
    return this.#deleteRules(going.map(({ object, mine }) => ({ rule: object, about: this.#about([mine]) })))
  }

  connections(): Step[] {
    const found = this.view.confirmed?.connections ?? new Map<string, readonly Connection[]>()
    return [...found].flatMap(([address, connections]): Step[] => {
      if (!this.#departed.has(address)) return []
      const command = ['-s', '-d', '-r', '-q'].map((end) => `conntrack -D ${end} ${address}`).join('; ')
      const object = `connections of ${address} (${connections.length})`
      return [{ ...this.#about([address]), action: 'delete-conntrack', object, command, connections }]
    })
  }

  bridgeProhibits(): Work<Step[]> {
    const going = this.conclusion.own.bridgeProhibits.filter(({ mine }) => this.#goes(mine))
    return this.#deleteRules(going.map(({ object, mine }) => ({ rule: object, about: this.#aboutBridge(mine) })))
  }

  links(): Step[] {
    return [...this.conclusion.dead]
      .sort((a, b) => (a.link.name < b.link.name ? -1 : 1))
      .map((bridge) => ({
        ...this.#aboutBridge(bridge.link.name),
        action: 'delete-link',
        object: `bridge ${bridge.link.name}`,
        command: `ip link del dev ${shellQuote(bridge.link.name)}`,
        link: bridge.link,
        gateway: bridge.addresses.some((address) => isGateway(address, this.conclusion.subnet)),
      }))
  }

  /** What cannot be removed since this kernel does not show it. */
  unlisted(): Notice[] {
    if (this.#departed.size === 0 || this.view.confirmed?.connections !== null) return []
    return [
      { object: 'connections of departed addresses', reason: 'not seen: this kernel has no nf_conntrack_netlink' },
    ]
  }

  gatewayStays(): boolean {
    return this.view.links.bridges.some(
      ({ link, addresses }) =>
        !this.#dead.has(link.name) && addresses.some((address) => isGateway(address, this.conclusion.subnet)),
    )
  }

  /** One address's jumps, the rules of its chains, and the chains; a chain that somebody else jumps to stays, empty. */
  #chains({ backend, address, chains, jumps, holders }: AddressChains): RestoreStep[] {
    if (!this.#departed.has(address)) return []
    // Rules of chains that go as well hold nothing: they are deleted before any chain is.
    const holding = chains.filter(({ name }) =>
      holders.get(name)?.some(({ chain }) => !this.#isDepartedChain(backend, chain)),
    )
    const rules = [...jumps, ...chains.flatMap((chain) => chain.rules)]
    const free = chains.filter((chain) => !holding.includes(chain)).map(({ name }) => name)
    const about = this.#about([address])
    const steps: RestoreStep[] = []
    if (rules.length > 0 || free.length > 0) {
      const names =
        free.length > 0 ? `chains ${free.join(', ')}` : `rules of ${chains.map(({ name }) => name).join(', ')}`
      steps.push(this.#restoreStep(about, backend, 'mangle', names, rules, free))
    }
    for (const { name } of holding) {
      const [holder] = holders.get(name) ?? []
      const step = this.#restoreStep(about, backend, 'mangle', `chain ${name}`, [], [name])
      steps.push({ ...step, held: `held by somebody else's rule: -A ${holder?.chain} ${holder?.words.join(' ')}` })
    }
    return steps
  }

  #isDepartedChain(backend: Backend, name: string): boolean {
    return this.conclusion.own.tables.chains.some(
      (each) =>
        each.backend === backend &&
        this.#departed.has(each.address) &&
        each.chains.some((chain) => chain.name === name),
    )
  }

  *#bridgeRules(backend: Backend, table: string, rules: readonly BridgeRule[]): Work<RestoreStep[]> {
    const byBridge = new Map<string | null, SavedRule[]>()
    for (const { bridge, rule } of rules) addTo(byBridge, bridge, rule)
    const steps: RestoreStep[] = []
    for (const name of [...byBridge.keys()].filter((name) => name !== null).sort()) {
      if (!this.#goes(name)) continue
      const about = this.#aboutBridge(name)
      steps.push(this.#restoreStep(about, backend, table, `rules of ${name}`, byBridge.get(name) ?? [], []))
      yield
    }
    const meshMark = byBridge.get(null)
    if (meshMark !== undefined && this.conclusion.meshMarkDetached) {
      const about = { reason: 'no tenant bridge remains', bridges: [], addresses: [], held: null }
      steps.push(this.#restoreStep(about, backend, table, 'the reply mark of the mesh', meshMark, []))
    }
    return steps
  }

  *#deleteRules(going: readonly { rule: Rule; about: About }[]): Work<Step[]> {
    const steps: Step[] = []
    // Each deletion changes what the kernel would take next.
    const left = [...this.view.rules]
    for (const { rule, about } of going) {
      const taken = ruleTakenFirst(left, rule)
      if (taken === rule) left.splice(left.indexOf(rule), 1)
      const object = describeRule(rule)
      const held = taken === undefined || taken === rule ? null : wouldGoFirst(describeRule(taken))
      steps.push({ ...about, held, action: 'delete-rule', object, command: `ip rule del ${object}`, rule })
      yield
    }
    return steps
  }

  #restoreStep(
    about: About,
    backend: Backend,
    table: string,
    what: string,
    rules: readonly SavedRule[],
    chains: readonly string[],
  ): RestoreStep {
    const isDisguised = (rule: SavedRule): boolean => this.#disguised.size > 0 && this.#disguised.has(disguiseKey(rule))
    const held = backend === 'nft' && rules.some(isDisguised) ? DISGUISED : null
    return {
      ...about,
      held,
      action: 'restore',
      object: `${backend} ${table}: ${what}`,
      // When somebody asks for it: of a hundred addresses it would keep others waiting.
      get command() {
        const commands = [
          ...rules.map(({ chain, words }) => ['-D', chain, ...words]),
          ...chains.map((name) => ['-X', name]),
        ]
        return commands.map((words) => iptablesCommand(backend, table, words)).join(' && ')
      },
      backend,
      table,
      rules,
      chains,
    }
  }

  #goes(bridge: string): boolean {
    return this.#dead.has(bridge) || this.#detached.has(bridge)
  }

  #name(index: number): string {
    return this.#names.get(index) ?? `link ${index}`
  }

  #withoutWorkload(addresses: readonly string[]): string[] {
    return addresses.filter((address) => this.#departed.has(address))
  }

  /** Whose leftover it is, and why it goes: that of no address is wanted by no pair. */
  #about(addresses: readonly string[]): About {
    const [first] = addresses
    const reason = first === undefined ? 'no granted pair wants it' : `address ${addresses.join(', ')} has no workload`
    return { reason, bridges: [], addresses, held: null }
  }

  #aboutBridge(name: string): About {
    const reason = this.#dead.has(name) ? `bridge ${name} has no workload` : `bridge ${name} does not exist`
    return { reason, bridges: [name], addresses: [], held: null }
  }
}

const DISGUISED = "a native nft rule of somebody else's, which iptables prints as one of these, would be taken for it"

const disguiseKey = ({ chain, words }: SavedRule): string => `${chain} ${ruleKey(words)}`
