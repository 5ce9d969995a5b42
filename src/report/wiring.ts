/** Deploys and stops as text. What a program reads is the value itself, as JSON. */
import type { Deployed } from '../node/deploy.js'
import type { Stopped } from '../node/stop.js'
import { count, type Style } from './style.js'

/** What was changed, a line each, and the summary last. */
export function deployText(deployed: Deployed, style: Style): string {
  const { workload, address, bridge, namespace, changes, notices, elapsedMs } = deployed
  const where = `${workload} at ${address} on ${bridge}, namespace ${namespace}`
  const elapsed = `${Math.round(elapsedMs)} ms`
  return lines([
    ...changes.map((change) => `${style.green('done')}    ${change}`),
    ...notices.map(({ object, reason }) => `${style.yellow('notice')}  ${object}: ${reason}`),
    changes.length === 0
      ? `${style.bold('nothing to change')}: ${where} (${elapsed})`
      : `${style.bold('deployed')} ${where} (${count(changes.length, 'change')} in ${elapsed})`,
  ])
}

/** `workload`: null when it was stopped by its address. */
export function stopText(workload: string | null, stopped: Stopped, style: Style): string {
  const { address, veth, namespace, processes, changes, elapsedMs } = stopped
  const what = workload ?? address ?? 'that address'
  if (namespace === 'absent' && changes.length > 0)
    return lines([
      `${style.bold('cleared')} ${what}: no network namespace, but what an interrupted deploy had left at its name`,
    ])
  if (changes.length === 0) {
    const why =
      workload === null
        ? 'no host veth has that address'
        : `no network namespace of its name; if its host veth is still there: netsweep stop --address`
    return lines([`${style.bold('nothing to stop')}: ${why}`])
  }
  const was =
    veth === null ? ' (it had no host veth)' : ` (${[address, veth].filter((each) => each !== null).join(', ')})`
  const held =
    processes.length > 0
      ? `; ${count(processes.length, 'process', 'processes')} still in it: ${processes.join(', ')}`
      : ''
  const state = namespace === 'untouched' ? '; its namespace, if there is one, is as it was' : held
  return lines([`${style.bold('stopped')} ${what}${was} in ${Math.round(elapsedMs)} ms${state}`])
}

const lines = (of: readonly string[]): string => of.map((line) => `${line}\n`).join('')
