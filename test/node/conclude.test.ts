/** What is live, departed, foreign, dead, detached, misplaced: docs/node-state.md and the table of docs/sweep.md, by hand. */
import { describe, expect, test } from 'vitest'
import { type Conclusion, conclude, settled } from '../../src/node/conclude.js'
import type { LinkReading } from '../../src/node/links.js'
import { ContainerNet } from '../../src/node/net.js'
import type { NodeView } from '../../src/node/view.js'
import {
  ACME,
  address,
  addressLines,
  admitLines,
  BILLING_MARK,
  bridge,
  bridgeLines,
  bridgeRules,
  confirmed,
  filter,
  GLOBEX,
  link,
  NOBODY,
  prohibit,
  proxy,
  reading,
  route,
  SUBNET,
  saved,
  veth,
  view,
} from './views.js'

const node = bridge('yah0', 3)
const of = (view: NodeView): Conclusion => conclude(view, SUBNET)
const names = (bridges: Conclusion['dead']): string[] => bridges.map(({ link }) => link.name)

describe('live', () => {
  const live = (...args: Parameters<typeof reading>) => [...of(view(reading(...args))).live.keys()].sort()

  test('a host veth on a tenant bridge, on the node bridge, up or down', () => {
    const on = reading([node, bridge(ACME, 4, [7])])
    const veths = [...on.veths, veth(2, 3, { up: false }), veth(254, 3)]
    expect(live(on.bridges, { veths })).toEqual(['10.128.3.2', '10.128.3.254', '10.128.3.7'])
  })

  test('one that only the list of ports has, or only the question for its name', () => {
    expect(live([bridge(ACME, 4, [7])], { veths: [] })).toEqual(['10.128.3.7'])
    expect(live([bridge(ACME, 4, [], { ports: [] })], { veths: [veth(7, 4)] })).toEqual(['10.128.3.7'])
  })

  test('one on nothing, on docker’s bridge, or of another kind is not', () => {
    expect(live([node, bridge(ACME, 4)], { veths: [veth(7, 0), veth(8, 99)] })).toEqual([])
    const ports = [link('veth9', 1009, { kind: 'macvlan', master: 4 })]
    expect(live([bridge(ACME, 4, [], { ports })], { veths: [] })).toEqual([])
  })
})

describe('departed', () => {
  const acme = reading([node, bridge(ACME, 4, [7])])
  const departed = (more: Partial<NodeView>) => of(view(acme, more)).departed

  test('an address that any one thing names', () => {
    expect(departed({ routes: [route('10.128.3.9', 4)] })).toEqual(['10.128.3.9'])
    expect(departed({ rules: [prohibit(1200, 'yah0', '10.128.3.9/32')] })).toEqual(['10.128.3.9'])
    expect(departed({ proxies: [proxy('10.128.3.9', 4)] })).toEqual(['10.128.3.9'])
    expect(departed({ filters: [filter(4, '10.128.3.7', '10.128.3.9')] })).toEqual(['10.128.3.9'])
    expect(departed({ filters: [filter(4, '10.128.3.9', '10.128.3.7')] })).toEqual(['10.128.3.9'])
    for (const chain of ['yah-id', 'yah-gr']) {
      const iptables = new Map([['nft' as const, saved({ mangle: [`:${chain}-10.128.3.9 - [0:0]`] })]])
      expect(departed({ iptables })).toEqual(['10.128.3.9'])
    }
  })

  test('not one that is live, and not one that no workload has', () => {
    expect(departed({ routes: [route('10.128.3.7', 4), route('10.128.4.9', 4)] })).toEqual([])
    for (const octet of [0, 1, 255]) {
      expect(departed({ proxies: [proxy(`10.128.3.${octet}`, 4)] }), `proxy of .${octet}`).toEqual([])
      expect(departed({ filters: [filter(4, '10.128.3.7', `10.128.3.${octet}`)] }), `filter of .${octet}`).toEqual([])
    }
  })

  test('in the order of the addresses, each once', () => {
    const routes = [100, 9, 20, 9].map((octet) => route(`10.128.3.${octet}`, 4))
    expect(departed({ routes, proxies: [proxy('10.128.3.20', 4)] })).toEqual([
      '10.128.3.9',
      '10.128.3.20',
      '10.128.3.100',
    ])
  })
})

