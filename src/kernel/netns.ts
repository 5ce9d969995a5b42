/** Network namespaces from outside: who is in one, and what another one calls it. */
import { readdir, stat } from 'node:fs/promises'
import type { CallOptions, Host, NamespaceId } from './host.js'
import { ask } from './netlink/ask.js'
import { namespaceId } from './rtnetlink/namespace-id.js'

/**
 * The processes whose network namespace it is, by number, as far as this process may see them. Not among them: who
 * holds it by a thread, an open file, a socket, a mount.
 */
export async function processesIn(namespace: NamespaceId): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name)).map(Number)
  const inside = await Promise.all(pids.map((pid) => isIn(pid, namespace)))
  return pids.filter((_, place) => inside[place]).sort((a, b) => a - b)
}

/**
 * The id that the host's namespace has given to the one behind an open descriptor of this process: what
 * `Link.peerNamespace` refers to. -1 when it has given none.
 *
 * @throws NetlinkError
 */
export async function namespaceIdOf(host: Host, descriptor: number, options?: CallOptions): Promise<number> {
  const [{ items, error }] = await ask(host, [namespaceId(descriptor)], options)
  if (error !== null) throw error
  return items[0] ?? -1
}

async function isIn(pid: number, { device, inode }: NamespaceId): Promise<boolean> {
  try {
    const { dev, ino } = await stat(`/proc/${pid}/ns/net`)
    return dev === device && ino === inode
  } catch {
    return false // it has ended, or is somebody whom we may not look at
  }
}
