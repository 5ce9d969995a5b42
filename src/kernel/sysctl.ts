/** Kernel settings (sysctl(8)) of a host's network namespace. */
import type { Host } from './host.js'

/**
 * A setting, as the parts of its name: `['net', 'ipv4', 'conf', 'yah0', 'rp_filter']`. Parts, because a link's name is
 * one of them, and may have dots in it.
 */
export type SysctlKey = readonly string[]

/** Without the newline behind it. Rejects with `code` ENOENT when there is none: its link is gone, say. */
export async function readSysctl(host: Pick<Host, 'readFile'>, key: SysctlKey): Promise<string> {
  return (await host.readFile(pathOf(key))).replace(/\n$/, '')
}

/**
 * Writes only what is not there already, since a write can do more than it says: `ip_forward` resets other settings.
 * Rejects with `code` EINVAL for a value that the kernel does not take, EROFS where containers see /proc/sys read-only.
 *
 * @returns whether it had another value.
 */
export async function writeSysctl(
  host: Pick<Host, 'readFile' | 'writeFile'>,
  key: SysctlKey,
  value: string,
): Promise<boolean> {
  if ((await readSysctl(host, key)) === value) return false
  await host.writeFile(pathOf(key), value)
  return true
}

/** @throws RangeError for a part that would lead elsewhere. */
function pathOf(key: SysctlKey): string {
  for (const part of key) if (/^\.{0,2}$|[/\0]/.test(part)) throw new RangeError(`sysctl ${JSON.stringify(key)}`)
  return ['/proc/sys', ...key].join('/')
}
