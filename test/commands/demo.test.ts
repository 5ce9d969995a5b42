/** `netsweep demo`, as it was built. */

import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { ReconciledJson } from '../../src/node/reconciled.js'
import { lack, need } from '../support/machine.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))

test('it tells what it does, ends well, and leaves nothing on the node it was started on', async () => {
  await using node = await TestNode.create()
  const before = await node.snapshot()
  // Only a call can say that it is the demo's own.
  const { status, stdout, stderr } = await node.netsweep(['demo'], { env: { NETSWEEP_INSIDE: 'x' } })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const modules = 'a grant needs cls_flower and act_skbedit, which this kernel does not have'
  const admitted = (await lack('flower')) === undefined ? 'admits acme/prod/api' : `(admits nobody: ${modules})`
  for (const line of [
    `  10.128.3.9  billing  tenant globex     on yah0-91auqknbeu  ${admitted}`,
    '  address 10.128.3.8: no workload, but 1 host route, 1 prohibit, 2 chains',
    'planned  bridge yah0-91auqknbeu  (bridge yah0-91auqknbeu has no workload)',
    'removed  bridge yah0-91auqknbeu  (bridge yah0-91auqknbeu has no workload)',
    'notice   bridge yah0-vvvvvvvvvv  (foreign: port guest0)',
  ])
    expect(stdout.split('\n')).toContain(line)
  expect(stdout).toMatch(/\nnothing to sweep in [^\n]+\n\nright: [^\n]+\n$/)
  expect(stdout).not.toContain('\x1b')
  expect(difference(before, await node.snapshot())).toEqual([])
  await node.run('test ! -e /run/netsweep; test ! -e /run/netns')
})

test.each(['nft', 'legacy'] as const)('%s, another bridge and range, as JSON', async (iptables) => {
  await using node = await TestNode.create()
  const options = ['--iptables', iptables, '--bridge', 'cni', '--range', '172.16.0.0/12', '--json']
  const { status, json } = await node.netsweep(['demo', ...options])
  expect(status).toBe(0)
  const { problems, swept, again } = json as Record<'swept' | 'again', ReconciledJson> & { problems: string[] }
  expect(problems).toEqual([])
  expect(swept).toMatchObject({
    bridges: ['cni-91auqknbeu'],
    addresses: ['172.16.3.8', '172.16.3.9'],
    complete: true,
    notices: [{ object: 'bridge cni-vvvvvvvvvv' }],
  })
  expect(swept.steps.some(({ object }) => object.startsWith(`${iptables} mangle: `))).toBe(true)
  expect(again.steps).toEqual([])
})

test('without root it takes a user namespace', async (context) => {
  await need(context, 'root')
  await using node = await TestNode.create()
  const { status, stdout, stderr } = await node.exec('setpriv', [
    ...['--reuid', '65534', '--regid', '65534', '--clear-groups', process.execPath, CLI, 'demo'],
  ])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/\nright: [^\n]+\n$/)
})

test.each([
  ['as an ordinary process', "node=$(stat -Lc %d-%i /proc/self/ns/net); exec '$0' '$1' demo --inside $node"],
  [
    'in the namespace that it was called from',
    "node=$(stat -Lc %d-%i /proc/self/ns/net); unshare --pid --fork --mount-proc '$0' '$1' demo --inside $node",
  ],
  ['where a link is up', "unshare --pid --fork --mount-proc '$0' '$1' demo --inside x"],
])('its inner call wires nothing %s', async (_where, script) => {
  await using node = await TestNode.create()
  await node.run(
    'ip link add uplink type veth peer name far; ip addr add 192.0.2.1/24 dev uplink; ip link set uplink up; ip link set far up',
  )
  const before = await node.snapshot()
  const run = script.replaceAll("'$0'", `'${process.execPath}'`).replaceAll("'$1'", `'${CLI}'`)
  expect(await node.tryRun(run)).toMatchObject({
    status: 2,
    stdout: '',
    stderr: 'netsweep: --inside: this is no node of its own\n',
  })
  expect(difference(before, await node.snapshot())).toEqual([])
})

test('a sweep that leaves something is told, and the status is 1', async () => {
  await using node = await TestNode.create()
  // An `ip` that lists a rule more each time it is asked: the demo must not trust the sweep's own report.
  await node.run(`mkdir /run/bin; cat >/run/bin/ip <<'END'
#!/bin/sh
/usr/sbin/ip "$@" || exit
[ "$*" = "-4 rule show" ] || exit 0
echo more >>/run/asked; grep -c more /run/asked
END
chmod +x /run/bin/ip; mkdir /run/keep; mount --bind /run/bin /usr/local/sbin`)
  const env = { PATH: `/usr/local/sbin:${process.env.PATH}` }
  const { status, stdout } = await node.netsweep(['demo'], { env })
  expect(status).toBe(1)
  expect(stdout).toMatch(/^wrong: not as before web and billing: \+ rule \d+$/m)
  expect(stdout).not.toContain('\nright: ')
})

test('killed half-way, it leaves nothing', async () => {
  await using node = await TestNode.create()
  const before = await node.snapshot()
  const playing = await node.start(process.execPath, [CLI, 'demo'])
  for await (const chunk of playing.stdout ?? []) if (String(chunk).includes('billing  tenant')) break
  await node.run("pgrep -f 'cli[.]js demo --inside'")
  await node.run("pkill -KILL -f 'cli[.]js demo$'")
  await sleep(300)
  expect((await node.tryRun("pgrep -f 'cli[.]js demo'")).stdout).toBe('')
  expect(difference(before, await node.snapshot())).toEqual([])
})
