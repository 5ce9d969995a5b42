/** `netsweep sweep`: one pass, and what it came to. */
import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'
import { UsageError } from '../node/errors.js'
import { lockNodeState } from '../node/guard.js'
import { BrakeError, reconcile } from '../node/reconcile.js'
import type { Reconciled } from '../node/reconciled.js'
import { fileRecorder } from '../node/record.js'
import { DONE, INCOMPLETE } from '../report/failure.js'
import { withProgress } from '../report/progress.js'
import { styleOf } from '../report/style.js'
import { brakedText, sweepText } from '../report/sweep.js'
import type { CommandDefinition, Context } from './command.js'
import { interruptibly } from './io.js'

export const sweep: CommandDefinition = {
  name: 'sweep',
  summary: 'remove what stopped workloads left behind',
  options: [
    { flags: '--dry-run', description: 'say what would be removed, and remove nothing' },
    { flags: '--settle <seconds>', description: 'remove only what is still left over after so long (0)' },
    { flags: '--max-removals <number>', description: 'remove nothing when more bridges and addresses would go' },
    { flags: '--record <file>', description: 'write to a new file what would put back what is removed' },
  ],
  run: runSweep,
}

async function runSweep({ io, settings, log, json, net, lockTimeoutMs: timeoutMs }: Context): Promise<number> {
  const settleMs = settings.milliseconds('settle')
  const maxRemovals = settings.count('max-removals')
  const dryRun = settings.isOn('dry-run')
  const record = settings.text('record')
  if (record !== undefined) checkRecord(settings.source('record'), record)
  const recorder = record === undefined ? undefined : fileRecorder(record)

  const style = styleOf(io.stdout, io.env)
  try {
    const pass = await interruptibly(io, async (signal): Promise<Reconciled> => {
      const host = await io.openNode(net)
      const take = (): ReturnType<typeof lockNodeState> => lockNodeState(net, { host, timeoutMs, signal })
      await using lock = await withProgress(io.stderr, 'waiting for the node-state lock', take)
      log.debug({ netns: net.netns ?? 'own' }, 'holding the node-state lock')
      const options = { dryRun, settleMs, maxRemovals, recorder, signal, log }
      return await withProgress(io.stderr, dryRun ? 'reading the node' : 'sweeping', () =>
        reconcile(net, lock, options),
      )
    })
    const { bridges, addresses, complete, elapsedMs } = pass
    log.info({ bridges, addresses, dryRun, complete, elapsedMs }, dryRun ? 'looked' : 'swept')
    io.stdout.write(json ? `${JSON.stringify(pass, null, 2)}\n` : sweepText(pass, net.range, style))
    return complete ? DONE : INCOMPLETE
  } catch (error) {
    if (!json && error instanceof BrakeError) io.stdout.write(brakedText(error.pass, style))
    throw error
  }
}

/** Finds out before the node is read what would otherwise be found out when the first thing is to be removed. */
function checkRecord(source: string, path: string): void {
  let isThere: boolean
  try {
    isThere = lstatSync(path, { throwIfNoEntry: false }) !== undefined
    accessSync(dirname(path), constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new UsageError(source, `${path} cannot be made: ${(error as Error).message}`)
  }
  if (isThere) throw new UsageError(source, `${path} is there already`, 'name a file that does not exist yet')
}
