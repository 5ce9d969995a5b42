/**
 * Against the kernel of this machine, each in a network namespace of its own; ip(8) says what should come out.
 *
 * @module-tag guest
 */
import { closeSync, openSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { addressesOf } from '../../src/kernel/rtnetlink/address.js'
import { allLinks, deleteLink, linkByIndex, linkByName, linksOfKind, portsOf } from '../../src/kernel/rtnetlink/link.js'
import { namespaceId } from '../../src/kernel/rtnetlink/namespace-id.js'
import { deleteNeighbour, deleteProxy, neighboursOf, proxies } from '../../src/kernel/rtnetlink/neighbour.js'
import { routes } from '../../src/kernel/rtnetlink/route.js'
import { allRules } from '../../src/kernel/rtnetlink/rule.js'
import { TestNode } from '../support/node.js'

const GONE = 4242

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await node.run(`
    ip netns add peer
    ip link add br-a type bridge
    ip link add br-b type bridge
    ip link add veth7 mtu 1400 type veth peer name eth0 netns peer
    ip link set veth7 master br-a up
    ip link add ifb7 type ifb
    ip link property add dev ifb7 altname another-name
    ip link set br-a up
    ip link set br-b up
    ip addr add 10.128.3.1/32 dev br-a
    ip addr add 10.128.3.1/24 dev br-b
    ip neigh add 10.128.3.7 lladdr 02:00:00:00:00:07 dev br-a nud permanent
    ip neigh add proxy 10.128.3.9 dev br-a
    ip neigh add proxy 10.128.3.9 dev br-b
  `)
  host = await openHost({ netns: node.netnsPath })
})

afterAll(async () => {
  host?.close()
  await node?.[Symbol.asyncDispose]()
})

/** All that one request lists. */
async function listed<T>(request: Request<T>): Promise<readonly T[]> {
  const [{ items, error, interrupted }] = await ask(host, [request])
  if (error !== null) throw error
  expect(interrupted).toBe(false)
  return items
}

async function refusal(request: Request<unknown>): Promise<string | undefined> {
  const [{ items, error }] = await ask(host, [request])
  expect(items).toEqual([])
  return error?.code
}

interface IpLink {
  readonly ifindex: number
  readonly ifname: string
  readonly mtu: number
  readonly master?: string
  readonly flags: readonly string[]
  readonly altnames?: readonly string[]
  readonly linkinfo?: { readonly info_kind?: string }
}

const json = async <T>(command: string) => JSON.parse(await node.run(`ip -d -j ${command}`)) as T

async function indexOf(name: string): Promise<number> {
  const [link] = await json<IpLink[]>(`link show dev ${name}`)
  if (link === undefined) throw new Error(`no ${name}`)
  return link.ifindex
}

