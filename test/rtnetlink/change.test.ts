/**
 * What is made here against what ip(8) makes: the same commands on one node, the same requests on another, and then
 * whatever ip shows of either.
 */
import { closeSync, openSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { addAddress } from '../../src/kernel/rtnetlink/address.js'
import { changeLink, createBridge, createVeth, linkByName } from '../../src/kernel/rtnetlink/link.js'
import { addProxy } from '../../src/kernel/rtnetlink/neighbour.js'
import { replaceRoute } from '../../src/kernel/rtnetlink/route.js'
import { addRule, allRules, type NewRule, type Rule, wholeRule } from '../../src/kernel/rtnetlink/rule.js'
import { ruleInTheWay } from '../../src/kernel/rtnetlink/rule-match.js'
import { TestNode } from '../support/node.js'

const GONE = 4242

/** A bridge that is up, a namespace beside it, and somebody else's bridge: the same indexes on both nodes. */
const NODE = `
  ip netns add api
  ip link add yah0 type bridge
  ip link set yah0 up
  ip link add other type bridge
`

/** By ip. */
let theirs: TestNode
/** By requests. */
let ours: TestNode
let host: Host
let namespaceFd: number
let yah0: number

beforeAll(async () => {
  ;[theirs, ours] = await Promise.all([TestNode.create(), TestNode.create()])
  await Promise.all([theirs.run(NODE), ours.run(NODE)])
  host = await openHost({ netns: ours.netnsPath })
  namespaceFd = openSync(`/proc/${ours.pid}/root/run/netns/api`, 'r')
  yah0 = await indexOf('yah0')
})

afterAll(async () => {
  host?.close()
  if (namespaceFd !== undefined) closeSync(namespaceFd)
  await theirs?.[Symbol.asyncDispose]()
  await ours?.[Symbol.asyncDispose]()
})

/** Null, or the kernel's refusal. */
async function refusal(request: Request<never>) {
  const [{ error }] = await ask(host, [request])
  return error
}

async function done(request: Request<never>): Promise<void> {
  const error = await refusal(request)
  if (error !== null) throw error
}

async function indexOf(name: string): Promise<number> {
  const [{ items }] = await ask(host, [linkByName(name)])
  if (items[0] === undefined) throw new Error(`no ${name}`)
  return items[0].index
}

/**
 * What no two links have in common: hardware addresses, what the bridge makes of them, clocks; and the operational
 * state, for which the kernel looks up a peer's index here that counts in another namespace.
 */
const OWN = /^(address|ifindex|link_index|.*_timer|bridge_id|root_id|designated_.*|port_(no|id)|operstate)$/

/** What ip says on both nodes; the same, but for those. A carrier comes and goes a moment after the change. */
async function bothShow(command: string): Promise<unknown[]> {
  const show = async (node: TestNode): Promise<unknown[]> =>
    JSON.parse(await node.run(`ip -d -j ${command}`), (key, value) => (OWN.test(key) ? undefined : value))
  for (let tries = 0; ; tries++) {
    const [shown, expected] = await Promise.all([show(ours), show(theirs)])
    if (tries < 20 && !isDeepStrictEqual(shown, expected)) {
      await setTimeout(100)
      continue
    }
    expect(shown).toEqual(expected)
    return shown
  }
}

describe('links', () => {
  test('a bridge', async () => {
    await theirs.run('ip link add yah0-6jgfqfdnu6 type bridge')
    await done(createBridge('yah0-6jgfqfdnu6', 'create bridge'))
    expect(await bothShow('link show dev yah0-6jgfqfdnu6')).toMatchObject([
      { flags: ['BROADCAST', 'MULTICAST'], linkinfo: { info_kind: 'bridge' } },
    ])
  })

  test('a name that is taken, by an alternative name too, or too long', async () => {
    await ours.run('ip link property add dev yah0 altname also-yah0')
    for (const name of ['yah0', 'also-yah0']) {
      expect(await refusal(createBridge(name, 'create bridge'))).toMatchObject({
        operation: 'create bridge',
        code: 'EEXIST',
      })
    }
    expect(await refusal(createBridge('a-name-of-16-byt', 'create bridge'))).toMatchObject({ code: 'ERANGE' })
    await ours.run('ip link property del dev yah0 altname also-yah0')
  })

  test('a pair in one request: on its bridge and down, the peer in its namespace with its own name', async () => {
    await theirs.run(`
      ip link add veth7 type veth peer name vethc7
      ip link set veth7 master yah0
      ip link set vethc7 netns api
      ip -n api link set vethc7 name eth0
    `)
    await done(createVeth({ name: 'veth7', master: yah0, peer: { name: 'eth0', namespaceFd } }, 'create veth7'))
    expect(await bothShow('link show dev veth7')).toMatchObject([
      { master: 'yah0', flags: ['BROADCAST', 'MULTICAST'], mtu: 1500 },
    ])
    expect(await bothShow('-n api link show dev eth0')).toMatchObject([
      { flags: ['BROADCAST', 'MULTICAST'], link_netnsid: 0 },
    ])
    // It carries packets once both ends are up.
    for (const node of [theirs, ours]) await node.run('ip link set veth7 up; ip -n api link set eth0 up')
    expect(await bothShow('link show dev veth7')).toMatchObject([{ flags: expect.arrayContaining(['LOWER_UP']) }])
    await Promise.all([theirs.run('ip link del veth7'), ours.run('ip link del veth7')])
  })

  test('an MTU is that of both ends', async () => {
    await theirs.run('ip link add veth8 mtu 1400 master yah0 type veth peer name eth0 mtu 1400 netns api')
    const peer = { name: 'eth0', namespaceFd }
    await done(createVeth({ name: 'veth8', master: yah0, peer, mtu: 1400 }, 'create veth8'))
    expect(await bothShow('link show dev veth8')).toMatchObject([{ mtu: 1400 }])
    expect(await bothShow('-n api link show dev eth0')).toMatchObject([{ mtu: 1400 }])
  })

  test('a pair that cannot be: neither end stays', async () => {
    const before = await ours.run('ip -o link; ip -n api -o link')
    const veth = (name: string, master: number, peer: { name: string; namespaceFd: number }, mtu = 1500) =>
      refusal(createVeth({ name, master, peer, mtu }, 'create'))
    const free = { name: 'eth1', namespaceFd }
    expect(await veth('veth8', yah0, free)).toMatchObject({ code: 'EEXIST' })
    expect(await veth('veth9', yah0, { name: 'eth0', namespaceFd })).toMatchObject({ code: 'EEXIST' })
    expect(await veth('veth9', GONE, free)).toMatchObject({ code: 'EINVAL' })
    expect(await veth('veth9', 1, free)).toMatchObject({ code: 'EOPNOTSUPP' })
    expect(await veth('veth9', yah0, { name: 'eth1', namespaceFd: 99_999 })).toMatchObject({ code: 'EBADF' })
    expect(await veth('veth9', yah0, free, 1)).toMatchObject({ code: 'EINVAL' })
    expect(await ours.run('ip -o link; ip -n api -o link')).toBe(before)
    expect(() => createVeth({ name: 'veth9', master: 0, peer: free }, 'create')).toThrow(RangeError)
  })

  test('up and down, master, name, MTU: each alone, and the rest stays', async () => {
    const index = await indexOf('veth8')
    for (const [change, command] of [
      [{ up: true }, 'up'],
      [{ mtu: 1300 }, 'mtu 1300'],
      [{ master: 0 }, 'nomaster'],
      [{ up: false }, 'down'],
      [{ master: await indexOf('other') }, 'master other'],
    ] as const) {
      await theirs.run(`ip link set veth8 ${command}`)
      await done(changeLink(index, change, 'change veth8'))
      await bothShow('link show dev veth8')
    }
    await theirs.run('ip link set veth8 name veth10')
    await done(changeLink(index, { name: 'veth10' }, 'rename veth8'))
    expect(await bothShow('link show dev veth10')).toMatchObject([
      { mtu: 1300, master: 'other', flags: ['BROADCAST', 'MULTICAST'] },
    ])
    expect(await indexOf('veth10')).toBe(index)
    await Promise.all([theirs.run('ip link del veth10'), ours.run('ip link del veth10')])
  })

  test('a change that is refused', async () => {
    expect(await refusal(changeLink(GONE, { up: true }, 'up'))).toMatchObject({ operation: 'up', code: 'ENODEV' })
    // Older kernels rename no link that is up.
    const other = await indexOf('other')
    expect(await refusal(changeLink(other, { name: 'yah0' }, 'rename'))).toMatchObject({ code: 'EEXIST' })
    expect(await refusal(changeLink(yah0, { mtu: 1 }, 'mtu'))).toMatchObject({
      code: 'EINVAL',
      kernelMessage: 'mtu less than device minimum',
    })
    expect(() => changeLink(0, { up: true }, 'up')).toThrow(RangeError)
  })
})

describe('addresses', () => {
  test('of a network, of one address', async () => {
    await theirs.run(`
      ip addr add 10.128.3.1/24 dev yah0
      ip addr add 10.128.4.1/32 dev yah0
    `)
    await done(addAddress({ index: yah0, address: '10.128.3.1', prefix: 24 }, 'add'))
    await done(addAddress({ index: yah0, address: '10.128.4.1', prefix: 32 }, 'add'))
    const [link] = (await bothShow('-4 addr show dev yah0')) as { addr_info: { local: string; broadcast?: string }[] }[]
    expect(link?.addr_info.map(({ local, broadcast }) => [local, broadcast])).toEqual([
      ['10.128.3.1', undefined],
      ['10.128.4.1', undefined],
    ])
    await bothShow('-4 route show table all')
  })

  test('one that is there already; a link that is gone', async () => {
    const address = { index: yah0, address: '10.128.4.1', prefix: 32 }
    expect(await refusal(addAddress(address, 'add'))).toMatchObject({ operation: 'add', code: 'EEXIST' })
    expect(await refusal(addAddress({ ...address, index: GONE }, 'add'))).toMatchObject({ code: 'ENODEV' })
  })
})

describe('routes', () => {
  test('a host route, and a default route by a gateway', async () => {
    for (const node of [theirs, ours]) await node.run('ip addr del 10.128.3.1/24 dev yah0')
    await theirs.run('ip route replace 10.128.3.9/32 dev yah0; ip route add default via 10.128.3.9')
    await done(replaceRoute({ destination: '10.128.3.9', prefix: 32, oif: yah0 }, 'add'))
    await done(replaceRoute({ destination: '0.0.0.0', prefix: 0, gateway: '10.128.3.9' }, 'add'))
    expect(await bothShow('route show')).toMatchObject([
      { dst: 'default', gateway: '10.128.3.9', dev: 'yah0', protocol: 'boot', scope: 'global' },
      { dst: '10.128.3.9', dev: 'yah0', protocol: 'boot', scope: 'link' },
    ])
  })

  test('replacing takes the place of whatever goes to that destination', async () => {
    for (const node of [theirs, ours]) await node.run('ip route add 10.128.3.20/32 via 10.128.3.9 proto static')
    await theirs.run('ip route replace 10.128.3.20/32 dev yah0')
    await done(replaceRoute({ destination: '10.128.3.20', prefix: 32, oif: yah0 }, 'replace'))
    const shown = (await bothShow('route show 10.128.3.20')) as { gateway?: string }[]
    expect(shown.map(({ gateway }) => gateway)).toEqual([undefined])
  })

  test('again, the same: nothing changes', async () => {
    const before = await ours.run('ip -d route show table all')
    await done(replaceRoute({ destination: '10.128.3.9', prefix: 32, oif: yah0 }, 'replace'))
    expect(await ours.run('ip -d route show table all')).toBe(before)
  })

  test('refused', async () => {
    const route = { destination: '10.128.3.30', prefix: 32 }
    const other = await indexOf('other')
    expect(await refusal(replaceRoute({ ...route, oif: GONE }, 'add'))).toMatchObject({
      operation: 'add',
      code: 'ENODEV',
    })
    expect(await refusal(replaceRoute({ ...route, oif: other }, 'add'))).toMatchObject({
      code: 'ENETDOWN',
      kernelMessage: 'Device for nexthop is not up',
    })
    await ours.run('ip route del default')
    expect(await refusal(replaceRoute({ ...route, gateway: '192.0.2.77' }, 'add'))).toMatchObject({
      code: 'ENETUNREACH',
      kernelMessage: 'Nexthop has invalid gateway',
    })
    expect(await refusal(replaceRoute({ destination: '10.128.3.30', prefix: 24, oif: yah0 }, 'add'))).toMatchObject({
      code: 'EINVAL',
      kernelMessage: 'Invalid prefix for given prefix length',
    })
  })
})

describe('rules', () => {
  /** The rules as the kernel dumps them, byte by byte. */
  const dump = async (of: Host): Promise<string[]> => {
    const dumped: string[] = []
    const [{ error }] = await ask(of, [
      { ...allRules(), decode: ({ bytes, payload }) => void dumped.push(bytes.toString('hex', payload)) },
    ])
    expect(error).toBeNull()
    return dumped
  }
  const prohibit: NewRule = {
    priority: 1200,
    action: 'prohibit',
    iif: 'yah0',
    destination: '10.128.3.9',
    destinationPrefix: 32,
    mask: 0x2000000,
  }
  const rules = async (): Promise<readonly Rule[]> => (await ask(host, [allRules()]))[0].items

  test('are, byte by byte, those of ip', async () => {
    await theirs.run(`
      ip rule add priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit
      ip rule add priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
      ip rule add priority 1204 iif yah0-91auqknbeu to 100.64.0.0/10 fwmark 0/0x3000000 prohibit
      ip rule add not priority 1300 from 10.0.0.0/8 fwmark 0x10/0xff oif other ipproto tcp dport 80-90 protocol static lookup 300
    `)
    const bridge = { action: 'prohibit', iif: 'yah0-91auqknbeu' } as const
    for (const rule of [
      prohibit,
      { ...bridge, priority: 1202, destination: '10.128.3.0', destinationPrefix: 24, mask: 0x2000000 },
      { ...bridge, priority: 1204, destination: '100.64.0.0', destinationPrefix: 10, mask: 0x3000000 },
      {
        priority: 1300,
        action: 'table',
        table: 300,
        invert: true,
        source: '10.0.0.0',
        sourcePrefix: 8,
        mark: 0x10,
        mask: 0xff,
        oif: 'other',
        ipProtocol: 6,
        destinationPorts: { start: 80, end: 90 },
        protocol: 4,
      },
    ] as const) {
      await done(addRule(rule, 'add rule'))
    }
    const other = await openHost({ netns: theirs.netnsPath })
    const made = await dump(host)
    expect(made).toEqual(await dump(other))
    expect(made).toHaveLength(7)
    other.close()
    expect(await bothShow('rule')).toHaveLength(7)
    expect((await rules())[1]).toEqual(wholeRule(prohibit))
  })

  test('EEXIST for the same, and for what the kernel takes for the same', async () => {
    expect(await refusal(addRule(prohibit, 'add rule'))).toMatchObject({ operation: 'add rule', code: 'EEXIST' })
    expect(ruleInTheWay(await rules(), wholeRule(prohibit))).toEqual(wholeRule(prohibit))
  })

  /** Somebody else's rule, in the words of ip, and whether ours can be added beside it. */
  test.each([
    ['not priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', false],
    ['priority 1200 iif yah0 from 10.0.0.0/8 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', false],
    ['priority 1200 iif yah0 to 10.128.3.9/32 tos 0x10 fwmark 0/0x2000000 prohibit', false],
    ['priority 1200 iif yah0 to 10.128.3.8/32 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/31 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 iif yah0 fwmark 0/0x2000000 prohibit', true],
    ['priority 1201 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 iif other to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 iif yah0 oif other to 10.128.3.9/32 fwmark 0/0x2000000 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0x2000000/0x2000000 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 blackhole', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 protocol static prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 ipproto udp prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 sport 53 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 dport 53 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 uidrange 0-10 prohibit', true],
    ['priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 tun_id 5 prohibit', true],
  ])('beside %s: %s', async (words, isFree) => {
    await ours.run(`ip rule flush; ip rule add ${words}`)
    const [standing] = await rules().then((all) => all.filter(({ priority }) => priority !== 0))
    const inTheWay = ruleInTheWay(await rules(), wholeRule(prohibit))
    expect((await refusal(addRule(prohibit, 'add rule')))?.code).toBe(isFree ? undefined : 'EEXIST')
    expect(inTheWay).toEqual(isFree ? undefined : standing)
  })
})

describe('proxy neighbours', () => {
  test('as ip makes them; again, the same', async () => {
    await theirs.run('ip neigh replace proxy 10.128.3.9 dev yah0')
    await done(addProxy({ index: yah0, address: '10.128.3.9' }, 'add proxy'))
    const shown = await bothShow('neigh show proxy')
    expect(shown).toMatchObject([{ dst: '10.128.3.9', dev: 'yah0' }])
    await done(addProxy({ index: yah0, address: '10.128.3.9' }, 'add proxy'))
    expect(await bothShow('neigh show proxy')).toEqual(shown)
  })

  test('on a link that is gone', async () => {
    const gone = { index: GONE, address: '10.128.3.9' }
    expect(await refusal(addProxy(gone, 'add proxy'))).toMatchObject({ operation: 'add proxy', code: 'ENODEV' })
    expect(() => addProxy({ index: 0, address: '10.128.3.9' }, 'add proxy')).toThrow(RangeError)
  })
})
