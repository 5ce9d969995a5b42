/** One pass over a test node, through the library or through the command: what it came to, as data. */
import { ContainerNet, type ContainerNetOptions, lockNodeState, ReadError, reconcile } from '../../../src/index.js'
import type { ReconciledJson } from '../../../src/node/reconciled.js'
import type { TestNode } from '../../support/node.js'

export type By = 'library' | 'command'

export interface Pass {
  /** What the command ends with, or would. */
  readonly status: number
  readonly report: ReconciledJson | null
  /** Why nothing was changed. */
  readonly error: { readonly code: string; readonly message: string; readonly hint?: string | null } | null
}

export async function sweep(
  node: TestNode,
  { by = 'library', dryRun = false, options = {} }: { by?: By; dryRun?: boolean; options?: ContainerNetOptions } = {},
): Promise<Pass> {
  return by === 'command' ? byCommand(node, dryRun, options) : byLibrary(node, dryRun, options)
}

async function byLibrary(node: TestNode, dryRun: boolean, options: ContainerNetOptions): Promise<Pass> {
  const net = new ContainerNet({ netns: node.netnsPath, ...options })
  try {
    await using lock = await lockNodeState(net)
    const pass = await reconcile(net, lock, { dryRun })
    if (pass.isEmpty !== (pass.steps.length === 0)) throw new Error('isEmpty disagrees with the steps')
    return { status: pass.complete ? 0 : 1, report: pass, error: null }
  } catch (error) {
    if (!(error instanceof ReadError)) throw error
    const { code, message, hint } = error
    return { status: 3, report: null, error: { code, message, hint: hint ?? null } }
  }
}

async function byCommand(node: TestNode, dryRun: boolean, options: ContainerNetOptions): Promise<Pass> {
  const flags = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const answer = await node.netsweep(['sweep', '--json', ...(dryRun ? ['--dry-run'] : []), ...flags])
  const printed = answer.json as ReconciledJson | { readonly error: NonNullable<Pass['error']> } | undefined
  if (printed === undefined) throw new Error(`the command ended with ${answer.status}: ${answer.stderr}`)
  if ('error' in printed) return { status: answer.status, report: null, error: printed.error }
  return { status: answer.status, report: printed, error: null }
}