describe('links', () => {
  test('all of them, as ip lists them', async () => {
    const said = await json<IpLink[]>('link')
    const names = new Map(said.map(({ ifindex, ifname }) => [ifindex, ifname]))
    const seen = (await listed(allLinks())).map((link) => ({
      ifindex: link.index,
      ifname: link.name,
      mtu: link.mtu,
      master: names.get(link.master),
      up: link.up,
      altnames: link.altNames,
      kind: link.kind,
    }))
    expect(seen).toEqual(
      said.map(({ ifindex, ifname, mtu, master, flags, altnames = [], linkinfo }) => ({
        ifindex,
        ifname,
        mtu,
        master,
        up: flags.includes('UP'),
        altnames,
        kind: linkinfo?.info_kind ?? '',
      })),
    )
    expect(seen.map(({ ifname }) => ifname)).toEqual(['lo', 'br-a', 'br-b', 'veth7', 'ifb7'])
  })

  test('of a kind; a kind that the kernel does not know lists nothing', async () => {
    expect((await listed(linksOfKind('bridge'))).map(({ name }) => name)).toEqual(['br-a', 'br-b'])
    expect((await listed(linksOfKind('veth'))).map(({ name }) => name)).toEqual(['veth7'])
    expect(await listed(linksOfKind('nosuchkind'))).toEqual([])
  })

  test('enslaved to a link; to one that is gone, nothing', async () => {
    expect((await listed(portsOf(await indexOf('br-a')))).map(({ name }) => name)).toEqual(['veth7'])
    expect(await listed(portsOf(await indexOf('br-b')))).toEqual([])
    expect(await listed(portsOf(GONE))).toEqual([])
  })

  test('by name, by an alternative name, by index', async () => {
    const index = await indexOf('ifb7')
    for (const request of [linkByName('ifb7'), linkByName('another-name'), linkByIndex(index)]) {
      expect(await listed(request)).toMatchObject([{ index, name: 'ifb7', altNames: ['another-name'] }])
    }
    expect(await refusal(linkByName('nosuch'))).toBe('ENODEV')
    expect(await refusal(linkByIndex(GONE))).toBe('ENODEV')
  })

  test('the peer’s namespace has the id that the kernel gives for a descriptor of it', async () => {
    const fd = openSync(`/proc/${node.pid}/root/run/netns/peer`, 'r')
    const own = openSync(node.netnsPath, 'r')
    try {
      const [veth] = await listed(linkByName('veth7'))
      expect(await listed(namespaceId(fd))).toEqual([veth?.peerNamespace])
      expect(veth?.peerNamespace).toBeGreaterThanOrEqual(0)
      expect(await listed(namespaceId(own))).toEqual([-1])
      const [peer] = JSON.parse(await node.run('ip -n peer -j link show dev eth0')) as IpLink[]
      expect(veth?.peerIndex).toBe(peer?.ifindex)
    } finally {
      closeSync(fd)
      closeSync(own)
    }
  })

  test('deleting takes the link of that index alone', async () => {
    await node.run('ip link add br-x type bridge')
    const before = (await listed(allLinks())).map(({ name }) => name)
    const index = await indexOf('br-x')
    expect(await listed(deleteLink(index, 'delete link br-x'))).toEqual([])
    expect((await listed(allLinks())).map(({ name }) => name)).toEqual(before.filter((name) => name !== 'br-x'))
    expect(await refusal(deleteLink(index, 'delete link br-x'))).toBe('ENODEV')
  })

  test('a link that cannot be deleted: the kernel’s errno', async () => {
    const [{ error }] = await ask(host, [deleteLink(1, 'delete link lo')])
    expect(error).toMatchObject({ name: 'NetlinkError', operation: 'delete link lo', code: 'EOPNOTSUPP' })
  })
})

describe('addresses', () => {
  test('of one link', async () => {
    const b = await indexOf('br-b')
    const shown = async (request: ReturnType<typeof addressesOf>) =>
      (await listed(request)).map(({ index, address, prefix }) => `${index} ${address}/${prefix}`)
    expect(await shown(addressesOf(b))).toEqual([`${b} 10.128.3.1/24`])
    expect(await shown(addressesOf(await indexOf('veth7')))).toEqual([])
  })

  test('of a link that is gone: ENODEV, at the end of the list', async () => {
    expect(await refusal(addressesOf(GONE))).toBe('ENODEV')
  })
})

