/** Real flows through a node with two workloads, NAT and an outside; conntrack(8) says what is tracked. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Connection } from '../../src/kernel/conntrack/connection.js'
import { connectionCount, connectionsOf, deleteConnection } from '../../src/kernel/conntrack/conntrack.js'
import type { Tuple } from '../../src/kernel/conntrack/tuple.js'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { firstLine, lines, TestNode } from '../support/node.js'

const FLOWS = fileURLToPath(new URL('./flows.py', import.meta.url))
const NETFILTER = { protocol: 'netfilter' } as const

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await node.run(`
    ip link add yah0 type bridge mcast_snooping 0
    ip addr add 10.128.3.1/24 dev yah0
    ip link set yah0 up
    for n in 7 9; do
      ip netns add w$n
      ip link add veth$n master yah0 type veth peer name eth0 netns w$n
      ip link set veth$n up
      ip -n w$n addr add 10.128.3.$n/24 dev eth0
      ip -n w$n link set eth0 up
      ip -n w$n route add default via 10.128.3.1
    done
    ip netns add outside
    ip link add out0 type veth peer name eth0 netns outside
    ip addr add 192.0.2.1/24 dev out0
    ip link set out0 up
    ip -n outside addr add 192.0.2.2/24 dev eth0
    ip -n outside link set eth0 up
    sysctl -qw net.ipv4.ip_forward=1
    iptables-nft -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
    iptables-nft -t nat -A POSTROUTING -s 10.128.3.0/24 ! -d 10.128.3.0/24 -j MASQUERADE
    iptables-nft -t nat -A PREROUTING -d 192.0.2.1 -p tcp --dport 8080 -j DNAT --to-destination 10.128.3.9:80
    iptables-nft -t mangle -A PREROUTING -s 10.128.3.9 -p udp -j CONNMARK --set-mark 0x2000000
  `)
  for (const [where, what, port] of [
    ['w9', 'serve-tcp', 80],
    ['outside', 'serve-udp', 53],
    ['outside', 'serve-tcp', 80],
  ] as const) {
    const server = await node.start('ip', ['netns', 'exec', where, 'python3', FLOWS, what, '', `${port}`, '0'])
    expect(await firstLine(server)).toBe('ready')
  }
  host = await openHost({ netns: node.netnsPath })
})

afterAll(async () => {
  host?.close()
  await node?.[Symbol.asyncDispose]()
})

/** All kinds of flows: from both workloads, behind NAT, to the node itself, and through a forwarded port. */
beforeEach(async () => {
  await node.run('conntrack -F 2>&1')
  await Promise.all([
    flow('w7', 'ping', '192.0.2.2', 0, 77),
    flow('w7', 'ping', '10.128.3.1', 0, 78),
    flow('w7', 'udp', '192.0.2.2', 53, 4007),
    flow('w7', 'tcp', '192.0.2.2', 80, 0),
    flow('w9', 'tcp', '192.0.2.2', 80, 0),
    flow('w9', 'udp', '192.0.2.2', 53, 4009),
    flow('outside', 'tcp', '192.0.2.1', 8080, 0),
  ])
})

async function flow(where: string, what: string, address: string, port: number, own: number): Promise<void> {
  const args = ['netns', 'exec', where, 'python3', FLOWS, what, address, `${port}`, `${own}`]
  expect(await node.exec('ip', args)).toMatchObject({ status: 0, stderr: '' })
}

/** What conntrack(8) lists, as its `name=value` words without those that change by themselves. */
async function tracked(...options: string[]): Promise<string[]> {
  const listed = await node.run(`conntrack -L -o id ${options.join(' ')} 2>/dev/null`)
  return lines(listed).map(words).sort()
}

function words(line: string): string {
  return line
    .split(/\s+/)
    .filter((word) => /=/.test(word) && !/^use=/.test(word))
    .join(' ')
}

/** The same words, of a connection. */
function asWords({ original, reply, zone, mark, id }: Connection): string {
  const zoned = zone === 0 ? [] : [`zone=${zone}`]
  return [tupleWords(original), tupleWords(reply), `mark=${mark}`, ...zoned, `id=${id}`].join(' ')
}

function tupleWords({ source, destination, sourcePort, destinationPort, icmp }: Tuple): string {
  const words = [`src=${source}`, `dst=${destination}`]
  if (icmp !== null) words.push(`type=${icmp.type}`, `code=${icmp.code}`, `id=${icmp.id}`)
  else if (sourcePort !== null) words.push(`sport=${sourcePort}`, `dport=${destinationPort}`)
  return words.join(' ')
}

async function listed(...addresses: string[]): Promise<readonly Connection[]> {
  const [{ items, error, interrupted }] = await ask(host, [connectionsOf(addresses)], NETFILTER)
  expect([error, interrupted]).toEqual([null, false])
  return items
}