describe('foreign and dead', () => {
  test('a tenant bridge is occupied by its veth and dead without it; the node bridge never is dead', () => {
    const conclusion = of(view(reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5)])))
    expect(names(conclusion.dead)).toEqual([GLOBEX])
    expect(conclusion.foreign.size).toBe(0)
  })

  test('half-made ones are dead too: without its address, and down', () => {
    const half = bridge(GLOBEX, 5, [], { addresses: [], link: link(GLOBEX, 5, { up: false }) })
    expect(names(of(view(reading([half]))).dead)).toEqual([GLOBEX])
  })

  test('a veth that is on it and that the list of ports does not have keeps it', () => {
    expect(names(of(view(reading([bridge(GLOBEX, 5)], { veths: [veth(9, 5)] }))).dead)).toEqual([])
  })

  test.each([
    ['tap0', link('tap0', 50, { kind: 'tun', master: 5 }), 'port tap0'],
    ['a veth of docker’s', link('veth1a2b3c4', 50, { master: 5 }), 'port veth1a2b3c4'],
    ['vethc9', link('vethc9', 50, { master: 5 }), 'port vethc9'],
    ['veth255', link('veth255', 50, { master: 5 }), 'port veth255'],
    ['a dummy called veth9', link('veth9', 50, { kind: 'dummy', master: 5 }), 'port veth9'],
  ])('with %s for a port it is somebody’s', (_, port, reason) => {
    const conclusion = of(view(reading([bridge(GLOBEX, 5, [], { ports: [port] })], { veths: [] })))
    expect([...conclusion.foreign]).toEqual([[GLOBEX, reason]])
    expect(conclusion.dead).toEqual([])
  })

  test('a workload beside somebody’s port is still live', () => {
    const ports = [veth(9, 5), link('tap0', 50, { kind: 'tun', master: 5 })]
    const conclusion = of(view(reading([bridge(GLOBEX, 5, [], { ports })])))
    expect([...conclusion.live.keys()]).toEqual(['10.128.3.9'])
    expect([...conclusion.foreign.keys()]).toEqual([GLOBEX])
  })

  test.each(['10.128.3.1/25', '10.128.3.2/32', '192.168.0.1/24', '10.128.4.1/24'])(
    'with %s it is somebody’s',
    (text) => {
      const addresses = [address('10.128.3.1/32', 5), address(text, 5)]
      const conclusion = of(view(reading([bridge(GLOBEX, 5, [], { addresses })])))
      expect([...conclusion.foreign]).toEqual([[GLOBEX, `address ${text}`]])
      expect(conclusion.dead).toEqual([])
    },
  )

  test('an operator’s second address on the node bridge is nothing', () => {
    const addresses = [address('10.128.3.1/24', 3), address('192.168.0.1/24', 3)]
    expect(of(view(reading([bridge('yah0', 3, [], { addresses })]))).foreign.size).toBe(0)
  })

  test('a host route of somebody’s machine behind a foreign bridge names no address', () => {
    const ports = [link('tap0', 50, { kind: 'tun', master: 5 })]
    const bridges = [node, bridge(GLOBEX, 5, [], { ports })]
    expect(of(view(reading(bridges, { veths: [] }), { routes: [route('10.128.3.9', 5)] })).departed).toEqual([])
  })
})

