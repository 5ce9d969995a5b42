/** Waits until a workload's packets pass: the kernel sees to a link's carrier in a work of its own, a moment after the link went up. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Host } from '../kernel/host.js'
import { IF_OPER_UNKNOWN, IF_OPER_UP } from '../kernel/linux.js'
import { operationalState } from '../kernel/rtnetlink/link.js'
import { readLists } from './read.js'

/** How long a busy machine gets. Nothing depends on it: what is lost till then is sent again. */
const PATIENCE_MS = 1000

/** Of a veth, whose carrier comes when both its ends are up: till then the state that it had before, or none. */
export const VETH_CARRIED: readonly number[] = [IF_OPER_UP]
/** A bridge has had a carrier all along, which nobody told yet, until its last port goes. */
export const BRIDGE_CARRIED: readonly number[] = [IF_OPER_UP, IF_OPER_UNKNOWN]

/**
 * Without a carrier a link sends nothing, and a bridge's port forwards nothing: a workload's first question for the gateway
 * would be lost, and asked again after a second.
 */
export async function carried(
  host: Host,
  index: number,
  states: readonly number[],
  options: { readonly signal?: AbortSignal | undefined },
): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const [[state]] = await readLists(host, [operationalState(index)], { ...options, absent: ['ENODEV'] })
    if (state === undefined || states.includes(state) || performance.now() > deadline) return
    await sleep(1)
  }
}
