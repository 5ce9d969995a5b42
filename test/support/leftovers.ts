/** Finds what a test should have taken away with it. */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'

export interface Stray {
  readonly pid: number
  readonly command: string
}

/** Processes that live in another network or mount namespace than we do; with `ancestor`, only its descendants. */
export async function strayProcesses(ancestor?: number): Promise<Stray[]> {
  const own = await namespacesOf('self')
  const found: (Stray & { readonly parents: readonly number[] })[] = []
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue
    const theirs = await namespacesOf(entry)
    // Null: it ended meanwhile, or it is somebody else's, whom we may not ask.
    if (theirs === null || theirs === own) continue
    const command = (await readFile(`/proc/${entry}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim()
    found.push({ pid: Number(entry), command, parents: await parentsOf(Number(entry)) })
  }
  const wanted = found.filter(({ parents }) => ancestor === undefined || parents.includes(ancestor))
  return wanted.map(({ pid, command }) => ({ pid, command }))
}

/** The same, once those that were told to end have had three seconds to. */
export async function lastingStrays(ancestor?: number): Promise<Stray[]> {
  for (let tries = 0; tries < 30; tries++) {
    if ((await strayProcesses(ancestor)).length === 0) return []
    await setTimeout(100)
  }
  return strayProcesses(ancestor)
}

/** Namespaces that are kept by a name: what is bound below /run/netns, or anywhere else. */
export async function namedNamespaces(): Promise<string[]> {
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  return mounts.filter((line) => / - nsfs /.test(line)).map((line) => line.split(' ')[4] ?? '')
}

async function namespacesOf(pid: string): Promise<string | null> {
  try {
    return (await Promise.all(['net', 'mnt'].map((kind) => readlink(`/proc/${pid}/ns/${kind}`)))).join()
  } catch {
    return null
  }
}

async function parentsOf(pid: number): Promise<number[]> {
  const parents: number[] = []
  for (let at = pid; at > 0; ) {
    const stat = await readFile(`/proc/${at}/stat`, 'utf8').catch(() => '')
    // The second field is the command's name in parentheses, which may hold spaces and parentheses.
    at = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0)
    parents.push(at)
  }
  return parents
}
