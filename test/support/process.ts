/** Running a process to its end, with its output as text. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:os'
import { text } from 'node:stream/consumers'

export interface Ended {
  /** Exit status; 128 + N when signal N ended it, as a shell would say. */
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

export type Environment = Readonly<Record<string, string | undefined>>

export interface RunOptions {
  readonly env?: Environment
  /** Written to its stdin, which is empty otherwise. */
  readonly input?: string | undefined
  readonly cwd?: string
}

export type Process = ChildProcessWithoutNullStreams

/** Starts a process whose stdin, stdout and stderr are pipes. Rejects when it cannot be started. */
export async function start(command: string, args: readonly string[], options: RunOptions = {}): Promise<Process> {
  const child = spawn(command, args, { cwd: options.cwd, env: { ...process.env, ...options.env }, stdio: 'pipe' })
  await once(child, 'spawn')
  return child
}

/** Waits for the end of a started process. */
export async function ended(child: Process): Promise<Ended> {
  const closed = new Promise<number>((resolve) => {
    child.once('close', (status, signal) => resolve(status ?? 128 + (signal === null ? 0 : signalNumber(signal))))
  })
  const [stdout, stderr, status] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  return { status, stdout, stderr }
}

export async function runProcess(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const child = await start(command, args, options)
  // A process may end without having read its input.
  child.stdin.on('error', () => {})
  child.stdin.end(options.input ?? '')
  return ended(child)
}

function signalNumber(signal: NodeJS.Signals): number {
  return constants.signals[signal]
}
