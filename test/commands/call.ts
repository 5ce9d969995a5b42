/** Calls the command inside the test's own process. */
import { EventEmitter } from 'node:events'
import { main } from '../../src/cli.js'
import type { Io } from '../../src/commands/io.js'

export interface Called {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
  /** stdout as JSON. */
  json(): unknown
}

/** With no environment but the given one, no terminal, and a machine that must not be opened unless one is given. */
export async function call(argv: readonly string[], given: Partial<Io> = {}): Promise<Called> {
  const written = { stdout: '', stderr: '' }
  const status = await main(argv, {
    stdout: { write: (text) => (written.stdout += text) },
    stderr: { write: (text) => (written.stderr += text) },
    env: {},
    signals: new EventEmitter(),
    openNode: () => Promise.reject(new Error('the node was opened')),
    ...given,
  })
  return { status, ...written, json: () => JSON.parse(written.stdout) }
}