describe('detached', () => {
  test('a name in a prohibit or a rule that no link bears', () => {
    const iptables = new Map([['nft' as const, saved({ raw: bridgeLines(GLOBEX).raw })]])
    expect(of(view(reading([node]), { rules: bridgeRules(NOBODY), iptables })).detached).toEqual([GLOBEX, NOBODY])
  })

  test('not that of a bridge that is there, dead or not', () => {
    const rules = [...bridgeRules(ACME), ...bridgeRules(GLOBEX)]
    expect(of(view(reading([bridge(ACME, 4, [7]), bridge(GLOBEX, 5)]), { rules })).detached).toEqual([])
  })

  test('not one that a link of another kind bears', () => {
    expect(of(view(reading([node], { taken: new Set([NOBODY]) }), { rules: bridgeRules(NOBODY) })).detached).toEqual([])
  })

  test('the mesh’s reply mark: when no tenant bridge is there or will remain', () => {
    const iptables = new Map([['nft' as const, saved({ mangle: bridgeLines(GLOBEX).mangle.slice(0, 1) })]])
    const detached = (...bridges: ReturnType<typeof bridge>[]) =>
      of(view(reading(bridges), { iptables })).meshMarkDetached
    expect(detached(node)).toBe(true)
    expect(detached(node, bridge(GLOBEX, 5))).toBe(true)
    expect(detached(node, bridge(GLOBEX, 5), bridge(ACME, 4, [7]))).toBe(false)
    const foreign = bridge(ACME, 4, [], { addresses: [address('9.9.9.9/32', 4)] })
    expect(detached(node, bridge(GLOBEX, 5), foreign)).toBe(false)
    expect(of(view(reading([node]))).meshMarkDetached).toBe(false)
    const runs = saved({
      mangle: [...bridgeLines(GLOBEX).mangle.slice(0, 1), ...addressLines('10.128.3.7', 'yah1', 5)],
    })
    const elsewhere = reading([node], { veths: [veth(7, 9)], otherBridges: new Map([[9, 'yah1']]) })
    expect(of(view(elsewhere, { iptables: new Map([['nft', runs]]) })).meshMarkDetached).toBe(false)
  })
})

