/** The fast way of reading a node and the slow one on a crowded node; and that a difference between them would be seen. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ContainerNet, readNode } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { IFLA_LINK, RTA_OIF, RTM_GETNEIGH } from '../../src/kernel/linux.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { delegate } from '../support/fake-host.js'
import { TestNode } from '../support/node.js'
import { ACME, GLOBEX, leftBehind, machine, pass, RTM_GETTFILTER } from './passes.js'
import { sameView, sameViewOf } from './slow-view.js'

/** Below it are the messages that are no object: the end of a list, an error. */
const NLMSG_MIN_TYPE = 0x10

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await leftBehind(node)
  await node.run(`
    # More than six tenants, so that their routes come in one dump; one has a port with the bridge's own link address.
    for digit in 1 2 3 4 5 6; do
      ip link add yah0-000000000$digit type bridge; ip link set yah0-000000000$digit up
      ip route add 10.128.3.20$digit dev yah0-000000000$digit
    done
    ip link set yah0-0000000001 address 02:00:00:00:00:01
    ip link add same0 address 02:00:00:00:00:01 type veth peer name same1
    ip link set same0 master yah0-0000000001
    ip link add link yah0-0000000002 name upper0 type macvlan
    ip link add link yah0-0000000003 name upper1 type macvtap
    ip link add other0 type bridge; ip link add port0 type veth peer name port1; ip link set port0 master other0
    ip link add veth300 type veth peer name veth07; ip link set veth300 master yah0-0000000004
    ip link property add dev veth77 altname veth78
    ip link property add dev port1 altname veth9 altname yah0-000000000v
    ip rule add iif yah0-000000000v to 10.128.3.0/24 fwmark 0/0x2000000 priority 1202 prohibit
    ip link set port0 up; ip link set port1 up; ip addr add 192.0.2.1/24 dev port1
    for ((i = 1; i <= 300; i++)); do echo "route add 20.0.$((i / 256)).$((i % 256))/32 dev port1 proto 186"; done | ip -batch -
    ip route add 10.128.3.220 nexthop dev yah0-0000000005 nexthop dev port1
    ip nexthop add id 77 dev yah0-0000000006; ip route add 10.128.3.221 nhid 77
    ip nexthop add id 78 dev port1; ip nexthop add id 79 group 78/77; ip route add 10.128.3.223 nhid 79
    ip route add 10.128.3.224 nhid 78; ip route add 10.128.3.225 nexthop dev port1 nexthop dev port1 weight 2
    tc qdisc add dev yah0-0000000006 clsact; tc qdisc add dev port1 clsact
    for pref in 894 895; do
      for dev in yah0-0000000006 port1; do
        tc filter add dev $dev ingress pref $pref protocol arp u32 match u32 0 0 action mirred egress redirect dev port1
      done
    done
    ip neigh add 10.128.3.203 lladdr 02:00:00:00:00:03 nud permanent dev yah0-0000000003
    ip neigh add 192.0.2.9 lladdr 02:00:00:00:00:03 nud permanent dev port1
    ip route add 10.128.3.222 dev yah0-0000000005 metric 7`)
  host = await machine(node)
})
afterAll(async () => {
  host.close()
  await node[Symbol.asyncDispose]()
})

test('a crowded node', async () => {
  await sameView(node)
})

test('the crowd has what it is there for', async () => {
  const view = await readNode(host, new ContainerNet({ netns: node.netnsPath }))
  expect(view.links.bridges.length).toBeGreaterThan(6)
  expect(view.routes.map(({ destination }) => destination)).toEqual(
    expect.arrayContaining(['10.128.3.220', '10.128.3.221', '10.128.3.222', '10.128.3.223']),
  )
  expect(view.routes.map(({ destination }) => destination)).not.toContain('10.128.3.224')
  expect(view.filters.map(({ pref }) => pref)).toContain(895)
  expect(view.links.veths.map(({ name }) => name)).toContain('veth77')
})

test('what a pass finds, and what it leaves', async () => {
  await using left = await TestNode.create()
  await leftBehind(left)
  await sameView(left)
  const own = await machine(left)
  try {
    expect((await pass(own)).complete).toBe(true)
  } finally {
    own.close()
  }
  await sameView(left)
})

// Each bridge's dump lists a route that leaves by both.
test('a route by two bridges stands once, and in its place', async () => {
  await using two = await TestNode.create()
  await two.run(`
    for bridge in ${GLOBEX} ${ACME}; do ip link add $bridge type bridge; ip link set $bridge up; done
    ip route add 10.128.3.8 dev ${ACME}
    ip route add 10.128.3.8 metric 7 scope link nexthop dev ${ACME} nexthop dev ${GLOBEX}`)
  await sameView(two)
})

test('a node without anything', async () => {
  await using empty = await TestNode.create()
  await sameView(empty)
})

test.each<{ what: string; change: Partial<Host> }>([
  {
    what: 'a port that a bridge does not tell',
    change: {
      bridgePorts: async (names) =>
        (await host.bridgePorts(names)).map((ports) =>
          'indexes' in ports ? { indexes: ports.indexes.slice(1) } : ports,
        ),
    },
  },
  {
    what: 'a bridge that is not told',
    change: { bridgeNames: async () => new Map([...((await host.bridgeNames()) ?? [])].slice(1)) },
  },
  { what: 'a route that is sifted out', change: sifting(RTA_OIF) },
  { what: 'what stands on a bridge, sifted out', change: sifting(IFLA_LINK) },
  { what: 'a filter that is not listed', change: withoutObjects(RTM_GETTFILTER) },
  { what: 'a neighbour that is not listed', change: withoutObjects(RTM_GETNEIGH) },
])('$what makes them differ', async ({ change }) => {
  const net = new ContainerNet({ netns: node.netnsPath })
  await expect(sameViewOf({ ...delegate(host), ...change }, host, net)).rejects.toThrow(/fast and slow/)
})

/** Leaves out every object of the dumps that are sifted by that attribute. */
function sifting(attribute: number): Partial<Host> {
  const none = { values: [], without: false }
  return {
    exchange: (requests, options) => {
      const keep = options?.keep?.map((keep) => (keep.attribute === attribute ? { ...keep, ...none } : keep))
      return host.exchange(requests, { ...options, keep })
    },
  }
}

/** Leaves out every object of the answers to questions of that type. */
function withoutObjects(type: number): Partial<Host> {
  return {
    exchange: async (requests, options) => {
      const types = [...readMessages(requests)].map((request) => request.type)
      const answers = [...readMessages(await host.exchange(requests, options))]
      const kept = answers.filter((answer) => types[answer.sequence] !== type || answer.type < NLMSG_MIN_TYPE)
      return Buffer.concat(kept.map(({ bytes }) => bytes))
    },
  }
}