const listedWords = async (...addresses: string[]) => (await listed(...addresses)).map(asWords).sort()
const naming = (all: readonly string[], address: string) =>
  all.filter((line) => line.split(' ').some((word) => word === `src=${address}` || word === `dst=${address}`))

async function remove(connections: readonly Connection[]): Promise<(string | null)[]> {
  const requests = connections.map((connection) => deleteConnection(connection, 'delete connection'))
  return (await ask(host, requests, NETFILTER)).map(({ error }) => error?.code ?? null)
}

test.each([
  ['a workload: pings and flows that it began', '10.128.3.7', 4],
  ['a workload: its flows, and one that reached it through NAT', '10.128.3.9', 3],
  ['an address that only answers come to', '192.0.2.1', 6],
  ['one that stands at either end', '192.0.2.2', 6],
  ['one that only a ping went to', '10.128.3.1', 1],
  ['one that nobody talked to', '10.128.3.8', 0],
])('the connections of %s', async (_, address, count) => {
  const expected = naming(await tracked(), address)
  expect(await listedWords(address)).toEqual(expected)
  expect(expected).toHaveLength(count)
})

test('protocols, and marks', async () => {
  const seven = await listed('10.128.3.7')
  expect(seven.map(({ original }) => original.protocol).sort((a, b) => a - b)).toEqual([1, 1, 6, 17])
  expect(seven.every(({ mark }) => mark === 0)).toBe(true)
  const marked = (await listed('10.128.3.9')).filter(({ mark }) => mark === 0x2000000)
  expect(marked.map(asWords)).toEqual(await tracked('--mark', '0x2000000'))
  expect(marked.map(({ original }) => original.sourcePort)).toEqual([4009])
})

test('several addresses in one list, each connection once', { tags: 'guest' }, async () => {
  const all = await tracked()
  const either = all.filter((line) => [...naming(all, '10.128.3.7'), ...naming(all, '10.128.3.9')].includes(line))
  expect(await listedWords('10.128.3.7', '10.128.3.9', '10.128.3.8')).toEqual(either)
  expect(either).toHaveLength(7)
})

test('how many there are, of any address', async () => {
  const [{ items, error }] = await ask(host, [connectionCount()], NETFILTER)
  expect(error).toBeNull()
  expect(items).toEqual([Number(await node.run('conntrack -C'))])
})

test('deleting those of one address leaves all others', { tags: 'guest' }, async () => {
  const before = await tracked()
  const own = await listed('10.128.3.9')
  expect(await remove(own)).toEqual([null, null, null])
  expect(await tracked()).toEqual(before.filter((line) => !own.map(asWords).includes(line)))
  expect(await tracked()).toHaveLength(before.length - 3)
  expect(await listed('10.128.3.9')).toEqual([])
  expect(await remove(own)).toEqual(['ENOENT', 'ENOENT', 'ENOENT'])
})

test('one of the same addresses and ports, but of another id, stays', async () => {
  const before = await tracked()
  const others = (await listed('10.128.3.9')).map((connection) => ({ ...connection, id: (connection.id ^ 1) >>> 0 }))
  expect(await remove(others)).toEqual(['ENOENT', 'ENOENT', 'ENOENT'])
  expect(await tracked()).toEqual(before)
})

test('zones: the same flow in several, each deleted by itself', async () => {
  const there = '-p tcp -s 10.128.3.20 -d 192.0.2.9 --sport 1000 --dport 80'
  const flow = `${there} --state ESTABLISHED -t 100`
  // Its answers are in no zone, where the first one's are already.
  const back = '-r 192.0.2.9 -q 10.128.3.20 --reply-port-src 80 --reply-port-dst 1001'
  await node.run(`
    conntrack -I ${flow} 2>&1
    conntrack -I ${flow} --zone 5 2>&1
    conntrack -I ${flow} ${back} --orig-zone 6 2>&1
    conntrack -I ${flow} --zone 7 2>&1
  `)
  let left = await tracked()
  const four = await listed('10.128.3.20')
  expect(four.map(({ zone }) => zone).sort()).toEqual([0, 0, 5, 7])
  for (const connection of four) {
    expect(await remove([connection])).toEqual([null])
    left = left.filter((line) => !line.endsWith(` id=${connection.id}`))
    expect(await tracked()).toEqual(left)
  }
})

test('a namespace that tracks nothing lists nothing', async () => {
  await using idle = await TestNode.create()
  const other = await openHost({ netns: idle.netnsPath })
  const [count, list] = await ask(other, [connectionCount(), connectionsOf(['10.128.3.7'])], NETFILTER)
  expect([count.items, count.error]).toEqual([[0], null])
  expect([list.items, list.error]).toEqual([[], null])
  other.close()
})
