/** Plan → outcomes: writes, and decides nothing. A step that fails does not stop the rest. */

import { deleteConnection } from '../kernel/conntrack/conntrack.js'
import { addTo } from '../kernel/groups.js'
import type { Host } from '../kernel/host.js'
import { batchOf, formatCommand } from '../kernel/iptables/restore.js'
import { type ApplyResult, applyBatch } from '../kernel/iptables/tools.js'
import { ask, type Reply } from '../kernel/netlink/ask.js'
import { NetlinkError } from '../kernel/netlink/errors.js'
import type { Request } from '../kernel/netlink/request.js'
import { deleteNeighbour, deleteProxy } from '../kernel/rtnetlink/neighbour.js'
import { deleteRoute } from '../kernel/rtnetlink/route.js'
import { deleteRule } from '../kernel/rtnetlink/rule.js'
import { deleteFilter } from '../kernel/tc.js'
import { inTurns, type Work } from '../kernel/turns.js'
import { deleteLinks, GONE_CODES } from './delete-links.js'
import { ReadError } from './errors.js'
import type { Plan, RestoreStep, Step, StepResult } from './plan.js'

export interface ApplyOptions {
  readonly signal?: AbortSignal | undefined
  /** Whether a batch that was refused may be planned anew; otherwise it is tried in smaller pieces. */
  readonly mayReplan: boolean
}

export interface Applied {
  /** Of the steps that were taken, in the plan's order. */
  readonly results: readonly StepResult[]
  /** A table changed in between: read again and plan again. The steps behind that batch were not taken. */
  readonly stale: boolean
}

export async function applyPlan(host: Host, plan: Plan, options: ApplyOptions): Promise<Applied> {
  const applier = new Applier(host, plan, options)
  const stale = !(await applier.run())
  return { results: plan.steps.flatMap((step) => applier.results.get(step) ?? []), stale }
}

/** What a dry run says of each step. */
export function foresee(plan: Plan): StepResult[] {
  const results = new Map<Step, StepResult>()
  for (const step of keeperLast(plan.steps, plan)) {
    const hold = step.held ?? (step.action === 'delete-link' ? linkHold(step, plan, results) : null)
    results.set(step, hold === null ? { step, outcome: 'planned', kept: null, error: null } : kept(step, hold))
  }
  return plan.steps.flatMap((step) => results.get(step) ?? [])
}

type LinkStep = Extract<Step, { action: 'delete-link' }>
/** A step that is one request to the kernel. */
type RequestStep = Exclude<Step, RestoreStep | LinkStep>

class Applier {
  readonly results = new Map<Step, StepResult>()

  constructor(
    readonly host: Host,
    readonly plan: Plan,
    readonly options: ApplyOptions,
  ) {}

  /** False when a batch was refused and may be planned anew. */
  async run(): Promise<boolean> {
    for (const group of groups(this.plan.steps)) {
      if (this.options.signal?.aborted) this.#fail(group, failed('ABORTED', 'cancelled'))
      else if (isRestore(group)) {
        if (!(await this.#restore(group))) return false
      } else if (isRequests(group)) await this.#request(group)
      else await this.#deleteLinks(group.filter((step) => step.action === 'delete-link'))
    }
    return true
  }

  /** One exchange for all of them. */
  async #request(group: readonly RequestStep[]): Promise<void> {
    const steps = this.#withoutHeld(group)
    try {
      const requests = steps.flatMap((step) => requestsFor(step).map((request) => ({ step, request })))
      const protocol = steps[0]?.action === 'delete-conntrack' ? ('netfilter' as const) : ('route' as const)
      const replies = await ask(
        this.host,
        requests.map(({ request }) => request),
        { ...this.options, protocol },
      )
      const byStep = new Map<Step, Reply<never>[]>()
      replies.forEach((reply, i) => {
        const step = requests[i]?.step
        if (step !== undefined) addTo(byStep, step, reply)
      })
      for (const step of steps) this.results.set(step, outcomeOf(step, byStep.get(step) ?? []))
    } catch (error) {
      this.#fail(steps, failure(error))
    }
  }

  /** One atomic batch for all of them, or, when that is refused for good, one for each. */
  async #restore(group: readonly RestoreStep[]): Promise<boolean> {
    const steps = this.#withoutHeld(group)
    const result = await this.#batch(steps)
    if (result === null || result.ok) {
      for (const step of steps) this.results.set(step, removed(step))
      return true
    }
    const worthAnother = result.kind === 'stale' || result.kind === 'busy' || result.kind === 'other'
    if (worthAnother && this.options.mayReplan) return false
    if (worthAnother && steps.length > 1) {
      for (const step of steps) {
        const piece = await this.#batch([step])
        if (piece === null || piece.ok) this.results.set(step, removed(step))
        else this.#fail([step], batchFailure(piece))
      }
      return true
    }
    this.#fail(steps, batchFailure(result))
    return true
  }

