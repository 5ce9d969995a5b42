/** A process of its own that is killed in the middle of its work on a test's node. */
import { fileURLToPath } from 'node:url'
import type { TestNode } from './node.js'

const SCRIPT = fileURLToPath(new URL('./dying.mjs', import.meta.url))
const KILLED = 128 + 9

/** Right before a write, or once it was asked for. */
export type When = 'before' | 'during'

/** Deploys this workload, or sweeps, and is killed at the nth write. False: it had no such write, and came to its end. */
export async function dies(node: TestNode, what: object | 'sweep', when: When, nth: number): Promise<boolean> {
  const workload = what === 'sweep' ? undefined : what
  const call = JSON.stringify({ options: { iptables: node.backend }, workload, nth, when })
  const { status, stderr } = await node.exec(process.execPath, [SCRIPT, call])
  if (status !== 0 && status !== KILLED) throw new Error(`ended with status ${status}: ${stderr}`)
  return status === KILLED
}