describe('neighbours', () => {
  const shown = async (request: ReturnType<typeof proxies>) =>
    (await listed(request)).map(({ index, address, state }) => `${address} dev ${index} ${state}`).sort()

  test('proxy entries and neighbours never come in one list', async () => {
    const [a, b] = [await indexOf('br-a'), await indexOf('br-b')]
    // Not earlier: a bridge that comes up without a carrier loses it a while later.
    await node.run('ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev br-a nud stale')
    expect(await shown(proxies())).toEqual([`10.128.3.9 dev ${a} 0`, `10.128.3.9 dev ${b} 0`])
    expect(await shown(neighboursOf(a))).toEqual(
      expect.arrayContaining([`10.128.3.7 dev ${a} 128`, `10.128.3.8 dev ${a} 4`]),
    )
    expect((await listed(neighboursOf(a))).every(({ proxy, index }) => !proxy && index === a)).toBe(true)
    expect(await shown(neighboursOf(GONE))).toEqual([])
  })

  test('deleting takes the entry of that link alone', async () => {
    const index = await indexOf('br-a')
    await node.run('ip neigh add proxy 10.128.3.20 dev br-a; ip neigh add proxy 10.128.3.20 dev br-b')
    expect(await refusal(deleteProxy({ index, address: '10.128.3.20' }))).toBeUndefined()
    expect(await node.run('ip neigh show proxy to 10.128.3.20')).toMatch(/^10\.128\.3\.20 dev br-b +proxy *\n$/)
    expect(await refusal(deleteProxy({ index, address: '10.128.3.20' }))).toBe('ENOENT')
    expect(await refusal(deleteProxy({ index: GONE, address: '10.128.3.20' }))).toBe('ENODEV')

    await node.run('ip neigh add 10.128.3.21 lladdr 02:00:00:00:00:21 dev br-a nud permanent')
    expect(await refusal(deleteNeighbour({ index, address: '10.128.3.21' }))).toBeUndefined()
    expect(await refusal(deleteNeighbour({ index, address: '10.128.3.21' }))).toBe('ENOENT')
    await node.run('ip neigh del proxy 10.128.3.20 dev br-b')
  })
})

describe('routes', () => {
  test('of a table, of a type, out of a link', async () => {
    const device = await indexOf('br-a')
    await node.run('ip route add 10.128.3.7/32 dev br-a; ip route add prohibit 192.0.2.0/24')
    const shown = async (wanted: Parameters<typeof routes>[0]) =>
      (await listed(routes(wanted))).map(({ destination, prefix, type }) => `${type} ${destination}/${prefix}`)
    expect(await shown({ table: 254 })).toEqual(['1 10.128.3.0/24', '1 10.128.3.7/32', '8 192.0.2.0/24'])
    expect(await shown({ table: 254, type: 1 })).toEqual(['1 10.128.3.0/24', '1 10.128.3.7/32'])
    expect(await shown({ table: 254, type: 1, devices: [device] })).toEqual(['1 10.128.3.7/32'])
    await node.run('ip route del 10.128.3.7/32 dev br-a; ip route del prohibit 192.0.2.0/24')
  })

  test('of a table that does not exist: ENOENT; out of a link that is gone: ENODEV', async () => {
    const [{ items, error }] = await ask(host, [routes({ table: 7777 })])
    expect(items).toEqual([])
    expect(error).toMatchObject({ code: 'ENOENT', kernelMessage: expect.stringContaining('table does not exist') })
    expect(await refusal(routes({ table: 254, devices: [GONE] }))).toBe('ENODEV')
  })
})

test('rules, in the order of ip', async () => {
  const said = await json<{ priority: number }[]>('rule')
  expect((await listed(allRules())).map(({ priority }) => ({ priority }))).toEqual(
    said.map(({ priority }) => ({ priority })),
  )
})

test('a batch of lists, objects and changes: each gets its own answer', async () => {
  await node.run('ip link add br-y type bridge')
  const index = await indexOf('br-y')
  const [links, missing, deleted, rules, again] = await ask(host, [
    linksOfKind('bridge'),
    linkByName('nosuch'),
    deleteLink(index, 'delete link br-y'),
    allRules(),
    deleteLink(index, 'delete link br-y'),
  ])
  expect(links.items.map(({ name }) => name)).toEqual(['br-a', 'br-b', 'br-y'])
  expect(missing.error?.code).toBe('ENODEV')
  expect(deleted.error).toBeNull()
  expect(rules.items.length).toBeGreaterThanOrEqual(3)
  expect(again.error?.code).toBe('ENODEV')
})
