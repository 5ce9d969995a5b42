/** Whether this process may change networks at all, told before anything else fails for a reason that does not say so. */
import { readFile } from 'node:fs/promises'
import { ReadError } from './errors.js'

// linux/capability.h
export const CAP_NET_ADMIN = 12n
export const CAP_SYS_ADMIN = 21n

export const PRIVILEGE_HINT =
  'run as root (sudo netsweep …), or give the service CAP_NET_ADMIN (systemd: AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW)'

/** To make, delete or enter a network namespace takes more. */
export const SYSTEM_HINT =
  'run as root (sudo netsweep …), or give the service CAP_SYS_ADMIN too (systemd: AmbientCapabilities=CAP_NET_ADMIN CAP_NET_RAW CAP_SYS_ADMIN)'

/** @throws ReadError PRIVILEGE when CAP_NET_ADMIN is not among the effective capabilities (capabilities(7)). */
export async function checkPrivilege(): Promise<void> {
  const reason = 'CAP_NET_ADMIN is missing: without it the kernel neither shows iptables nor lets anything be removed'
  await must(CAP_NET_ADMIN, reason, PRIVILEGE_HINT)
}

/** @throws ReadError PRIVILEGE when CAP_SYS_ADMIN is not: before a deploy or stop has changed anything that it could not finish. */
export async function checkNamespacePrivilege(): Promise<void> {
  const reason = 'CAP_SYS_ADMIN is missing: without it the kernel lets nobody make, delete or enter a network namespace'
  await must(CAP_SYS_ADMIN, reason, SYSTEM_HINT)
}

async function must(capability: bigint, reason: string, hint: string): Promise<void> {
  if (!(await hasCapability(capability))) throw new ReadError({ read: 'privileges', code: 'PRIVILEGE', reason, hint })
}

/** Whether a capability is among the effective ones (capabilities(7)). */
export async function hasCapability(capability: bigint): Promise<boolean> {
  const status = await readFile('/proc/self/status', 'utf8')
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(status)?.[1]
  return effective !== undefined && ((BigInt(`0x${effective}`) >> capability) & 1n) === 1n
}