describe('granted pairs', () => {
  const api = addressLines('10.128.3.7', ACME, 77, admitLines('10.128.3.7', ACME, GLOBEX, BILLING_MARK))
  const billing = addressLines('10.128.3.9', GLOBEX, BILLING_MARK)
  const proxies = [proxy('10.128.3.7', 5), proxy('10.128.3.9', 4)]
  const filters = [filter(5, '10.128.3.9', '10.128.3.7'), filter(4, '10.128.3.7', '10.128.3.9')]
  const iptables = (...lines: readonly string[][]) => new Map([['nft' as const, saved({ mangle: lines.flat() })]])
  const both = reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5, [9])])
  const unwanted = (view: NodeView) => {
    const { unwantedProxies, unwantedFilters } = of(view)
    return [
      ...unwantedProxies.map(({ object, mine }) => `proxy ${mine} on ${object.index}`),
      ...unwantedFilters.map(({ object }) => `filter ${object.handle.toString(16)} on ${object.index}`),
    ]
  }

  test('of two live workloads: all of it stays', () => {
    const node = view(both, { proxies, filters, iptables: iptables(api, billing) })
    expect(of(node).pairs).toEqual([
      { granting: { address: '10.128.3.7', bridge: ACME }, peer: { address: '10.128.3.9', bridge: GLOBEX } },
    ])
    expect(unwanted(node)).toEqual([])
  })

  test.each([
    ['the peer', [bridge(ACME, 4, [7]), bridge(GLOBEX, 5)]],
    ['the granting one', [bridge(ACME, 4), bridge(GLOBEX, 5, [9])]],
    ['both', [bridge(ACME, 4), bridge(GLOBEX, 5)]],
  ])('%s stopped: all of it goes, on both bridges', (_, bridges) => {
    expect(unwanted(view(reading(bridges), { proxies, filters, iptables: iptables(api, billing) }))).toEqual([
      'proxy 10.128.3.7 on 5',
      'proxy 10.128.3.9 on 4',
      'filter 907 on 5',
      'filter 709 on 4',
    ])
  })

  test('nobody admits anybody: it goes although both live', () => {
    const quiet = addressLines('10.128.3.7', ACME, 77)
    expect(unwanted(view(both, { proxies, filters, iptables: iptables(quiet, billing) }))).toHaveLength(4)
  })

  test('the peer has another identity than the one admitted', () => {
    const other = addressLines('10.128.3.9', GLOBEX, BILLING_MARK + 1)
    expect(unwanted(view(both, { proxies, filters, iptables: iptables(api, other) }))).toHaveLength(4)
  })

  test('what sits on the wrong bridge goes', () => {
    const wrong = [proxy('10.128.3.7', 4), proxy('10.128.3.9', 3)]
    expect(unwanted(view(both, { proxies: wrong, iptables: iptables(api, billing) }))).toHaveLength(2)
  })

  test('a peer on the same bridge is no pair', () => {
    const same = addressLines('10.128.3.9', ACME, BILLING_MARK)
    const admits = addressLines('10.128.3.7', ACME, 77, admitLines('10.128.3.7', ACME, ACME, BILLING_MARK))
    const node = view(reading([bridge(ACME, 4, [7, 9])]), { proxies, iptables: iptables(admits, same) })
    expect(of(node).pairs).toEqual([])
  })

  test('a live workload without an identity says nothing: what names it stays', () => {
    for (const lines of [api, billing]) {
      const missing = view(both, { proxies, filters, iptables: iptables(lines) })
      expect(unwanted(missing)).toEqual([])
    }
    expect(unwanted(view(both, { proxies, filters }))).toEqual([])
  })

  test('one that moved between the readings says nothing of either bridge', () => {
    const before = reading([bridge(ACME, 4, [7, 9])])
    const after = reading([bridge(ACME, 4, [7]), bridge(NOBODY, 6, [9])])
    const names7 = view(before, { proxies: [proxy('10.128.3.7', 4)], iptables: iptables(api) })
    expect(unwanted(names7)).toEqual([])
    expect(unwanted(confirmed(names7, after))).toEqual([])
  })

  test('but what names a departed address beside it goes', () => {
    const bridges = [bridge(ACME, 4, [7]), bridge(GLOBEX, 5)]
    expect(unwanted(view(reading(bridges), { proxies, filters }))).toContain('proxy 10.128.3.9 on 4')
  })
})

describe('misplaced: told, and nothing concluded from it', () => {
  test('a host route on another bridge than its own, a prohibit of an address on the node bridge', () => {
    const links = reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5, [9])])
    const veths = [...links.veths, veth(2, 3)]
    const rules = [prohibit(1200, 'yah0', '10.128.3.2/32'), prohibit(1200, 'yah0', '10.128.3.7/32')]
    const routes = [route('10.128.3.7', 5), route('10.128.3.9', 5)]
    const conclusion = of(view({ ...links, veths }, { routes, rules }))
    expect(conclusion.misplaced).toEqual([
      { object: `route 10.128.3.7/32 dev ${GLOBEX}`, reason: `misplaced: 10.128.3.7 is live on ${ACME}` },
      {
        object: 'prohibit priority 1200 to 10.128.3.2/32',
        reason: 'misplaced: 10.128.3.2 is live on the node bridge',
      },
    ])
    expect(conclusion.departed).toEqual([])
  })

  test('a pair of veths that hangs on nothing', () => {
    const loose = veth(9, 0, { peerIndex: 2009, peerNamespace: -1 })
    const peer = link('vethc9', 2009, { peerIndex: 1009, peerNamespace: -1 })
    const misplaced = (other: typeof peer) =>
      of(view(reading([node], { veths: [loose], loosePeers: new Map([[1009, other]]) }))).misplaced
    expect(misplaced(peer)).toEqual([{ object: 'veth veth9', reason: expect.stringContaining('misplaced: ') }])
    expect(misplaced(link('vethc8', 2009))).toEqual([])
  })
})

