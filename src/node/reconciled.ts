/** What a pass came to. */
import { byAddress } from '../kernel/ipv4.js'
import type { Work } from '../kernel/turns.js'
import { shellQuote } from './describe.js'
import type { ContainerNet } from './net.js'
import type { Action, Notice, Outcome, Plan, StepResult } from './plan.js'

/** One step, as `netsweep sweep --json` prints it. */
export interface ReconciledStep {
  readonly action: Action
  readonly object: string
  readonly reason: string
  readonly command: string
  readonly outcome: Outcome
  readonly error?: { readonly code: string; readonly message: string }
}

/** A pass as data, as `netsweep sweep --json` prints it. */
export interface ReconciledJson {
  readonly subnet: string | null
  readonly bridges: readonly string[]
  readonly addresses: readonly string[]
  readonly dryRun: boolean
  readonly complete: boolean
  readonly steps: readonly ReconciledStep[]
  readonly notices: readonly Notice[]
  readonly elapsedMs: number
}

export class Reconciled implements ReconciledJson {
  /** The node's `/24`; null when no bridge carries a gateway in the range. */
  readonly subnet: string | null
  /** Bridges whose leftovers were removed, or in a dry run would be, detached ones included; sorted. */
  readonly bridges: readonly string[]
  /** Addresses whose leftovers were removed, or would be; in order of the address. */
  readonly addresses: readonly string[]
  readonly dryRun: boolean
  /** Whether everything that should go is gone, or in a dry run can go. */
  readonly complete: boolean
  readonly steps: readonly ReconciledStep[]
  readonly notices: readonly Notice[]
  readonly elapsedMs: number

  constructor(pass: {
    plan: Plan
    results: readonly StepResult[]
    /** What `reconciledSteps` made of them. */
    steps: readonly ReconciledStep[]
    dryRun: boolean
    elapsedMs: number
  }) {
    const { plan, results, steps } = pass
    const done = results.filter(({ outcome }) => outcome !== 'kept' && outcome !== 'failed')
    this.subnet = plan.subnet === null ? null : String(plan.subnet)
    this.bridges = [...new Set(done.flatMap(({ step }) => step.bridges))].sort()
    this.addresses = [...new Set(done.flatMap(({ step }) => step.addresses))].sort(byAddress)
    this.dryRun = pass.dryRun
    this.complete = done.length === results.length
    this.steps = steps
    this.notices = plan.notices
    this.elapsedMs = Math.round(pass.elapsedMs * 10) / 10
  }

  /** Nothing was left behind. */
  get isEmpty(): boolean {
    return this.steps.length === 0
  }
}

export function* reconciledSteps(net: ContainerNet, results: readonly StepResult[]): Work<ReconciledStep[]> {
  const steps: ReconciledStep[] = []
  for (const result of results) {
    steps.push(reconciledStep(net, result))
    yield
  }
  return steps
}

function reconciledStep(net: ContainerNet, { step, outcome, kept, error }: StepResult): ReconciledStep {
  const { action, object, reason, command } = step
  return {
    action,
    object,
    reason: kept === null ? reason : `${reason}; kept: ${kept}`,
    command: net.netns === undefined ? command : inNamespace(net.netns, command),
    outcome,
    ...(error === null ? {} : { error }),
  }
}

/** A step of several commands goes in as a whole: none of them may run outside. */
function inNamespace(netns: string, command: string): string {
  const enter = `nsenter --net=${shellQuote(netns.startsWith('/') ? netns : `/run/netns/${netns}`)}`
  return /&&|;/.test(command) ? `${enter} sh -c ${shellQuote(command)}` : `${enter} ${command}`
}
