/** Refuses, before anything is changed, an iptables that would delete what nobody told it to. */
import type { Host } from '../kernel/host.js'
import { assertExact, type Backend, IptablesError } from '../kernel/iptables/tools.js'
import { ReadError } from './errors.js'
import type { Plan } from './plan.js'

/** Where that cannot be told, the batches are not run, and say why. @throws ReadError */
export async function refuseInexact(host: Host, backend: Backend, table: string, signal?: AbortSignal): Promise<void> {
  try {
    await assertExact(host, backend, table, { signal })
  } catch (error) {
    if (!(error instanceof IptablesError)) throw error
    const { code, tool, reason, hint } = error
    if (code === 'INEXACT') throw new ReadError({ read: tool, code: 'FAILED', reason, hint, cause: error })
  }
}

/** The same for all that a plan deletes. @throws ReadError */
export async function refuseInexactOf(host: Host, { steps }: Plan, signal?: AbortSignal): Promise<void> {
  const tables = new Map(
    steps.flatMap((step) =>
      step.action === 'restore' && step.held === null && step.rules.length > 0 ? [[step.backend, step.table]] : [],
    ),
  )
  for (const [backend, table] of tables) await refuseInexact(host, backend, table, signal)
}
