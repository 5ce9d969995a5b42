/** `netsweep stop`: takes a workload off the network. What it leaves is the sweep's. */
import { UsageError } from '../node/errors.js'
import { lockNodeState } from '../node/guard.js'
import { stopAddress, stop as stopWorkload } from '../node/stop.js'
import { DONE } from '../report/failure.js'
import { withProgress } from '../report/progress.js'
import { styleOf } from '../report/style.js'
import { stopText } from '../report/wiring.js'
import type { CommandDefinition, Context } from './command.js'
import { interruptibly } from './io.js'

export const stop: CommandDefinition = {
  name: 'stop',
  summary: 'take a workload off the network; a sweep removes what it leaves',
  operands: '[workload]',
  options: [{ flags: '--address <address>', description: 'instead of its name, when its namespace is gone already' }],
  run: runStop,
}

async function runStop({ io, settings, log, operands, json, net, lockTimeoutMs: timeoutMs }: Context): Promise<number> {
  const [workload, surplus] = operands
  const address = settings.text('address')
  if (surplus !== undefined) throw new UsageError(surplus, 'not expected here', 'netsweep stop --help')
  if (workload !== undefined && address !== undefined && !settings.given.has('address'))
    throw new UsageError(settings.source('address'), 'does not go with a workload’s name', 'unset it')
  if ((workload === undefined) === (address === undefined))
    throw new UsageError('stop', 'takes a workload’s name, or --address', 'netsweep stop --help')
  if (workload === '') throw new UsageError('workload', 'is empty')
  const stopped = await interruptibly(io, async (signal) => {
    const host = await io.openNode(net)
    const take = (): ReturnType<typeof lockNodeState> => lockNodeState(net, { host, timeoutMs, signal })
    await using lock = await withProgress(io.stderr, 'waiting for the node-state lock', take)
    return address === undefined
      ? await stopWorkload(net, lock, workload ?? '', { signal })
      : await stopAddress(net, lock, address, { signal })
  })
  log.info({ workload, address: stopped.address, namespace: stopped.namespace }, 'stopped')
  io.stdout.write(
    json ? `${JSON.stringify(stopped, null, 2)}\n` : stopText(workload ?? null, stopped, styleOf(io.stdout, io.env)),
  )
  return DONE
}
