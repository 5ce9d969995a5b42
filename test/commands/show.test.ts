/** `netsweep show`, on nodes of a real kernel. */
import { expect, test } from 'vitest'
import type { NodeReport } from '../../src/report/node.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

async function wiredNode(): Promise<TestNode> {
  const node = await TestNode.create()
  await node.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  await node.oracle(
    'deploy',
    '--workload',
    'a p/i',
    '--addr',
    '10.128.3.7',
    '--tenant',
    'acme',
    '--identity',
    'acme/prod/api',
  )
  const billing = ['--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex']
  await node.oracle(
    'deploy',
    ...billing,
    '--identity',
    'globex/prod/billing',
    '--allow',
    'acme/prod/api',
    '--allow',
    'acme/prod/no',
  )
  return node
}

const show = async (node: TestNode, ...args: string[]): Promise<NodeReport> => {
  const { status, stderr, json } = await node.netsweep(['show', '--json', ...args])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  return json as NodeReport
}

test('a healthy node: every bridge and workload, and nothing left over', async () => {
  await using node = await wiredNode()
  const before = await node.snapshot()
  // Whatever else lies where names are is the name of none.
  await node.run('cd /run/netns; : >empty; echo text >text; mkdir folder; ln -s nowhere dangling; mkfifo pipe')
  const report = await show(node)
  await node.run('cd /run/netns; rm -r empty text folder dangling pipe')
  expect(difference(before, await node.snapshot())).toEqual([])

  expect(report).toMatchObject({ subnet: '10.128.3.0/24', nodeBridge: 'yah0' })
  const index = async (name: string) => Number(await node.run(`cat /sys/class/net/${name}/ifindex`))
  await node.run('mount -t sysfs sysfs /sys')
  expect(report.bridges).toEqual([
    { name: 'yah0', index: await index('yah0'), gateway: '10.128.3.1/24', occupied: true, verdict: 'node' },
    ...(await Promise.all(
      ['yah0-6jgfqfdnu6', 'yah0-91auqknbeu'].map(async (name) => ({
        ...{ name, index: await index(name), gateway: '10.128.3.1/32', occupied: true, verdict: 'live' },
      })),
    )),
  ])
  const mark = async (identity: string) => Number(await node.oracle('identity-mark', identity))
  expect(report.workloads).toEqual([
    {
      ...{ address: '10.128.3.2', veth: 'veth2', bridge: 'yah0', namespace: 'acct' },
      ...{ identityMark: await mark('singleton/default/acct'), admittedPeers: [] },
    },
    {
      ...{ address: '10.128.3.7', veth: 'veth7', bridge: 'yah0-6jgfqfdnu6', namespace: 'a-p-i' },
      ...{ identityMark: await mark('acme/prod/api'), admittedPeers: [] },
    },
    {
      ...{ address: '10.128.3.9', veth: 'veth9', bridge: 'yah0-91auqknbeu', namespace: 'billing' },
      identityMark: 6249,
      admittedPeers: expect.toSatisfy((peers: unknown[]) => peers.length === 2),
    },
  ])
  for (const [identity, address] of [
    ['acme/prod/api', '10.128.3.7'],
    ['acme/prod/no', null],
  ] as const)
    expect(report.workloads[2]?.admittedPeers).toContainEqual({
      bridge: 'yah0-6jgfqfdnu6',
      mark: await mark(identity),
      address,
    })
  expect(report.hostRoutes).toEqual([
    { address: '10.128.3.7', bridge: 'yah0-6jgfqfdnu6' },
    { address: '10.128.3.9', bridge: 'yah0-91auqknbeu' },
  ])
  expect(report.prohibits).toContainEqual({ priority: 1204, iif: 'yah0-91auqknbeu', to: '100.64.0.0/10' })
  expect(report.prohibits).toHaveLength(
    (await node.run('ip rule')).split('\n').filter((line) => line.includes('prohibit')).length,
  )
  expect(report.proxies).toEqual([
    { address: '10.128.3.7', bridge: 'yah0-91auqknbeu', wanted: true },
    { address: '10.128.3.9', bridge: 'yah0-6jgfqfdnu6', wanted: true },
  ])
  expect(report.chains.map(({ name }) => name).sort()).toEqual(
    ['10.128.3.2', '10.128.3.7', '10.128.3.9'].flatMap((address) => [`yah-gr-${address}`, `yah-id-${address}`]).sort(),
  )
  expect(report).toMatchObject({
    filters: [],
    departed: [],
    dead: [],
    detached: [],
    foreign: [],
    misplaced: [],
    notices: [],
  })
})

