/** Runs a program to its end, or ends it. */
import { accessSync, constants as files, statSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import type { Ran } from './host.js'
import { type NativeEnd, native } from './native.js'
import { errnoName } from './netlink/errors.js'
import { Turns } from './turns.js'

/** Where tools are, when there is no PATH at all. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

export interface ToolOptions {
  readonly timeoutMs: number
  readonly signal?: AbortSignal | undefined
  /** A descriptor of the network namespace that it runs in; the caller's own when left out. */
  readonly netnsFd?: number
  readonly input?: string | undefined
  /** Gets what it prints in parts, as they come; `stdout` is the rest. */
  readonly take?: ((part: string) => void) | undefined
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
export async function runTool(path: string, args: readonly string[], options: ToolOptions): Promise<Ran> {
  const { timeoutMs, signal, netnsFd = -1, input, take, descriptors = [] } = options
  if (signal?.aborted) return { status: null, signal: 'aborted', code: null, stdout: '', stderr: '' }
  const { ended, kill, next } = native().startProgram({
    path,
    args,
    env: environment(),
    input: input === undefined ? null : Buffer.from(input),
    netnsFd,
    descriptors,
    timeoutMs,
    inParts: take !== undefined,
  })
  signal?.addEventListener('abort', kill, { once: true })
  try {
    const [end] = await Promise.all([ended, take === undefined ? null : takeParts(next, take)])
    return ranOf(end)
  } catch (error) {
    kill()
    const { errno, message } = error as NodeJS.ErrnoException
    if (errno === undefined) throw error
    return notStarted(errnoName(errno), message)
  } finally {
    signal?.removeEventListener('abort', kill)
  }
}

async function takeParts(next: () => Promise<Buffer>, take: (part: string) => void): Promise<void> {
  const decoder = new StringDecoder()
  const turns = new Turns()
  for (let part = await next(); part.length > 0; part = await next()) {
    const text = decoder.write(part)
    await turns.take(() => take(text))
  }
  take(decoder.end())
}

function environment(): string[] {
  return Object.entries({ ...process.env, LC_ALL: 'C' }).map(([name, value]) => `${name}=${value}`)
}

function ranOf({ errno, status, signal, killed, stdout, stderr }: NativeEnd): Ran {
  if (errno !== 0) return notStarted(errnoName(errno), '')
  const wrote = { code: null, stdout: stdout.toString(), stderr: stderr.toString() }
  if (killed !== null) return { status: null, signal: killed, ...wrote }
  return { status, signal: signal === 0 ? null : signalName(signal), ...wrote }
}

function signalName(number: number): string {
  const found = Object.entries(constants.signals).find(([, value]) => value === number)
  return found?.[0] ?? `signal ${number}`
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, files.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