describe('two readings: what is live in either is live', () => {
  const before = reading([node, bridge(ACME, 4), bridge(GLOBEX, 5)])
  const leftovers = { routes: [route('10.128.3.7', 4), route('10.128.3.9', 5)], rules: bridgeRules(NOBODY) }

  test('nothing changed', () => {
    const conclusion = of(confirmed(view(before, leftovers)))
    expect(names(conclusion.dead)).toEqual([ACME, GLOBEX])
    expect(conclusion.departed).toEqual(['10.128.3.7', '10.128.3.9'])
    expect(conclusion.detached).toEqual([NOBODY])
    expect(conclusion.spared).toEqual([])
  })

  test('a workload came', () => {
    const after = reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5)])
    const conclusion = of(confirmed(view(before, leftovers), after))
    expect(names(conclusion.dead)).toEqual([GLOBEX])
    expect(conclusion.departed).toEqual(['10.128.3.9'])
    expect(conclusion.spared).toEqual([
      { object: 'address 10.128.3.7', reason: 'spared: veth7 came while the node was read' },
    ])
  })

  test('a workload of another node bridge’s runs on just the bridge that its identity chain names', () => {
    const iptables = new Map([['nft', saved({ mangle: addressLines('10.128.3.7', 'yah1', 5) })]] as const)
    const other = (name: string, master = 9) =>
      reading([node], { veths: [veth(7, master)], otherBridges: new Map([[9, name]]) })
    const departed = (first: LinkReading, again = first) =>
      of(confirmed(view(first, { iptables }), again)).departed.length === 1
    expect(departed(other('yah1'))).toBe(false)
    expect(departed(other('yah1'), reading([node]))).toBe(false)
    expect(departed(reading([node]), other('yah1'))).toBe(false)
    expect(departed(other('docker0'))).toBe(true)
    expect(departed(other('yah1', 8))).toBe(true)
    expect(departed(reading([node]))).toBe(true)
  })

  test('a workload went', () => {
    const occupied = reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5)])
    const conclusion = of(confirmed(view(occupied, leftovers), before))
    expect(names(conclusion.dead)).toEqual([GLOBEX])
    expect(conclusion.departed).toEqual(['10.128.3.9'])
  })

  test('a bridge was replaced, renamed, removed, or became somebody’s', () => {
    const others: [string, ReturnType<typeof bridge>[]][] = [
      ['replaced', [bridge(ACME, 40)]],
      ['renamed', [bridge(NOBODY, 4)]],
      ['removed', []],
      ['taken', [bridge(ACME, 4, [], { ports: [link('tap0', 50, { kind: 'tun', master: 4 })] })]],
      ['given an address', [bridge(ACME, 4, [], { addresses: [address('9.9.9.9/8', 4)] })]],
    ]
    for (const [what, bridges] of others) {
      const after = reading([node, bridge(GLOBEX, 5), ...bridges], { veths: [] })
      expect(names(of(confirmed(view(before, leftovers), after)).dead), what).toEqual([GLOBEX])
      const back = of(confirmed(view(after, leftovers), before))
      expect(names(back.dead), `${what}, the other way round`).toEqual([GLOBEX])
    }
  })

  test('a bridge that went in between is not detached yet', () => {
    const after = reading([node, bridge(ACME, 4)])
    expect(of(confirmed(view(before, { rules: bridgeRules(GLOBEX) }), after)).detached).toEqual([])
  })

  test('a name that was taken in either is not detached', () => {
    const taken = reading([node], { taken: new Set([NOBODY]) })
    const free = reading([node])
    expect(of(confirmed(view(taken, { rules: bridgeRules(NOBODY) }), free)).detached).toEqual([])
    expect(of(confirmed(view(free, { rules: bridgeRules(NOBODY) }), taken)).detached).toEqual([])
    const bridged = reading([node, bridge(NOBODY, 6)])
    expect(of(confirmed(view(free, { rules: bridgeRules(NOBODY) }), bridged)).detached).toEqual([])
  })

  test('a tenant bridge that came keeps the mesh’s reply mark', () => {
    const iptables = new Map([['nft' as const, saved({ mangle: bridgeLines(GLOBEX).mangle.slice(0, 1) })]])
    const free = reading([node])
    const after = reading([node, bridge(ACME, 4)])
    expect(of(confirmed(view(free, { iptables }), after)).meshMarkDetached).toBe(false)
    expect(of(confirmed(view(after, { iptables }), free)).meshMarkDetached).toBe(false)
  })
})