test('what is left over, and what is not ours', async () => {
  await using node = await wiredNode()
  await node.run(`
    ip link delete veth9; ip netns delete billing
    ip rule add priority 1202 iif yah0-0000000000 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
    ip link add yah0-vvvvvvvvvv type bridge; ip link add guest type veth peer name guest2; ip link set guest master yah0-vvvvvvvvvv
    ip link add veth33 type veth peer name vethc33`)
  const before = await node.snapshot()
  const report = await show(node)
  expect(report).toMatchObject({
    departed: ['10.128.3.9'],
    dead: ['yah0-91auqknbeu'],
    detached: ['yah0-0000000000'],
    foreign: [{ bridge: 'yah0-vvvvvvvvvv', reason: 'port guest' }],
    misplaced: [{ object: 'veth veth33' }],
  })
  expect(report.proxies.map(({ wanted }) => wanted)).toEqual([false, false])
  const verdicts = Object.fromEntries(report.bridges.map(({ name, verdict, occupied }) => [name, [verdict, occupied]]))
  expect(verdicts).toEqual({
    yah0: ['node', true],
    'yah0-6jgfqfdnu6': ['live', true],
    'yah0-91auqknbeu': ['dead', false],
    'yah0-vvvvvvvvvv': ['foreign', true],
  })

  const text = await node.netsweep(['show'])
  expect(text).toMatchObject({ status: 0, stderr: '' })
  for (const line of [
    '10.128.3.0/24, node bridge yah0',
    '  address 10.128.3.9: no workload, but 1 host route, 1 prohibit, 2 chains, 1 proxy entry',
    '  bridge yah0-91auqknbeu: no workload',
    '  bridge yah0-0000000000: does not exist, but rules name it',
    '  bridge yah0-vvvvvvvvvv: foreign, port guest',
    '  veth veth33: misplaced: veth33 and vethc33 hang on nothing',
  ])
    expect(text.stdout.split('\n')).toContain(line)
  expect(difference(before, await node.snapshot())).toEqual([])
})

test('without a gateway it shows what can be shown, says so, and --subnet helps', async () => {
  await using node = await wiredNode()
  await node.run(
    'for b in yah0 yah0-6jgfqfdnu6 yah0-91auqknbeu; do ip -4 addr flush dev $b; done; ip link delete veth9',
  )
  const report = await show(node)
  expect(report).toMatchObject({ subnet: null, departed: [], dead: [], hostRoutes: [] })
  expect(report.bridges.map(({ gateway, verdict }) => [gateway, verdict])).toEqual([
    [null, 'node'],
    [null, null],
    [null, null],
  ])
  expect(report.workloads).toMatchObject([
    { address: null, veth: 'veth2', bridge: 'yah0', namespace: 'acct' },
    { address: null, veth: 'veth7', bridge: 'yah0-6jgfqfdnu6', namespace: 'a-p-i' },
  ])
  expect(report.notices).toContainEqual({
    object: 'bridge yah0-91auqknbeu',
    reason: expect.stringContaining('--subnet 10.128.3.0/24 lets it go'),
  })
  expect((await node.netsweep(['show'])).stdout).toMatch(
    /^subnet not known: no bridge carries a gateway in 10\.128\.0\.0\/9/,
  )
  expect(await show(node, '--subnet', '10.128.3.0/24')).toMatchObject({
    subnet: '10.128.3.0/24',
    dead: ['yah0-91auqknbeu'],
    departed: ['10.128.3.9'],
  })
})

test('it takes no lock, and leaves no folder for one', async () => {
  await using node = await wiredNode()
  await show(node)
  await node.run('test ! -e /run/netsweep')
  await node.run('install -d -m 0700 /run/netsweep')
  const lock = `/run/netsweep/${(await node.run("stat -L -c '%d-%i' /proc/self/ns/net")).trim()}.lock`
  await node.run(`exec 9>${lock}; flock 9; '${process.execPath}' dist/cli.js show >/dev/null`)
  expect(
    (await node.tryRun(`exec 9>${lock}; flock 9; '${process.execPath}' dist/cli.js sweep --lock-timeout 0.1`)).status,
  ).toBe(4)
})

test('gateways of two subnets: 3, naming both', async () => {
  await using node = await wiredNode()
  await node.run('ip addr add 10.128.4.1/32 dev yah0-6jgfqfdnu6')
  const { status, stdout, json } = await node.netsweep(['show', '--json'])
  expect(status).toBe(3)
  expect(json).toMatchObject({ error: { code: 'TWO_SUBNETS', hint: expect.stringContaining('--subnet') } })
  for (const subnet of ['10.128.3.0/24', '10.128.4.0/24']) expect(stdout).toContain(subnet)
})

test('a fresh namespace: nothing there, and nothing wrong', async () => {
  await using node = await TestNode.create()
  expect(await show(node)).toMatchObject({ subnet: null, bridges: [], workloads: [], notices: [] })
  expect((await node.netsweep(['show', '--format', 'text'])).stdout).toMatch(/nothing is left over\n$/)
  const { json } = { json: JSON.parse((await node.netsweep(['show', '--format', 'json'])).stdout) }
  expect(json).toMatchObject({ nodeBridge: 'yah0' })
})
