/** The whole pass: read, decide, read again, remove, report. */
import type { Host } from '../kernel/host.js'
import { atOnce, inTurns, type Work } from '../kernel/turns.js'
import { applyPlan, foresee } from './apply.js'
import { type Conclusion, conclusionOf, settled } from './conclude.js'
import { ReadError } from './errors.js'
import { refuseInexactOf } from './exact.js'
import type { NodeStateLock } from './guard.js'
import type { ContainerNet } from './net.js'
import { checkCount, checkTime } from './numbers.js'
import type { Plan, Step, StepResult } from './plan.js'
import { aborted } from './read.js'
import { Reconciled, reconciledSteps } from './reconciled.js'
import { type Recorder, undoScript } from './record.js'
import { planWithoutSubnet, recoverSubnet } from './subnet-recovery.js'
import { planOf } from './sweep.js'
import { confirmNode, type NodeView, readNode } from './view.js'

export interface ReconcileOptions {
  /** Decide and report, remove nothing. */
  readonly dryRun?: boolean | undefined
  /** Milliseconds to leave the node alone between deciding and deciding again; the lock is let go for that time. Default 0. */
  readonly settleMs?: number | undefined
  /**
   * Milliseconds for which liveness that was read may be acted on: when deciding took longer, since others had the event loop or
   * the machine is slow, it is read once more, and decided on without a turn for anybody else. Default 50.
   */
  readonly freshMs?: number | undefined
  /** A pass that would remove the leftovers of more bridges and addresses than this removes nothing. Default: no limit. */
  readonly maxRemovals?: number | undefined
  /** Writes down, before anything is removed, what would put it back. */
  readonly recorder?: Recorder | undefined
  readonly signal?: AbortSignal | undefined
  readonly log?: Log | undefined
}

/** The part of a pino logger that a pass uses. */
export interface Log {
  debug(fields: object, message: string): void
}

/** More would have been removed than the caller allows; nothing was. `pass` lists what was not done. */
export class BrakeError extends ReadError {
  constructor(
    readonly pass: Reconciled,
    limit: number,
  ) {
    super({
      read: 'brake',
      code: 'BRAKE',
      reason: `${pass.bridges.length + pass.addresses.length} bridges and addresses have leftovers, more than ${limit}; nothing was removed`,
      hint: 'look at the steps; if they are right, raise --max-removals',
    })
  }
}

/** How often a pass is planned anew because somebody changed a table while it ran. */
const MAX_PLANS = 4

/**
 * Removes what stopped workloads left behind. Removals that failed are in the result.
 *
 * @throws ReadError, BrakeError, GuardError, and UsageError of a bad option or the recorder: then nothing was changed.
 */
export async function reconcile(
  net: ContainerNet,
  lock: NodeStateLock,
  options: ReconcileOptions = {},
): Promise<Reconciled> {
  const started = performance.now()
  checkTime('--settle', options.settleMs)
  checkTime('freshMs', options.freshMs)
  checkCount('--max-removals', options.maxRemovals)
  lock.assertGuards(net)
  const report = async (plan: Plan, results: readonly StepResult[]): Promise<Reconciled> => {
    const steps = await inTurns(reconciledSteps(net, results))
    return new Reconciled({
      plan,
      results,
      steps,
      dryRun: options.dryRun === true,
      elapsedMs: performance.now() - started,
    })
  }

  let decision = await decide(lock.host, net, null, options)
  if (decision.plan.steps.length > 0 && options.settleMs !== undefined && options.settleMs > 0) {
    await lock.pause(options.settleMs, options.signal)
    decision = await decide(lock.host, net, decision, options)
  }
  const { dryRun, maxRemovals = Number.POSITIVE_INFINITY } = options
  if (dryRun || maxRemovals !== Number.POSITIVE_INFINITY) {
    const foreseen = await report(decision.plan, foresee(decision.plan))
    if (foreseen.bridges.length + foreseen.addresses.length > maxRemovals) throw new BrakeError(foreseen, maxRemovals)
    if (dryRun) return foreseen
  }
  const { plan, results } = await remove(lock.host, decision, options)
  return report(plan, results)
}

export interface Decision {
  readonly view: NodeView
  readonly plan: Plan
  /** Null when the `/24` is not known. */
  readonly conclusion: Conclusion | null
}

/** Reads and plans; what an earlier decision did not find is left alone. @throws ReadError */
export async function decide(
  host: Host,
  net: ContainerNet,
  before: Decision | null,
  options: Pick<ReconcileOptions, 'signal' | 'log' | 'freshMs'>,
): Promise<Decision> {
  const first = await readNode(host, net, options)
  const decision = await decideInTurns(first, before, options.signal)
  if (decision.conclusion === null || decision.plan.steps.length === 0) return decision
  options.log?.debug({ steps: decision.plan.steps.length }, 'leftovers found: reading liveness again')
  const { departed } = decision.conclusion
  const confirmed = await confirmNode(host, first, departed, options)
  const since = performance.now()
  const last = await decideInTurns(confirmed, before, options.signal)
  if (performance.now() - since < (options.freshMs ?? FRESH_MS)) return last
  // Somebody may have come to life meanwhile.
  return atOnce(planFrom(await confirmNode(host, first, departed, options), before))
}

const FRESH_MS = 50

async function decideInTurns(view: NodeView, before: Decision | null, signal?: AbortSignal): Promise<Decision> {
  const decision = await inTurns(planFrom(view, before))
  if (signal?.aborted) throw aborted('deciding')
  return decision
}

function* planFrom(view: NodeView, before: Decision | null): Work<Decision> {
  const subnet = recoverSubnet(view)
  if (subnet === null) return { view, plan: planWithoutSubnet(view), conclusion: null }
  const now = yield* conclusionOf(view, subnet)
  const conclusion = before === null ? now : settled(now, before.conclusion)
  return { view, plan: yield* planOf(view, conclusion), conclusion }
}

/** Applies the plan; when a table changed under it, reads and plans what is left of it again. */
async function remove(
  host: Host,
  decision: Decision,
  options: ReconcileOptions,
): Promise<{ plan: Plan; results: StepResult[] }> {
  const results: StepResult[] = []
  let { view, plan } = decision
  for (let plans = 1; ; plans++) {
    try {
      if (plans === 1) await refuseInexactOf(host, plan, options.signal)
      else ({ view, plan } = await decide(host, view.net, decision, options))
      if (plan.steps.some(({ held }) => held === null)) await options.recorder?.record(undoScript(view, plan))
    } catch (error) {
      // Something was removed already, so this is no pass that changed nothing: what is left is told as failed.
      if (results.length === 0) throw error
      const { code = 'INTERNAL', message = String(error) } = error as NodeJS.ErrnoException
      results.push(
        ...plan.steps
          .filter((step) => !results.some((result) => result.step === step))
          .map((step) => failedStep(step, code, message)),
      )
      return { plan, results }
    }
    const applied = await applyPlan(host, plan, { signal: options.signal, mayReplan: plans < MAX_PLANS })
    if (!applied.stale) return { plan, results: [...results, ...applied.results] }
    options.log?.debug({ plans }, 'a table changed meanwhile: reading and planning again')
    // What failed or was kept is in the next plan again, as long as it is there.
    results.push(...applied.results.filter(({ outcome }) => outcome === 'removed' || outcome === 'gone'))
  }
}

function failedStep(step: Step, code: string, message: string): StepResult {
  return { step, outcome: 'failed', kept: null, error: { code, message } }
}
