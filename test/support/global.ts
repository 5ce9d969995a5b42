/** Runs around all test files: fails the run that leaves a named namespace, or a process in one, behind. */
import { readFile } from 'node:fs/promises'
import { lastingStrays, namedNamespaces } from './leftovers.js'

export default async function setup(): Promise<() => Promise<void>> {
  const before = new Set(await namedNamespaces())
  const alone = (await readFile('/proc/1/cmdline', 'utf8')).includes('private.sh\0--init')
  return async () => {
    const named = (await namedNamespaces()).filter((path) => !before.has(path))
    // Outside private.sh, others' processes are none of our business.
    const strays = alone ? await lastingStrays() : []
    const left = [...named, ...strays.map(({ pid, command }) => `process ${pid}: ${command}`)]
    if (left.length === 0) return
    // vitest prints what a teardown throws, and ends as if nothing were wrong.
    process.exitCode = 1
    throw new Error(`namespaces left behind:\n${left.join('\n')}`)
  }
}