  /** Null when there was nothing to do. */
  async #batch(steps: readonly RestoreStep[]): Promise<ApplyResult | null> {
    const [first] = steps
    if (first === undefined) return null
    try {
      const batch = await inTurns(restoreBatch(first.table, steps))
      return await applyBatch(this.host, first.backend, batch, this.options)
    } catch (error) {
      // Whatever it is, something may have been removed before it: the rest goes on.
      const message = error instanceof Error ? error.message : String(error)
      return { ok: false, kind: 'other', status: null, message, line: null }
    }
  }

  /** The bridge that may have to stay is decided on when it is known what became of the others. */
  async #deleteLinks(steps: readonly LinkStep[]): Promise<void> {
    const keeper = lastGateway(this.plan)
    for (const some of [steps.filter((step) => step !== keeper), steps.filter((step) => step === keeper)]) {
      const going: LinkStep[] = []
      for (const step of some) {
        const hold = step.held ?? linkHold(step, this.plan, this.results)
        if (hold === null) going.push(step)
        else this.results.set(step, kept(step, hold))
      }
      for (const [step, { outcome, kept, error }] of await deleteLinks(this.host, going, this.options))
        this.results.set(step, { step, outcome, kept, error: error === null ? null : failure(error) })
    }
  }

  #withoutHeld<S extends Step>(steps: readonly S[]): S[] {
    for (const step of steps) if (step.held !== null) this.results.set(step, kept(step, step.held))
    return steps.filter(({ held }) => held === null)
  }

  #fail(steps: readonly Step[], error: NonNullable<StepResult['error']>): void {
    for (const step of steps) this.results.set(step, { step, outcome: 'failed', kept: null, error })
  }
}

/** All of the steps' rules, then all of their chains: a chain goes when nothing jumps to it any more. */
export function* restoreBatch(table: string, steps: readonly RestoreStep[]): Work<string> {
  const commands: string[] = []
  for (const { rules } of steps) {
    for (const { chain, words } of rules) commands.push(formatCommand(['-D', chain, ...words]))
    yield
  }
  for (const { chains } of steps) for (const name of chains) commands.push(formatCommand(['-X', name]))
  return batchOf(table, commands)
}

function requestsFor(step: RequestStep): Request<never>[] {
  const what = `delete ${step.object}`
  switch (step.action) {
    case 'delete-filter':
      return [deleteFilter(step.filter, what)]
    case 'delete-proxy':
      return [deleteProxy(step.neighbour)]
    case 'delete-neighbour':
      return [deleteNeighbour(step.neighbour)]
    case 'delete-route':
      return [deleteRoute(step.route, what)]
    case 'delete-conntrack':
      return step.connections.map((connection) => deleteConnection(connection, what))
    case 'delete-rule':
      return [deleteRule(step.rule, what)]
  }
}

/** Why a dead bridge has to stay although nobody uses it; null when it can go. */
function linkHold(step: LinkStep, plan: Plan, results: ReadonlyMap<Step, StepResult>): string | null {
  const problems = [...results.values()].filter(({ outcome }) => outcome === 'kept' || outcome === 'failed')
  const own = problems.find((result) => result.step.bridges.some((name) => step.bridges.includes(name)))
  if (own !== undefined) return `${own.step.object} is still there`
  const [first] = problems
  if (first === undefined || step !== lastGateway(plan)) return null
  const gatewayKept = problems.some(({ step: other }) => other.action === 'delete-link' && other.gateway)
  return gatewayKept ? null : `${first.step.object} is still there, and no other bridge tells the node's /24`
}

/** The dead bridge that stays for the gateway's sake, if one has to; null while a bridge with the gateway stays anyhow. */
function lastGateway(plan: Plan): Step | null {
  if (plan.gatewayStays) return null
  return plan.steps.find((step) => step.action === 'delete-link' && step.gateway) ?? null
}

/** The bridge that may have to stay, so that the next pass knows the /24, is the last that is decided on. */
function keeperLast<S extends Step>(steps: readonly S[], plan: Plan): S[] {
  const keeper = lastGateway(plan)
  return [...steps].sort((a, b) => Number(a === keeper) - Number(b === keeper))
}

/** Steps that go out together: requests in one exchange, batches of one table, links. */
function groups(steps: readonly Step[]): Step[][] {
  const key = (step: Step): string => {
    if (step.action === 'restore') return `${step.backend} ${step.table}`
    if (step.action === 'delete-link' || step.action === 'delete-conntrack') return step.action
    return 'request'
  }
  const groups: Step[][] = []
  for (const step of steps) {
    const last = groups.at(-1)
    if (last?.[0] !== undefined && key(last[0]) === key(step)) last.push(step)
    else groups.push([step])
  }
  return groups
}

function isRestore(group: readonly Step[]): group is RestoreStep[] {
  return group[0]?.action === 'restore'
}

function isRequests(group: readonly Step[]): group is RequestStep[] {
  return group[0]?.action !== 'restore' && group[0]?.action !== 'delete-link'
}

function removed(step: Step): StepResult {
  return { step, outcome: 'removed', kept: null, error: null }
}

function kept(step: Step, reason: string): StepResult {
  return { step, outcome: 'kept', kept: reason, error: null }
}

function refused(step: Step, error: NetlinkError): StepResult {
  if (GONE_CODES.has(error.code)) return { step, outcome: 'gone', kept: null, error: null }
  return { step, outcome: 'failed', kept: null, error: failure(error) }
}

/** Of the requests of one step: one that failed is told, and it is gone when none of them found anything. */
function outcomeOf(step: Step, replies: readonly Reply<never>[]): StepResult {
  const errors = replies.flatMap(({ error }) => error ?? [])
  const refusal = errors.find(({ code }) => !GONE_CODES.has(code)) ?? null
  if (refusal !== null) return refused(step, refusal)
  return errors.length < replies.length ? removed(step) : { step, outcome: 'gone', kept: null, error: null }
}

function batchFailure({ kind, message }: Extract<ApplyResult, { ok: false }>): NonNullable<StepResult['error']> {
  return failed(kind.toUpperCase(), message)
}

function failed(code: string, message: string): NonNullable<StepResult['error']> {
  return { code, message }
}

function failure(error: unknown): NonNullable<StepResult['error']> {
  if (error instanceof NetlinkError || error instanceof ReadError) return failed(error.code, error.message)
  // A defect of ours; the rest is done, and it is told like any other failure.
  return failed('INTERNAL', error instanceof Error ? error.message : String(error))
}