describe('settled: only what two conclusions found', () => {
  const links = reading([node, bridge(ACME, 4), bridge(GLOBEX, 5)])
  const leftovers: Partial<NodeView> = {
    routes: [route('10.128.3.7', 4), route('10.128.3.9', 5)],
    rules: [...bridgeRules(NOBODY), ...bridgeRules('yah0-0000000000')],
    proxies: [proxy('10.128.3.7', 5), proxy('10.128.3.9', 4)],
    filters: [filter(5, '10.128.3.9', '10.128.3.7'), filter(4, '10.128.3.7', '10.128.3.9')],
    iptables: new Map([['nft' as const, saved({ mangle: bridgeLines(GLOBEX).mangle.slice(0, 1) })]]),
  }
  const before = of(view(links, leftovers))

  test('all of it, when nothing changed', () => {
    expect(settled(of(view(links, leftovers)), before)).toEqual(before)
  })

  test('nothing that the first did not have', () => {
    const nothing = of(view(reading([node, bridge('yah0-1111111111', 9, [3])])))
    const left = settled(before, nothing)
    expect([left.departed, left.dead, left.detached, left.unwantedProxies, left.unwantedFilters]).toEqual([
      [],
      [],
      [],
      [],
      [],
    ])
    expect(left.meshMarkDetached).toBe(false)
  })

  test('nothing that the second does not have', () => {
    const nothing = of(view(reading([node])))
    const left = settled(nothing, before)
    expect([left.departed, left.dead, left.detached, left.unwantedProxies, left.unwantedFilters]).toEqual([
      [],
      [],
      [],
      [],
      [],
    ])
  })

  test('a bridge of the same name with another index is another bridge, and so is one of the same index', () => {
    const replaced = of(view(reading([node, bridge(ACME, 40), bridge(NOBODY, 5)]), leftovers))
    expect(names(settled(replaced, before).dead)).toEqual([])
  })

  test('a proxy entry on another bridge is another entry', () => {
    const moved = of(view(links, { ...leftovers, proxies: [proxy('10.128.3.7', 4)] }))
    expect(settled(moved, before).unwantedProxies).toEqual([])
  })

  test('a tenant bridge that is being made meanwhile keeps the mesh’s reply mark, which it needs', () => {
    const made = of(view(reading([...links.bridges, bridge(NOBODY, 6)]), leftovers))
    expect(names(made.dead)).toContain(NOBODY)
    const left = settled(made, before)
    expect(names(left.dead)).toEqual([ACME, GLOBEX])
    expect(left.meshMarkDetached).toBe(false)
  })
})

test('another node bridge has other tenants', () => {
  const net = new ContainerNet({ bridge: 'cont0' })
  const bridges = [bridge('cont-0123456789', 4)]
  const rules = [prohibit(1200, 'cont0', '10.128.3.9/32'), prohibit(1200, 'yah0', '10.128.3.8/32')]
  expect(conclude(view(reading(bridges), { net, rules }), SUBNET).departed).toEqual(['10.128.3.9'])
})
