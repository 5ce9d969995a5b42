/** The nodes that the other tests stand on: apart from each other, gone afterwards, and seen whole. */
import { access, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { strayProcesses } from './leftovers.js'
import { need } from './machine.js'
import { firstLine, TestNode } from './node.js'
import { runProcess } from './process.js'
import { difference } from './snapshot.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const API = ['deploy', '--workload', 'api', '--addr', '10.128.3.7', '--tenant', 'acme']
const BILLING = ['deploy', '--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex']

test('the same workload stands on two nodes at once', async () => {
  await using one = await TestNode.create()
  await using two = await TestNode.create()
  await Promise.all([one.oracle(...API), two.oracle(...API)])
  expect(await one.dump()).toEqual(await two.dump())
  expect(await one.dump()).toContain('link veth7: master yah0-6jgfqfdnu6')

  await one.oracle('stop', 'api')

  expect(await one.run('ls /run/netns')).toBe('')
  expect(await two.run('ls /run/netns')).toBe('api\n')
})

test('a node is gone once disposed, with all that ran on it', async () => {
  const node = await TestNode.create()
  await node.oracle(...API)
  const sleeper = await node.start('bash', ['-c', 'setsid sleep 1000 & echo started; sleep 1000'])
  expect(await firstLine(sleeper)).toBe('started')
  const running = await strayProcesses(process.pid)
  expect(running.map(({ pid }) => pid)).toContain(node.pid)
  expect(running.filter(({ command }) => command === 'sleep 1000').length).toBeGreaterThanOrEqual(1)

  await node[Symbol.asyncDispose]()

  await expect(access(`/proc/${node.pid}`)).rejects.toMatchObject({ code: 'ENOENT' })
  await expect.poll(() => strayProcesses(process.pid)).toEqual([])
})

test('its network namespace can be opened from outside', async () => {
  await using node = await TestNode.create()
  await node.run('ip link add seen type bridge')
  const { stdout } = await runProcess('nsenter', [`--net=${node.netnsPath}`, '--', 'ip', '-o', 'link', 'show', 'seen'])
  expect(stdout).toContain('seen:')
})

test('PID 1 of a node has its mount namespace', async () => {
  await using node = await TestNode.create()
  const [first, own] = (await node.run('readlink /proc/1/ns/mnt /proc/self/ns/mnt')).split('\n')
  expect(first).toBe(own)
})

test('a script fails with its first failing command, and says what it said', async () => {
  await using node = await TestNode.create()
  await expect(node.run('ip link show absent; true')).rejects.toThrow(/status 1\n.*"absent" does not exist/)
  expect(await node.tryRun('echo said; echo wrong >&2; exit 3')).toEqual({
    status: 3,
    stdout: 'said\n',
    stderr: 'wrong\n',
  })
})

test.for(['nft', 'legacy'] as const)(
  'oracle and dump use the %s back end, and leave the other alone',
  async (backend, context) => {
    await need(context, backend)
    await using node = await TestNode.create({ backend })
    await node.oracle(...BILLING)
    const jump = 'mangle -A PREROUTING -s 10.128.3.9/32 -j yah-id-10.128.3.9'
    expect(await node.dump()).toContain(jump)
    const both = await node.dump({ both: true })
    expect(both.filter((line) => line.endsWith(jump))).toEqual([backend === 'nft' ? jump : `legacy ${jump}`])
    // Under nft the kernel has no legacy table yet, and neither dump nor snapshot may have made one.
    await node.snapshot()
    const tables = await node.run('cat /proc/net/ip_tables_names 2>/dev/null || :')
    expect(tables.split('\n').includes('mangle')).toBe(backend === 'legacy')
  },
)

test('what changes by itself is no difference', async () => {
  await using node = await TestNode.create()
  await node.oracle(...API)
  await node.run(
    'nft add table ip t; nft add chain ip t c "{ type filter hook input priority 0; }"; nft add rule ip t c counter',
  )
  const before = await node.snapshot()
  await node.run(
    `ip netns exec api true; nsenter --net=/run/netns/api ping -c 2 -i 0.2 10.128.3.1 >/dev/null || :; sleep 1`,
  )
  expect(difference(before, await node.snapshot())).toEqual([])
})

/** A change that somebody could make, and how the comparison tells of it. */
const CHANGES: readonly (readonly [string, string])[] = [
  ['ip link add new type bridge', 'links: + new'],
  ['ip link del foreign', 'links: - foreign'],
  ['ip link set foreign mtu 1400', 'links: + foreign mtu 1400'],
  ['ip link set foreign down', 'links: - foreign flags BROADCAST,MULTICAST,UP'],
  ['ip addr add 10.0.0.2/24 dev foreign', 'addresses: + 2: foreign    inet 10.0.0.2/24 scope global secondary foreign'],
  ['ip route add 10.9.0.0/16 dev foreign table 99', 'routes: + 10.9.0.0/16 dev foreign table 99 scope link'],
  ['ip route change 10.8.0.0/16 dev foreign src 10.0.0.1', 'routes: + 10.8.0.0/16 dev foreign scope link src 10.0.0.1'],
  ['ip rule add priority 1200 iif yah0 prohibit', 'rules: + 1200:\tfrom all iif yah0 [detached] prohibit'],
  ['ip -6 rule add priority 1200 prohibit', 'IPv6 rules: + 1200:\tfrom all prohibit'],
  [
    'ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:01 dev foreign',
    'neighbours: + 10.0.0.9 dev foreign lladdr 02:00:00:00:00:01 PERMANENT',
  ],
  ['ip neigh add proxy 10.0.0.9 dev foreign', 'proxies: + 10.0.0.9 dev foreign proxy'],
  ['tc qdisc add dev foreign clsact', 'qdiscs: + qdisc clsact ffff: dev foreign parent ffff:fff1'],
  ['iptables-nft -w -I FORWARD 2 -j ACCEPT', 'ip nft: + -A FORWARD -j ACCEPT'],
  ['iptables-nft -w -D FORWARD 1; iptables-nft -w -A FORWARD -i a -j DROP', 'ip nft: moved -A FORWARD -i b -j DROP'],
  ['ip6tables-nft -w -A FORWARD -j ACCEPT', 'ip6 nft: + -A FORWARD -j ACCEPT'],
  ['nft add table inet mine', 'nftables: + table inet mine {'],
  ['sysctl -qw net.ipv4.conf.foreign.rp_filter=2', 'sysctls: + ipv4/conf/foreign/rp_filter:2'],
  ['ip netns del live', 'namespaces: - live 1: lo    inet 127.0.0.1/8 scope host lo'],
]

test.for(CHANGES)('%s is a difference', async ([change, expected]) => {
  await using node = await TestNode.create()
  await node.run(`ip link add foreign type bridge; ip link set foreign up; ip addr add 10.0.0.1/24 dev foreign
    ip route add 10.8.0.0/16 dev foreign; ip netns add live; ip -n live link set lo up
    iptables-nft -w -A FORWARD -i a -j DROP; iptables-nft -w -A FORWARD -i b -j DROP`)
  const before = await node.snapshot()
  await node.run(change)
  const found = difference(before, await node.snapshot()).map((line) => line.replace(/\\ +valid_lft.*/, ''))
  expect(found).toContain(expected)
})

test('a legacy table that comes into being is a difference, and so is a rule in it', async (context) => {
  await need(context, 'legacy')
  await using node = await TestNode.create()
  const before = await node.snapshot()
  await node.run('iptables-legacy -w -t raw -A PREROUTING -i a -j DROP')
  const found = difference(before, await node.snapshot())
  expect(found).toContain('ip legacy tables: + raw')
  expect(found).toContain('ip legacy: + -A PREROUTING -i a -j DROP')
})

test('a filter is a difference', async (context) => {
  await using node = await TestNode.create()
  await node.run('ip link add foreign type bridge; tc qdisc add dev foreign clsact')
  const before = await node.snapshot()
  const { status, stderr } = await node.tryRun('tc filter add dev foreign ingress protocol ip pref 7 u32 match u32 0 0')
  if (status !== 0) context.skip(`a kernel without cls_u32 (${stderr.trim().split('\n')[0]})`)
  expect(difference(before, await node.snapshot())).toContain(
    'filters: + filter foreign ingress protocol ip pref 7 u32 chain 0',
  )
})

/** Runs vitest over these files, and returns what the reporter has counted. */
async function counted(files: Readonly<Record<string, string>>, ...args: string[]): Promise<string[]> {
  await mkdir(join(ROOT, 'build'), { recursive: true })
  // Inside the project, where vitest is found.
  const folder = await mkdtemp(join(ROOT, 'build/count-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const file = join(folder, 'count')
  const vitest = [join(ROOT, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder]
  const reporter = fileURLToPath(new URL('./reporter.ts', import.meta.url))
  const env = { TEST_COUNT_FILE: file, VITEST: undefined, VITEST_POOL_ID: undefined, VITEST_WORKER_ID: undefined }
  await runProcess(process.execPath, [...vitest, `--reporter=${reporter}`, ...args], { env })
  return (await readFile(file, 'utf8')).split('\n')
}

test('the count tells passed, failed, skipped and what belongs to no test apart, and what went wrong', async () => {
  const files = {
    'a.test.js': `import { test } from 'vitest'
      test('passes', () => {}); test('passes too', () => {}); test('fails', () => { throw new Error('on purpose') })
      let tries = 0
      test('passes at last', { retry: 1 }, ({ expect }) => expect({ same: 1, tries: ++tries }).toEqual({ same: 1, tries: 2 }))
      test('lacks', (context) => context.skip('no such kernel')); test.skip('is marked', () => {})`,
    'vitest.config.js': 'export default {}',
    'broken.test.js': `throw new Error('cannot be loaded')`,
  }
  expect(await counted(files)).toEqual([
    '3 2 2',
    'skipped: a.test.js: lacks: no such kernel',
    'skipped: a.test.js: is marked: marked as skipped',
    'passed at the second try: a.test.js: passes at last',
    '  expected { same: 1, tries: 1 } to deeply equal { same: 1, tries: 2 }',
    '  - Expected',
    '  + Received',
    '  -   "tries": 2,',
    '  +   "tries": 1,',
    'failed: a.test.js: fails',
    '  on purpose',
    'failed: broken.test.js',
    '  cannot be loaded',
    '',
  ])
})

test('what another tag keeps out of a run is not counted', async () => {
  const files = {
    'a.test.js': `import { describe, test } from 'vitest'
      test('of another run', () => {}); test('passes', { tags: 'mine' }, () => {})
      describe('a group', { tags: 'mine' }, () => test('lacks', (context) => context.skip('no such kernel')))`,
    // In one piece, it would be this file's own tag.
    'b.test.js': `/** @${'module'}-tag mine */
      import { test } from 'vitest'
      test('passes', () => {})`,
    'vitest.config.js': `export default { test: { tags: [{ name: 'mine' }] } }`,
  }
  expect(await counted(files, '--tags-filter', 'mine')).toEqual([
    '2 0 1',
    'skipped: a.test.js: a group > lacks: no such kernel',
    '',
  ])
})
