/** The fast way of reading a node and the slow one on a crowded node; and that a difference between them would be seen. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ContainerNet } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { delegate } from '../support/fake-host.js'
import { TestNode } from '../support/node.js'
import { leftBehind, machine } from './passes.js'
import { sameView, sameViewOf } from './slow-view.js'

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
    ip link property add dev port1 altname veth9 altname yah0-000000000v
    ip rule add iif yah0-000000000v to 10.128.3.0/24 fwmark 0/0x2000000 priority 1202 prohibit
    ip link set port0 up; ip link set port1 up; ip addr add 192.0.2.1/24 dev port1
    for ((i = 1; i <= 300; i++)); do echo "route add 20.0.$((i / 256)).$((i % 256))/32 dev port1 proto 186"; done | ip -batch -
    ip route add 10.128.3.220 nexthop dev yah0-0000000005 nexthop dev port1
    ip nexthop add id 77 dev yah0-0000000006; ip route add 10.128.3.221 nhid 77
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
    what: 'an object that is sifted out',
    change: {
      exchange: (requests, options) =>
        host.exchange(requests, {
          ...options,
          keep: options?.keep?.map((keep) => ({ ...keep, values: [], without: false })),
        }),
    },
  },
])('$what makes them differ', async ({ change }) => {
  const net = new ContainerNet({ netns: node.netnsPath })
  await expect(sameViewOf({ ...delegate(host), ...change }, host, net)).rejects.toThrow(/fast and slow/)
})
