/** `netsweep sweep` as it was built, on nodes of a real kernel. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import type { ReconciledJson } from '../../src/node/reconciled.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

/** acct and api run; billing, which admitted api and was its tenant's last one, is gone. */
async function nodeWithLeftovers(): Promise<TestNode> {
  const node = await TestNode.create()
  await node.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  await node.oracle(
    'deploy',
    '--workload',
    'api',
    '--addr',
    '10.128.3.7',
    '--tenant',
    'acme',
    '--identity',
    'acme/prod/api',
  )
  const billing = ['--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex']
  await node.oracle('deploy', ...billing, '--allow', 'acme/prod/api')
  await node.run('ip link delete veth9; ip netns delete billing')
  return node
}

test('text: a line for each step with its outcome, object and reason, and a summary that counts them', async () => {
  await using node = await nodeWithLeftovers()
  const before = await node.snapshot()
  const dry = await node.netsweep(['sweep', '--dry-run'])
  expect(dry).toMatchObject({ status: 0, stderr: '' })
  expect(difference(before, await node.snapshot())).toEqual([])

  const swept = await node.netsweep(['sweep'])
  expect(swept).toMatchObject({ status: 0, stderr: '' })
  const lines = swept.stdout.trimEnd().split('\n')
  const summary = lines.pop()
  expect(lines).toContain('removed  bridge yah0-91auqknbeu  (bridge yah0-91auqknbeu has no workload)')
  expect(lines).toContain('removed  route 10.128.3.9/32 dev yah0-91auqknbeu  (address 10.128.3.9 has no workload)')
  for (const line of lines) expect(line).toMatch(/^removed {2}\S.* {2}\(.+\)$/)
  expect(summary).toMatch(
    new RegExp(`^removed leftovers of 1 bridge and 1 address \\(${lines.length} steps\\) in \\d+ ms$`),
  )
  expect(dry.stdout).toBe(
    [
      ...lines.map((line) => line.replace('removed', 'planned')),
      `would remove leftovers of 1 bridge and 1 address (${lines.length} steps); a dry run: nothing was changed\n`,
    ].join('\n'),
  )

  const again = await node.netsweep(['sweep'])
  expect(again).toMatchObject({ status: 0, stderr: '' })
  expect(again.stdout).toMatch(/^nothing to sweep in 10\.128\.3\.0\/24 \(\d+ ms\)\n$/)
})

