/** What the machine refuses outside of netlink: namespaces, their names. Told as the read that failed. */
import type { CallOptions, Host, OpenNamespace } from '../kernel/host.js'
import { NetlinkError } from '../kernel/netlink/errors.js'
import { ReadError, UsageError } from './errors.js'
import { SYSTEM_HINT } from './privilege.js'
import { readError } from './read.js'

/** Null when there is none of that name. @throws ReadError; UsageError when what bears the name is no network namespace. */
export async function openNamed(host: Host, name: string): Promise<OpenNamespace | null> {
  return reading(`namespace ${name}`, () => host.openNamespace(name)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== undefined) throw error
    const path = `/run/netns/${name}`
    throw new UsageError('workload', `${path} is no network namespace`, 'look whose it is, or choose another name')
  })
}

/** One of no name, to try things in. @throws ReadError */
export async function openScratch(host: Host): Promise<OpenNamespace> {
  return reading('a namespace to try things in', () => host.scratchNamespace())
}

/** By id, as `Link.peerNamespace` has it. @throws ReadError */
export async function namespaceNames(host: Host, options: CallOptions): Promise<ReadonlyMap<number, string>> {
  return reading('the names of namespaces', () => host.namespaceNames(options))
}

async function reading<T>(read: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof NetlinkError) throw readError(read, error)
    const { code, message } = error as NodeJS.ErrnoException
    // Not an answer of the machine's.
    if (code === undefined) throw error
    const isDenied = code === 'EPERM' || code === 'EACCES'
    const hint = isDenied ? SYSTEM_HINT : undefined
    throw new ReadError({ read, code: isDenied ? 'PRIVILEGE' : 'FAILED', reason: message, hint, cause: error })
  }
}
