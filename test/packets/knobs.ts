/** What a node's owner may set, and what has to hold whatever it is. */
import type { TestContext } from 'vitest'
import type { Network } from './network.js'

export interface Knobs {
  /** Whether what a bridge passes between its ports goes through iptables. */
  readonly bridgeNetfilter: boolean
  readonly forward: 'ACCEPT' | 'DROP'
  /** Of all links: 0 off, 1 strict, 2 loose. The stricter of this and a link's own is not what counts, but the higher. */
  readonly rpFilter: 0 | 1 | 2
}

const BOTH = [false, true]

/** Every combination, and the strict reverse-path check with the rest as a fresh kernel has it. */
export const ALL_KNOBS: readonly Knobs[] = [
  ...BOTH.flatMap((bridgeNetfilter) =>
    (['ACCEPT', 'DROP'] as const).flatMap((forward) =>
      ([0, 2] as const).map((rpFilter) => ({ bridgeNetfilter, forward, rpFilter })),
    ),
  ),
  { bridgeNetfilter: true, forward: 'ACCEPT', rpFilter: 1 },
]

/** As a fresh kernel has them without br_netfilter, and the farthest from it. */
export const EXTREME_KNOBS: readonly Knobs[] = [
  { bridgeNetfilter: false, forward: 'ACCEPT', rpFilter: 0 },
  { bridgeNetfilter: true, forward: 'DROP', rpFilter: 2 },
]

export function describeKnobs({ bridgeNetfilter, forward, rpFilter }: Knobs): string {
  return `br_netfilter ${bridgeNetfilter ? 'on' : 'off'}, FORWARD ${forward}, rp_filter ${rpFilter}`
}

/** Skips the test where the kernel has no br_netfilter and the knobs want it on. */
export async function turn(context: TestContext, network: Network, knobs: Knobs): Promise<void> {
  const { bridgeNetfilter, forward, rpFilter } = knobs
  const set = `sysctl -qw net.bridge.bridge-nf-call-iptables=${Number(bridgeNetfilter)}`
  const { status, stderr } = await network.node.tryRun(`${set} 2>/dev/null || { modprobe br_netfilter && ${set}; }`)
  if (status !== 0 && bridgeNetfilter) context.skip(`a kernel without br_netfilter (${stderr.trim()})`)
  await network.run(`iptables-${network.node.backend} -P FORWARD ${forward}
    sysctl -qw net.ipv4.conf.all.rp_filter=${rpFilter}`)
}

/** As a person would who wants all of it gone. */
export const FLUSH_IPTABLES = `
for backend in nft legacy; do
  for table in raw mangle nat filter; do
    iptables-$backend -w -t $table -F; iptables-$backend -w -t $table -X
  done
  iptables-$backend -w -P FORWARD ACCEPT
done`

/** Prints what would put them back. */
export const DELETE_PROHIBITS = `
ip rule show | sed -n 's/^\\(120[0-4]\\):/ip rule add priority \\1/p'
for priority in 1200 1201 1202 1203 1204; do
  while ip rule del priority $priority 2>/dev/null; do :; done
done`
