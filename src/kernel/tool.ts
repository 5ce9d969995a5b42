/** Runs a program to its end, or ends it. */
import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import type { Ran } from './host.js'

/** Where tools are, when there is no PATH at all. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface ToolOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  readonly input?: string | undefined
  /** Those that the tool gets as its number 3 and so on. */
  readonly descriptors?: readonly number[]
}

/**
 * The path of a tool: of the first file that may be executed in a folder of PATH, and of no other. A relative entry of PATH is
 * left out: it would run what lies in the current folder, as root. Undefined when there is none.
 */
export function findTool(command: string, path = process.env.PATH ?? DEFAULT_PATH): string | undefined {
  if (command.includes('/')) return isExecutable(command) ? command : undefined
  const folders = path.split(delimiter).filter((folder) => folder.startsWith('/'))
  return folders.map((folder) => join(folder, command)).find(isExecutable)
}

/** How a tool ends that could not be started. */
export function notStarted(code: string, stderr: string): Ran {
  return { status: null, signal: null, code, stdout: '', stderr }
}

/**
 * Runs the program at `path`. Its messages are in English (LC_ALL=C), for they are shown beside ours. It is killed
 * (SIGKILL), with all that it started, when it takes too long or is aborted; what it wrote till then is kept.
 */
export function runTool(path: string, args: readonly string[], options: ToolOptions): Promise<Ran> {
  const { timeoutMs, signal } = options
  if (signal?.aborted) {
    return Promise.resolve({ status: null, signal: 'aborted', code: null, stdout: '', stderr: '' })
  }

  return new Promise((resolve) => {
    const child = start(path, args, options)
    if (typeof child === 'string') return resolve(notStarted(child, ''))
    const stdout = collect(child.stdout)
    const stderr = collect(child.stderr)
    let ended: 'timeout' | 'aborted' | undefined

    const end = (why: 'timeout' | 'aborted'): void => {
      ended ??= why
      killGroup(child)
      // A process that left the group may hold these open.
      child.stdout?.destroy()
      child.stderr?.destroy()
    }
    const abort = (): void => end('aborted')
    const timer = setTimeout(end, timeoutMs, 'timeout')
    signal?.addEventListener('abort', abort, { once: true })
    const settle = (ran: Ran): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      resolve(ran)
    }

    child.on('error', (error: NodeJS.ErrnoException) => {
      if (child.pid === undefined) settle(notStarted(error.code ?? 'UNKNOWN', ''))
    })
    child.on('close', (status, killedBy) => {
      const how = ended === undefined ? { status, signal: killedBy } : { status: null, signal: ended }
      settle({ ...how, code: null, stdout: stdout(), stderr: stderr() })
    })
    // A tool that ends without reading its input says why in its status.
    child.stdin?.on('error', () => undefined)
    child.stdin?.end(options.input)
  })
}

/** The process, or why there is none: some reasons come as an exception, others as its event. */
function start(path: string, args: readonly string[], { input, descriptors = [] }: ToolOptions): ChildProcess | string {
  const stdio: StdioOptions = [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe', ...descriptors]
  try {
    // A group of its own: a tool that is killed takes with it what it started, and Ctrl-C does not end it half-way.
    return spawn(path, args, { env: { ...process.env, LC_ALL: 'C' }, stdio, detached: true })
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (code === undefined || syscall === undefined) throw error
    return code
  }
}

function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // ESRCH: all of it has ended by itself.
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}

function collect(stream: NodeJS.ReadableStream | null): () => string {
  const pieces: Buffer[] = []
  stream?.on('data', (piece: Buffer) => pieces.push(piece))
  return () => Buffer.concat(pieces).toString()
}
