/** What the tests of the original hold, each statement by itself, against a real kernel. */
import { beforeEach, describe, expect, test } from 'vitest'
import { ContainerNet, conclude, openNode, readNode, recoverSubnet } from '../../src/index.js'
import { need } from '../support/machine.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { WORDS } from './states/build.js'
import { minus } from './states/expected.js'
import { ACME, BILLING, bridgeLink, GLOBEX, hostRoute, identity, tenantBridge, workload } from './states/lines.js'
import { sweep } from './states/pass.js'

beforeEach((context) => need(context, 'nft'))

async function nodeWith(build: string): Promise<TestNode> {
  const node = await TestNode.create()
  await node.run(WORDS + build)
  return node
}

/** What a pass finds to be live, dead, departed and foreign, without removing anything. */
async function conclusionOf(node: TestNode) {
  const net = new ContainerNet({ netns: node.netnsPath })
  const host = await openNode(net)
  try {
    const view = await readNode(host, net)
    const subnet = recoverSubnet(view)
    if (subnet === null) throw new Error('the node has no gateway')
    return conclude(view, subnet)
  } finally {
    host.close()
  }
}

test("a veth on docker's bridge is nobody's workload, even when its name would fit", async () => {
  await using node = await nodeWith(`
    acct; billing; stop billing 9
    bridge docker0 172.17.0.1/16; link veth9; ip link set veth9 master docker0; ip link set veth9 up`)
  const before = await node.dump()
  const { report } = await sweep(node)
  expect(report).toMatchObject({ addresses: ['10.128.3.9'], bridges: [GLOBEX], complete: true })
  const gone = minus(before, await node.dump())
  expect(gone).toEqual(expect.arrayContaining([...workload(BILLING), ...tenantBridge(GLOBEX)]))
  expect(gone.filter((line) => /veth9|docker0/.test(line))).toEqual([])
})

test('a node whose bridges carry no address in range is not swept', async () => {
  await using node = await nodeWith(`
    bridge yah0 192.168.3.1/24; bridge $GLOBEX; bridge $ACME 192.168.3.1/32; accepts $GLOBEX; tagged $GLOBEX b
    ipt -t mangle -N yah-id-10.128.3.9; ip rule add priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit`)
  const before = await node.snapshot()
  const { report } = await sweep(node)
  expect(report?.subnet).toBeNull()
  expect(new Set(report?.steps.map(({ outcome }) => outcome))).toEqual(new Set(['kept']))
  expect(difference(before, await node.snapshot())).toEqual([])
})

describe('a tenant bridge', () => {
  test('is occupied by its veth', async () => {
    await using node = await nodeWith(
      'bridge yah0 10.128.3.1/24; bridge $GLOBEX 10.128.3.1/32; link veth9; ip link set veth9 master $GLOBEX',
    )
    const before = await node.snapshot()
    expect((await sweep(node)).report).toMatchObject({ steps: [], notices: [] })
    expect(difference(before, await node.snapshot())).toEqual([])
  })

  test('is empty without it', async () => {
    await using node = await nodeWith('bridge yah0 10.128.3.1/24; bridge $GLOBEX 10.128.3.1/32; link veth9')
    const before = await node.dump()
    expect((await sweep(node)).report).toMatchObject({ bridges: [GLOBEX], addresses: [] })
    expect(minus(before, await node.dump())).toEqual(bridgeLink(GLOBEX).sort())
  })
})

describe('never deleted:', () => {
  for (const name of ['yah0-scratch', 'yah0-012345678', 'yah0', 'yah0-zzzzzzzzzz', 'docker0']) {
    test(name, async () => {
      await using node = await nodeWith(`
        [ ${name} = yah0 ] || bridge yah0 10.128.3.1/24
        bridge ${name}; bridge $GLOBEX 10.128.3.1/32; accepts ${name}; tagged ${name} b; prohibits ${name} 1202 1204`)
      const before = await node.dump()
      // The empty tenant bridge beside it shows that the pass did delete what may go.
      expect((await sweep(node)).report).toMatchObject({ bridges: [GLOBEX], complete: true })
      expect(minus(before, await node.dump())).toEqual(bridgeLink(GLOBEX).sort())
    })
  }

  test('yah0-0123456789a, which the kernel takes for an alternative name alone', async () => {
    await using node = await nodeWith(`
      bridge yah0 10.128.3.1/24; bridge plain; ip link property add dev plain altname yah0-0123456789a
      bridge $GLOBEX 10.128.3.1/32`)
    expect((await node.tryRun('ip link add yah0-0123456789a type bridge')).status).not.toBe(0)
    const before = await node.dump()
    expect((await sweep(node)).report).toMatchObject({ bridges: [GLOBEX], complete: true })
    expect(minus(before, await node.dump())).toEqual(bridgeLink(GLOBEX).sort())
    expect(new ContainerNet().isTenantBridge('yah0-0123456789a')).toBe(false)
  })
})

