/** What a command has to do with the world: given by the process, or by a test. */
import type { Host } from '../kernel/host.js'
import { openNode } from '../node/guard.js'
import type { ContainerNet } from '../node/net.js'

export interface Output {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** Where SIGINT and the like arrive. */
export interface SignalSource {
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
}

export interface Io {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
  readonly signals: SignalSource
  /** Opens the machine as seen from the namespace that `net` means. */
  readonly openNode: (net: ContainerNet) => Promise<Host>
}

export function processIo(): Io {
  return { stdout: process.stdout, stderr: process.stderr, env: process.env, signals: process, openNode }
}

const INTERRUPTS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Work that the first SIGINT, SIGTERM or SIGHUP cancels; a second one ends the process as if nobody listened. */
export async function interruptibly<T>(io: Io, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  return withSignals(
    io,
    INTERRUPTS,
    (_name, leave) => {
      leave()
      abort.abort()
    },
    () => work(abort.signal),
  )
}

/** Listens to these signals while the work is done, or until `leave` is called. */
export async function withSignals<T>(
  io: Io,
  names: readonly NodeJS.Signals[],
  listener: (name: NodeJS.Signals, leave: () => void) => void,
  work: () => Promise<T>,
): Promise<T> {
  const listeners = names.map((name) => [name, () => listener(name, leave)] as const)
  const leave = (): void => {
    for (const [name, each] of listeners) io.signals.off(name, each)
  }
  for (const [name, each] of listeners) io.signals.on(name, each)
  try {
    return await work()
  } finally {
    leave()
  }
}
