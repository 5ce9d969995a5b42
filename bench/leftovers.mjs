/** What workloads leave on a node when they have all stopped, to be put back for each round. */
import { assertSame } from './expected.mjs'

/**
 * Stops every workload, and takes down what is left in a form that can be put back fast: by plain tools, and checked against
 * what was there.
 *
 * @param {import('./node.mjs').Node} node
 */
export async function captureLeftovers(node) {
  const subject = node.subject()
  for (let i = 0; i < node.size.workloads; i++) await subject.ask(`stop ${JSON.stringify(`w${i}`)}`)
  await subject.end()
  const dump = await node.dump()
  const bridges = (await node.run('bash', ['-c', `ip -o link show type bridge | grep -oE 'yah0-[0-9a-v]{10}'`]))
    .trim()
    .split('\n')
  const rules = await node.run('ip', ['-4', 'rule', 'show'])
  const routes = await node.run('bash', ['-c', `ip -4 route show | grep 'dev yah0-'`])
  await node.run('bash', ['-c', 'iptables-nft-save >/run/leftovers.iptables'])
  const batch = [
    ...bridges.flatMap((bridge) => [`address add 10.128.3.1/32 dev ${bridge}`, `link set ${bridge} up`]),
    ...routes
      .trim()
      .split('\n')
      .map((route) => `route add ${route.replace(/ linkdown/g, '')}`),
  ]
  const own = rules
    .trim()
    .split('\n')
    .map((line) => line.split(/:\s+/))
    .filter(([priority]) => /^120[0-4]$/.test(priority ?? ''))
    .map(([priority, rule]) => `priority ${priority} ${rule}`)
  const write = (/** @type {string} */ name, /** @type {readonly string[]} */ lines) =>
    node.run('tee', [`/run/leftovers.${name}`], `${lines.join('\n')}\n`)
  await write(
    'links',
    bridges.map((bridge) => `link add ${bridge} type bridge`),
  )
  await write('rest', [...batch, ...own.map((rule) => `rule add ${rule}`)])
  await write(
    'deletions',
    bridges.map((bridge) => `link del ${bridge}`),
  )

  // IPv6 is off as deploy has it: with it, a bridge would take longer to go.
  const restore = `
    ip -force -batch /run/leftovers.deletions 2>/dev/null || :
    ip -4 rule show | sed 's/\\[detached\\] //' | sed -nE 's/^(120[0-4]):[[:space:]]+/rule del priority \\1 /p' | ip -batch -
    ip -batch /run/leftovers.links
    while read -r _ _ bridge _; do
      echo 1 >/proc/sys/net/ipv6/conf/$bridge/disable_ipv6; echo 1 >/proc/sys/net/ipv4/conf/$bridge/rp_filter
    done </run/leftovers.links
    ip -batch /run/leftovers.rest
    iptables-nft-restore </run/leftovers.iptables`
  return {
    bridges,
    /** For `ip -batch`. */
    deletions: '/run/leftovers.deletions',
    async restore() {
      await node.run('bash', ['-eu', '-o', 'pipefail', '-c', restore])
      assertSame('putting the leftovers back', await node.dump(), dump)
    },
  }
}