test("a /32 route names a workload only on one of this node's bridges", async () => {
  await using node = await nodeWith(`
    acct; api; bridge docker0 172.17.0.1/16; bridge yah0-scratch
    ip route add 10.128.3.9/32 dev docker0; ip route add 10.128.3.10/32 dev yah0-scratch
    ip route add 10.128.3.11/32 dev yah0; ip route add 10.128.3.12/32 dev $ACME`)
  const before = await node.dump()
  expect((await sweep(node)).report).toMatchObject({ addresses: ['10.128.3.11', '10.128.3.12'], bridges: [] })
  expect(minus(before, await node.dump())).toEqual([hostRoute(11, 'yah0'), hostRoute(12, ACME)])
})

test("the /24 comes from a tenant bridge's /32 too", async () => {
  await using node = await nodeWith(`
    api; ipt -t mangle -N yah-id-10.128.3.9; ipt -t mangle -N yah-id-10.128.4.9`)
  expect(await node.tryRun('ip link show yah0')).toMatchObject({ status: 1 })
  const before = await node.dump()
  expect((await sweep(node)).report).toMatchObject({ subnet: '10.128.3.0/24', addresses: ['10.128.3.9'] })
  expect(minus(before, await node.dump())).toEqual([identity(BILLING)[0]])
})

describe('the name of a host veth:', () => {
  const WORKLOADS = ['veth2', 'veth254']
  const OTHERS = ['veth0', 'veth1', 'veth255', 'vethc7', 'veth1a2b3c4', 'veth']

  test(`${OTHERS.join(', ')} are no workloads, ${WORKLOADS.join(' and ')} are`, async () => {
    await using node = await nodeWith(`
      bridge yah0 10.128.3.1/24
      for name in ${[...OTHERS, ...WORKLOADS].join(' ')}; do link $name; ip link set $name master yah0; done`)
    expect([...(await conclusionOf(node)).live.keys()].sort()).toEqual(['10.128.3.2', '10.128.3.254'])
  })

  for (const name of WORKLOADS) {
    test(`${name} keeps its address and its tenant bridge`, async () => {
      const addr = `10.128.3.${name.slice(4)}`
      await using node = await nodeWith(`
        bridge yah0 10.128.3.1/24; bridge $GLOBEX 10.128.3.1/32; link ${name}; ip link set ${name} master $GLOBEX
        ip route add ${addr}/32 dev $GLOBEX; ipt -t mangle -N yah-id-${addr}`)
      const before = await node.snapshot()
      expect((await sweep(node)).report).toMatchObject({ steps: [], notices: [] })
      expect(difference(before, await node.snapshot())).toEqual([])
    })
  }

  for (const name of OTHERS) {
    test(`${name} keeps no address, and as a port it is somebody else's`, async () => {
      await using node = await nodeWith(`
        bridge yah0 10.128.3.1/24; bridge $GLOBEX 10.128.3.1/32; link ${name}; ip link set ${name} master $GLOBEX
        for octet in 7 2 254; do ipt -t mangle -N yah-id-10.128.3.$octet; done`)
      const before = await node.dump()
      const { report } = await sweep(node)
      expect(report).toMatchObject({
        addresses: ['10.128.3.2', '10.128.3.7', '10.128.3.254'],
        bridges: [],
        notices: [{ object: `bridge ${GLOBEX}`, reason: `foreign: port ${name}` }],
      })
      const gone = [2, 254, 7].map((octet) => `mangle :yah-id-10.128.3.${octet} -`)
      expect(minus(before, await node.dump())).toEqual(gone)
    })
  }
})
