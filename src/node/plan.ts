/** What a pass will do, as data: it can be printed, compared and applied, and it reads no clock. */
import type { Connection } from '../kernel/conntrack/connection.js'
import type { Backend } from '../kernel/iptables/tools.js'
import type { Link } from '../kernel/rtnetlink/link.js'
import type { Neighbour } from '../kernel/rtnetlink/neighbour.js'
import type { Route } from '../kernel/rtnetlink/route.js'
import type { Rule } from '../kernel/rtnetlink/rule.js'
import type { Filter } from '../kernel/tc.js'
import type { Subnet } from './subnet.js'

interface StepBase {
  /** What goes, as a person would name it: `priority 1202 iif yah0-91auqknbeu to … prohibit`. */
  readonly object: string
  /** Why it goes: `bridge yah0-91auqknbeu has no workload`. */
  readonly reason: string
  /** What a person would type for the same. Nothing is run that way. */
  readonly command: string
  /** The bridges and addresses whose leftover it is. */
  readonly bridges: readonly string[]
  readonly addresses: readonly string[]
  /** Why it stays although it is ours: somebody else's state holds it. Null: it goes. */
  readonly held: string | null
}

/** Rules and chains of one address or one bridge in one table: the smallest piece that makes sense by itself. */
export interface RestoreStep extends StepBase {
  readonly action: 'restore'
  readonly backend: Backend
  readonly table: string
  /** The rules to delete, as iptables-save printed them, one for every copy. */
  readonly rules: readonly { readonly chain: string; readonly words: readonly string[] }[]
  /** Chains to delete after all rules of the batch. */
  readonly chains: readonly string[]
}

export type Step =
  | (StepBase & { readonly action: 'delete-filter'; readonly filter: Filter })
  | (StepBase & { readonly action: 'delete-proxy'; readonly neighbour: Neighbour })
  | RestoreStep
  | (StepBase & { readonly action: 'delete-route'; readonly route: Route })
  | (StepBase & { readonly action: 'delete-neighbour'; readonly neighbour: Neighbour })
  | (StepBase & { readonly action: 'delete-conntrack'; readonly connections: readonly Connection[] })
  | (StepBase & { readonly action: 'delete-rule'; readonly rule: Rule })
  | (StepBase & { readonly action: 'delete-link'; readonly link: Link; readonly gateway: boolean })

export type Action = Step['action']

/** Something that was seen and left on purpose. */
export interface Notice {
  readonly object: string
  readonly reason: string
}

export interface Plan {
  readonly subnet: Subnet | null
  /** In the order in which they are taken. */
  readonly steps: readonly Step[]
  readonly notices: readonly Notice[]
  /** Whether a bridge with the gateway stays whatever happens, so that the next pass knows the /24. */
  readonly gatewayStays: boolean
}

/** planned: a dry run. gone: somebody else was faster. kept: ours, but somebody else's state holds it. */
export type Outcome = 'planned' | 'removed' | 'gone' | 'kept' | 'failed'

export interface StepResult {
  readonly step: Step
  readonly outcome: Outcome
  /** Why it was kept; null otherwise. */
  readonly kept: string | null
  readonly error: { readonly code: string; readonly message: string } | null
}