test('--json: one object, with every key of the contract', async () => {
  await using node = await nodeWithLeftovers()
  const { status, json, stderr } = await node.netsweep(['sweep', '--json'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(Object.keys(json as object)).toEqual([
    ...['subnet', 'bridges', 'addresses', 'dryRun', 'complete', 'steps', 'notices', 'elapsedMs'],
  ])
  expect(json).toMatchObject({
    subnet: '10.128.3.0/24',
    bridges: ['yah0-91auqknbeu'],
    addresses: ['10.128.3.9'],
    dryRun: false,
    complete: true,
    notices: [],
  })
  const { steps } = json as ReconciledJson
  for (const step of steps) {
    expect(Object.keys(step)).toEqual(['action', 'object', 'reason', 'command', 'outcome'])
    expect(step.outcome).toBe('removed')
  }
})

test('the commands that --json shows do what the sweep does', async () => {
  await using node = await nodeWithLeftovers()
  await using other = await nodeWithLeftovers()
  const { json } = await node.netsweep(['sweep', '--dry-run', '--json'])
  await node.run((json as ReconciledJson).steps.map(({ command }) => command).join('\n'))
  expect((await other.netsweep(['sweep'])).status).toBe(0)
  expect(await node.dump()).toEqual(await other.dump())
})

test('a brake that holds: status 3, nothing changed, and the steps are listed in both forms', async () => {
  await using node = await nodeWithLeftovers()
  const before = await node.snapshot()
  const text = await node.netsweep(['sweep', '--max-removals', '1'])
  expect(text.status).toBe(3)
  expect(text.stderr).toMatch(/^netsweep: brake: 2 bridges and addresses have leftovers, more than 1; [^\n]+\n$/)
  expect(text.stdout).toContain('planned  bridge yah0-91auqknbeu  (bridge yah0-91auqknbeu has no workload)\n')
  expect(text.stdout).toMatch(/\nnothing was removed: [^\n]+\n$/)

  const { status, json } = await node.netsweep(['sweep', '--json'], { env: { NETSWEEP_MAX_REMOVALS: '1' } })
  expect(status).toBe(3)
  expect(json).toMatchObject({
    error: { code: 'BRAKE', message: expect.any(String), hint: expect.stringContaining('--max-removals') },
    bridges: ['yah0-91auqknbeu'],
    addresses: ['10.128.3.9'],
  })
  const { steps } = json as ReconciledJson
  expect(new Set(steps.map(({ outcome }) => outcome))).toEqual(new Set(['planned']))
  expect(text.stdout.split('\n').filter((line) => line.startsWith('planned'))).toHaveLength(steps.length)
  expect(difference(before, await node.snapshot())).toEqual([])
  expect((await node.netsweep(['sweep', '--max-removals', '2'])).status).toBe(0)
})

test("what somebody else's rule holds is kept, told with who holds it, and the status is 1", async () => {
  await using node = await nodeWithLeftovers()
  await node.run('iptables-nft -w -t mangle -A OUTPUT -p tcp -j yah-id-10.128.3.9')
  const text = await node.netsweep(['sweep'])
  expect(text).toMatchObject({ status: 1, stderr: '' })
  expect(text.stdout).toMatch(/^kept {5}nft mangle: chain yah-id-10\.128\.3\.9 .*kept: held by .*-A OUTPUT -p tcp/m)
  expect(text.stdout).toMatch(/^incomplete: of \d+ steps 1 kept; removed leftovers of [^\n]+\n$/m)
  const { status, json } = await node.netsweep(['sweep', '--json'])
  expect(status).toBe(1)
  expect(json).toMatchObject({ complete: false, steps: [{ outcome: 'kept' }] })
})

test('--record writes what puts everything back, before it is removed, and never over a file', async () => {
  await using node = await nodeWithLeftovers()
  const before = await node.dump()
  expect((await node.netsweep(['sweep', '--dry-run', '--record', '/run/undo'])).status).toBe(0)
  await node.run('test ! -e /run/undo')
  expect((await node.netsweep(['sweep', '--record', '/run/undo'])).status).toBe(0)
  expect(await node.dump()).not.toEqual(before)
  expect((await node.netsweep(['sweep', '--record', '/run/undo'])).status).toBe(2)
  expect(await node.run('stat -c %a /run/undo')).toBe('600\n')
  await node.run('sh /run/undo')
  expect(await node.dump()).toEqual(before)
})

test('the record of another namespace is put back there, whatever the environment says', async () => {
  await using node = await TestNode.create()
  await node.run(`ip netns add inner
    ip -n inner link add yah0 type bridge; ip -n inner addr add 10.128.3.1/24 dev yah0
    ip -n inner link add yah0-91auqknbeu type bridge`)
  const before = await node.snapshot()
  expect((await node.netsweep(['sweep', '--netns', 'inner', '--record', '/run/undo'])).status).toBe(0)
  await node.run('! ip -n inner link show yah0-91auqknbeu 2>/dev/null')
  await node.run('NETSWEEP_INSIDE=1 sh /run/undo')
  await node.run('ip -n inner link show yah0-91auqknbeu')
  expect(difference(before, await node.snapshot())).toEqual([])
})

test("another node bridge's running workloads are spared when the options are not this node's, and told", async () => {
  await using node = await nodeWithLeftovers()
  await node.run('ip link add docker0 type bridge')
  const wrong = ['sweep', '--bridge', 'yah1', '--subnet', '10.128.3.0/24', '--json']
  const { status, json } = await node.netsweep(wrong)
  expect({ status, json }).toMatchObject({
    status: 0,
    json: {
      addresses: ['10.128.3.9'],
      notices: [
        { object: 'address 10.128.3.2', reason: expect.stringMatching(/^spared: veth2 is on yah0, /) },
        { object: 'address 10.128.3.7', reason: expect.stringMatching(/^spared: veth7 is on yah0-6jgfqfdnu6, /) },
      ],
    },
  })
  const chains = async () => await node.run('iptables-nft -t mangle -S | grep -o "^-N yah-id-.*"')
  expect(await chains()).toBe('-N yah-id-10.128.3.2\n-N yah-id-10.128.3.7\n')
  // On a bridge that its chain does not name, a veth is nobody's that is known.
  await node.run('ip link set veth7 master docker0')
  expect((await node.netsweep(wrong)).json).toMatchObject({ addresses: ['10.128.3.7'] })
  expect(await chains()).toBe('-N yah-id-10.128.3.2\n')
})

test('without CAP_NET_ADMIN: 3, and how to get it', async () => {
  await using node = await TestNode.create()
  const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
  const { status, stderr, stdout } = await node.exec('setpriv', [
    ...['--bounding-set', '-net_admin', '--inh-caps', '-net_admin', process.execPath, cli, 'sweep'],
  ])
  expect({ status, stdout }).toEqual({ status: 3, stdout: '' })
  expect(stderr).toMatch(/^netsweep: privileges: CAP_NET_ADMIN is missing: .*CAP_NET_ADMIN.*\n$/)
})

test('a reader that has seen enough is no failure', async () => {
  await using node = await nodeWithLeftovers()
  const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
  const { status, stderr } = await node.tryRun(`set -o pipefail; '${process.execPath}' '${cli}' sweep | true`)
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect((await node.netsweep(['sweep'])).stdout).toMatch(/^nothing to sweep/)
})

test('logs are JSON lines on stderr, and tell of the pass at info', async () => {
  await using node = await TestNode.create()
  const { status, stderr } = await node.netsweep(['sweep', '--json', '--log-level', 'info'])
  expect(status).toBe(0)
  expect(
    stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([{ level: 30, name: 'netsweep', msg: 'swept', bridges: [], complete: true }])
})

test('a namespace can be named, and one that is not there is a bad call', async () => {
  await using node = await TestNode.create()
  await node.run('ip netns add inner')
  await node.run(
    'ip -n inner link add yah0 type bridge; ip -n inner addr add 10.128.3.1/24 dev yah0; ip -n inner link add yah0-91auqknbeu type bridge',
  )
  const { json } = await node.netsweep(['sweep', '--json', '--netns', 'inner'])
  expect(json).toMatchObject({
    bridges: ['yah0-91auqknbeu'],
    steps: [{ command: 'nsenter --net=/run/netns/inner ip link del dev yah0-91auqknbeu' }],
  })
  expect(await node.run('ip -n inner -br link show type bridge')).toMatch(/^yah0 .*\n$/)
  const missing = await node.netsweep(['sweep', '--netns', 'outer'])
  expect(missing.status).toBe(2)
  expect(missing.stderr).toMatch(/^netsweep: --netns: "outer" cannot be opened: /)
})
