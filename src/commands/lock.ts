/** `netsweep lock -- COMMAND`: a script's way to keep sweeps and deploys out while it works on the node. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { UsageError } from '../node/errors.js'
import { lockNodeState } from '../node/guard.js'
import { failureLine } from '../report/failure.js'
import { withProgress } from '../report/progress.js'
import type { CommandDefinition, Context } from './command.js'
import { type Io, interruptibly, withSignals } from './io.js'

export const lock: CommandDefinition = {
  name: 'lock',
  summary: 'run a command while holding the node-state lock',
  operands: '[command...]',
  options: [],
  more: `
The command runs where netsweep was called, whatever --netns says: that is whose lock is held. The lock stays
with the command even when netsweep is killed. The exit status is the command's, 128 + N when signal N ended it.`,
  run: runLock,
}

async function runLock({ io, log, argv, operands, net, lockTimeoutMs: timeoutMs }: Context): Promise<number> {
  const [command, ...args] = operands
  // Without `--`, options that are meant for the command would be taken for ours.
  const end = argv.indexOf('--')
  const isSeparated = end >= 0 && argv.length - end - 1 === operands.length
  if (command === undefined || !isSeparated)
    throw new UsageError(
      'lock',
      command === undefined ? 'no command to run' : `no -- before ${command}`,
      'write it as: netsweep lock -- COMMAND',
    )
  await using held = await interruptibly(io, async (signal) => {
    const host = await io.openNode(net)
    const take = (): ReturnType<typeof lockNodeState> => lockNodeState(net, { host, timeoutMs, signal })
    return withProgress(io.stderr, 'waiting for the node-state lock', take)
  })
  log.debug({ command }, 'holding the node-state lock')
  return await runHolding(io, held.descriptor, command, args)
}

const NOT_FOUND = 127
const NOT_EXECUTABLE = 126
const SIGNALLED = 128
const FORWARDED: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** The command gets the locked file as its descriptor 3: flock(2) holds until the last who has it is gone. */
async function runHolding(io: Io, descriptor: number, command: string, args: readonly string[]): Promise<number> {
  const child = spawn(command, args, { stdio: ['inherit', 'inherit', 'inherit', descriptor], env: { ...io.env } })
  const ended = new Promise<number>((resolve) => {
    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid !== undefined) return
      const isMissing = error.code === 'ENOENT'
      const message = `${command}: ${isMissing ? 'command not found' : `cannot be run: ${error.code}`}`
      io.stderr.write(failureLine({ code: 'COMMAND', message, hint: null }))
      resolve(isMissing ? NOT_FOUND : NOT_EXECUTABLE)
    })
    child.on('exit', (status, signal) => {
      resolve(status ?? SIGNALLED + (signal === null ? 0 : constants.signals[signal]))
    })
  })
  return withSignals(
    io,
    FORWARDED,
    (name) => {
      // What is typed at a terminal reaches the command by itself; passing it on would make it two.
      if (name !== 'SIGINT' || !isInForeground()) child.kill(name)
    },
    () => ended,
  )
}

/** Whether the terminal sends what is typed to this process's group (proc_pid_stat(5): pgrp, tpgid). */
function isInForeground(): boolean {
  const stat = readFileSync('/proc/self/stat', 'utf8')
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return group === foreground
}
