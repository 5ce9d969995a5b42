/** What this machine cannot do, so that the tests which need it are skipped by name and with the reason. */
import { readFile } from 'node:fs/promises'
import type { TestContext } from 'vitest'
import { TestNode } from './node.js'

export type Need = 'nft' | 'legacy' | 'flower' | 'root'

const PROBES: Record<Exclude<Need, 'root'>, { readonly script: string; readonly lack: string }> = {
  nft: { script: 'iptables-nft -w -t mangle -S', lack: 'no iptables over nf_tables' },
  legacy: { script: 'iptables-legacy -w -t mangle -S', lack: 'no legacy iptables' },
  flower: {
    script: `ip link add probe type bridge && tc qdisc add dev probe clsact &&
      tc filter add dev probe ingress protocol arp flower action skbedit mark 1`,
    lack: 'a kernel without cls_flower or act_skbedit',
  },
}

/** Skips the running test, and says why, where this machine lacks one of what it needs. */
export async function need(context: TestContext, ...needs: readonly Need[]): Promise<void> {
  for (const one of needs) {
    const reason = await lack(one)
    if (reason !== undefined) context.skip(reason)
  }
}

/** Why this machine cannot; undefined when it can. */
export async function lack(one: Need): Promise<string | undefined> {
  if (one === 'root') return (await isRootOfTheMachine()) ? undefined : 'not run as root'
  const { script, lack } = PROBES[one]
  await using node = await TestNode.create()
  const { status, stderr } = await node.tryRun(script)
  return status === 0 ? undefined : `${lack} (${stderr.trim().split('\n')[0]})`
}

/** Root of the first user namespace, which alone can become any other user. */
async function isRootOfTheMachine(): Promise<boolean> {
  return process.getuid?.() === 0 && /^\s*0\s+0\s+4294967295\s*$/.test(await readFile('/proc/self/uid_map', 'utf8'))
}
