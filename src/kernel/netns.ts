/** Network namespaces from outside: who is in one. */
import { readdir, stat } from 'node:fs/promises'
import type { NamespaceId } from './host.js'

/**
 * The processes whose network namespace it is, by number, as far as this process may see them. Not among them: who
 * holds it by a thread, an open file, a socket, a mount.
 */
export async function processesIn(namespace: NamespaceId): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name)).map(Number)
  const inside = await Promise.all(pids.map((pid) => isIn(pid, namespace)))
  return pids.filter((_, place) => inside[place]).sort((a, b) => a - b)
}

async function isIn(pid: number, { device, inode }: NamespaceId): Promise<boolean> {
  try {
    const { dev, ino } = await stat(`/proc/${pid}/ns/net`)
    return dev === device && ino === inode
  } catch {
    return false // it has ended, or is somebody whom we may not look at
  }
}
