/** A network namespace that is named, and the commands that a report gives for its steps. */
import { expect, test } from 'vitest'
import { ContainerNet, lockNodeState, reconcile } from '../../../src/index.js'
import { need } from '../../support/machine.js'
import { lines, TestNode } from '../../support/node.js'
import { difference } from '../../support/snapshot.js'
import { WORDS } from './build.js'
import { minus } from './expected.js'
import { BILLING, bridgeLink, GLOBEX, tenantBridge, workload } from './lines.js'

/** A namespace inside the node, named `inner`, that holds the same state as the node around it. */
const INNER = `${WORDS}
  acct; api; billing; stop billing 9
  ip netns add inner; ip netns exec inner ip link set lo up
  # Its workloads are named otherwise: namespace files are the node's.
  cat >/run/inner.sh <<'END'
${WORDS.replaceAll('--workload ', '--workload in-')}
acct; api; billing; stop in-billing 9
END
  nsenter --net=/run/netns/inner bash -eu /run/inner.sh`

/** The snapshot also lists the addresses and routes of the namespaces that have a name. */
const isOutside = (line: string): boolean => !line.startsWith('namespaces: - inner ')

for (const [what, netns] of [
  ['by its name', 'inner'],
  ['by its path', '/run/netns/inner'],
] as const) {
  test(`another network namespace, ${what}: it alone is swept`, async (context) => {
    await need(context, 'nft')
    await using node = await TestNode.create()
    await node.run(INNER)
    const inner = async () =>
      lines(await node.run('nsenter --net=/run/netns/inner bash test/oracle/node.sh dump')).sort()
    const before = { node: await node.snapshot(), inner: await inner() }

    const { status, json } = await node.netsweep(['sweep', '--json', '--netns', netns])

    expect({ status, json }).toMatchObject({
      status: 0,
      json: { bridges: [GLOBEX], addresses: ['10.128.3.9'], complete: true },
    })
    expect(await inner()).toEqual(minus(before.inner, [...workload(BILLING), ...tenantBridge(GLOBEX)]))
    expect(difference(before.node, await node.snapshot()).filter(isOutside)).toEqual([])
  })
}

test('what a person would type for a namespace sweeps it as well', async (context) => {
  await need(context, 'nft')
  await using node = await TestNode.create()
  await node.run(INNER)
  const inner = async () => lines(await node.run('nsenter --net=/run/netns/inner bash test/oracle/node.sh dump')).sort()
  const before = { node: await node.snapshot(), inner: await inner() }

  const dry = await node.netsweep(['sweep', '--dry-run', '--json', '--netns', 'inner'])
  const { steps } = dry.json as { steps: { command: string }[] }
  await node.run(steps.map(({ command }) => command).join('\n'))

  expect(await inner()).toEqual(minus(before.inner, [...workload(BILLING), ...tenantBridge(GLOBEX)]))
  expect(difference(before.node, await node.snapshot()).filter(isOutside)).toEqual([])
})

test('the commands of a dry run, typed one after the other, leave what the sweep leaves', async (context) => {
  await need(context, 'nft', 'legacy')
  const build = `${WORDS}
    acct; web; api --allow singleton/default/acct --allow globex/prod/billing; billing
    IPTABLES=iptables-legacy mail; tagged $GLOBEX a; accepts $GLOBEX; prohibits $NOBODY 1201 1203
    ipt -t mangle -A yah-id-10.128.3.7 -m comment --comment "it's \\"quoted\\" \\$HOME" -j RETURN
    ip neigh add 10.128.3.7 lladdr 02:00:00:00:00:07 dev $ACME nud stale
    stop api 7; stop billing 9; stop mail 12`
  await using swept = await TestNode.create()
  await using typed = await TestNode.create()
  await Promise.all([swept.run(build), typed.run(build)])
  const before = await typed.dump({ both: true })

  const net = new ContainerNet({ netns: swept.netnsPath })
  await using lock = await lockNodeState(net)
  expect((await reconcile(net, lock)).complete).toBe(true)
  const dry = await typed.netsweep(['sweep', '--dry-run', '--json'])
  const { steps } = dry.json as { steps: { command: string }[] }
  await typed.run(steps.map(({ command }) => command).join('\n'))

  const after = await typed.dump({ both: true })
  expect(after).toEqual(await swept.dump({ both: true }))
  expect(minus(before, after)).toEqual(expect.arrayContaining([...bridgeLink(GLOBEX), ...workload(BILLING)]))
  expect((await typed.netsweep(['sweep', '--json'])).json).toMatchObject({ steps: [] })
})
