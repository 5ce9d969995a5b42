/** What holds for every node, however odd: generated ones, from few names, so that things meet. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { foresee } from '../../src/node/apply.js'
import { conclude } from '../../src/node/conclude.js'
import type { LinkReading } from '../../src/node/links.js'
import type { Plan, Step } from '../../src/node/plan.js'
import { planSweep } from '../../src/node/sweep.js'
import type { NodeView } from '../../src/node/view.js'
import {
  ACME,
  address,
  addressLines,
  admitLines,
  bridge,
  bridgeLines,
  confirmed,
  filter,
  GLOBEX,
  link,
  NOBODY,
  neighbour,
  prohibit,
  proxy,
  reading,
  route,
  SUBNET,
  saved,
  veth,
  view,
} from './views.js'

const octet = fc.constantFrom(1, 2, 3, 7, 9, 254, 255)
const addr = fc.oneof(
  { weight: 9, arbitrary: octet.map((octet) => `10.128.3.${octet}`) },
  fc.constantFrom('10.128.4.7', '192.168.0.9'),
)
const bridgeName = fc.constantFrom(ACME, GLOBEX, NOBODY)
const index = fc.constantFrom(3, 4, 5, 6, 99)
const mark = fc.constantFrom(7, 77)

const aBridge = fc
  .record({
    name: fc.constantFrom('yah0', ACME, GLOBEX, NOBODY),
    gateway: fc.constantFrom('10.128.3.1/32', '10.128.3.1/24', '10.128.3.2/32', null),
    tap: fc.integer({ min: 0, max: 9 }),
  })
  .map(({ name, gateway, tap }) => ({ name, gateway, tap: tap === 0 }))

/** One reading of the links; indexes are the bridges' own, but for a replaced one. */
const links: fc.Arbitrary<LinkReading> = fc
  .record({
    bridges: fc.uniqueArray(aBridge, { selector: ({ name }) => name, maxLength: 4 }),
    veths: fc.uniqueArray(fc.tuple(octet, index), { selector: ([octet]) => octet, maxLength: 5 }),
    replaced: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
    taken: fc.subarray([NOBODY, GLOBEX]),
  })
  .map(({ bridges, veths, replaced, taken }) => {
    const own = bridges.map(({ name, gateway, tap }) => {
      const at = { yah0: 3, [ACME]: 4, [GLOBEX]: replaced ? 50 : 5, [NOBODY]: 6 }[name] ?? 0
      const ports = veths.filter(([, master]) => master === at).map(([octet]) => veth(octet, at))
      if (tap) ports.push(link('tap0', 60, { kind: 'tun', master: at }))
      const addresses = gateway === null ? [] : [address(gateway, at)]
      return bridge(name, at, [], { addresses, ports: name === 'yah0' ? [] : ports })
    })
    const named = veths.map(([octet, master]) =>
      veth(octet, own.some(({ link }) => link.index === master) ? master : 0),
    )
    return reading(own, {
      veths: named,
      taken: new Set(taken.filter((name) => !own.some((b) => b.link.name === name))),
    })
  })

const rule = fc.oneof(
  addr.map((address) => prohibit(1200, 'yah0', `${address}/32`)),
  fc
    .tuple(bridgeName, fc.constantFrom(1201, 1202))
    .map(([name, priority]) => prohibit(priority, name, '10.128.3.0/24')),
  fc
    .tuple(bridgeName, fc.constantFrom(1203, 1204))
    .map(([name, priority]) => prohibit(priority, name, '100.64.0.0/10')),
  bridgeName.map((name) => prohibit(1202, name, '10.128.3.0/24', { mark: 0x2000000 })),
  fc.constant(prohibit(1202, 'docker0', '0.0.0.0/0', { mask: 0 })),
)

const mangle = fc.oneof(
  fc
    .tuple(addr, bridgeName, mark)
    .map(([address, bridge, mark]) => ({ address, lines: addressLines(address, bridge, mark) })),
  fc.tuple(addr, bridgeName, mark, bridgeName, mark).map(([address, bridge, mark, peer, peerMark]) => ({
    address,
    lines: addressLines(address, bridge, mark, admitLines(address, bridge, peer, peerMark)),
  })),
)

const iptables = fc
  .record({
    chains: fc.uniqueArray(mangle, { selector: ({ address }) => address, maxLength: 5 }),
    bridges: fc.array(fc.tuple(bridgeName, fc.constantFrom('yah-isolation-a', 'yah-isolation-b')), { maxLength: 4 }),
    holder: fc.constantFrom<string[]>([], ['-A OUTPUT -j yah-id-10.128.3.9']),
  })
  .map(({ chains, bridges, holder }) => {
    const tables = bridges.map(([name, tag]) => bridgeLines(name, tag))
    const held = chains.some(({ address }) => address === '10.128.3.9') ? holder : []
    return saved({
      raw: tables.flatMap(({ raw }) => raw),
      mangle: [...tables.flatMap(({ mangle }) => mangle), ...chains.flatMap(({ lines }) => lines), ...held],
      filter: tables.flatMap(({ filter }) => filter),
    })
  })

const views: fc.Arbitrary<NodeView> = fc
  .record({
    first: links,
    second: fc.option(links),
    routes: fc.array(fc.tuple(addr, index, fc.constantFrom(0, 0, 0, 100)), { maxLength: 6 }),
    rules: fc.array(rule, { maxLength: 10 }),
    proxies: fc.array(fc.tuple(addr, index), { maxLength: 6 }),
    filters: fc.array(fc.tuple(index, octet, octet), { maxLength: 6 }),
    neighbours: fc.array(fc.tuple(addr, index), { maxLength: 4 }),
    nft: iptables,
  })
  .map(({ first, second, routes, rules, proxies, filters, neighbours, nft }) => {
    const read = view(first, {
      routes: routes.map(([address, oif, metric]) => route(address, oif, { metric })),
      rules,
      proxies: proxies.map(([address, index]) => proxy(address, index)),
      filters: filters.map(([index, from, to]) => filter(index, `10.128.3.${from}`, `10.128.3.${to}`)),
      iptables: new Map([['nft' as const, nft]]),
    })
    return second === null
      ? read
      : confirmed(
          read,
          second,
          neighbours.map(([address, index]) => neighbour(address, index)),
        )
  })

const RUNS = { numRuns: 200 }
const plan = (view: NodeView): Plan => planSweep(view, conclude(view, SUBNET))
const readings = ({ links, confirmed }: NodeView): LinkReading[] => [links, ...(confirmed ? [confirmed.links] : [])]

/** Octets of the host veths on a bridge of ours, in any reading, and the names of the tenant bridges that they are on. */
function occupied(view: NodeView): { octets: Set<number>; bridges: Set<string> } {
  const octets = new Set<number>()
  const bridges = new Set<string>()
  for (const { bridges: own, veths } of readings(view)) {
    for (const { link, ports } of own) {
      for (const { name, master, kind } of [...veths, ...ports]) {
        if (master !== link.index) continue
        bridges.add(link.name)
        const octet = Number(name.slice(4))
        if (kind === 'veth' && octet >= 2 && octet <= 254) octets.add(octet)
      }
    }
  }
  return { octets, bridges }
}

/** Everything that a step would name to the kernel or to iptables. */
function named(step: Step): string {
  return [step.command, ...step.addresses, ...step.bridges].join(' ')
}

test('no step of an address that is live in either reading, but for pairs that nobody wants', () => {
  fc.assert(
    fc.property(views, (view) => {
      const { octets } = occupied(view)
      for (const step of plan(view).steps) {
        const live = [...octets].filter((octet) => new RegExp(`10\\.128\\.3\\.${octet}(?![0-9])`).test(named(step)))
        if (live.length === 0) continue
        // Entries of grants name both sides; only those of no surviving pair go, and they are no leftovers of the live one.
        expect(['delete-proxy', 'delete-filter']).toContain(step.action)
        for (const octet of live) expect(step.addresses).not.toContain(`10.128.3.${octet}`)
      }
    }),
    RUNS,
  )
})

test('no step of a bridge that is occupied, foreign, taken or another one in either reading', () => {
  fc.assert(
    fc.property(views, (view) => {
      const { bridges } = occupied(view)
      for (const { addresses, link } of readings(view).flatMap((each) => each.bridges))
        if (addresses.some(({ address, prefix }) => address !== '10.128.3.1' || prefix < 24)) bridges.add(link.name)
      for (const { taken } of readings(view)) for (const name of taken) bridges.add(name)
      const seen = readings(view).map((each) => new Map(each.bridges.map(({ link }) => [link.name, link.index])))
      for (const step of plan(view).steps) {
        for (const name of step.bridges) {
          expect(bridges).not.toContain(name)
          expect(new Set(seen.map((indexes) => indexes.get(name))).size).toBe(1)
        }
        if (step.action === 'delete-link')
          expect([step.bridges, step.link.name === 'yah0']).toEqual([[step.link.name], false])
      }
    }),
    RUNS,
  )
})

test('the mesh’s reply mark stays as long as a tenant bridge does', () => {
  fc.assert(
    fc.property(views, (view) => {
      const { steps } = plan(view)
      const gone = new Set(steps.flatMap((step) => (step.action === 'delete-link' ? step.bridges : [])))
      const stays = readings(view).some(({ bridges }) =>
        bridges.some(({ link, tenant }) => tenant && !gone.has(link.name)),
      )
      if (stays) expect(steps.filter(({ object }) => object.includes('reply mark'))).toEqual([])
    }),
    RUNS,
  )
})

test('without anything departed, dead, detached or unwanted there is nothing to do, and the other way round', () => {
  fc.assert(
    fc.property(views, (view) => {
      const found = conclude(view, SUBNET)
      const { departed, dead, detached, meshMarkDetached, unwantedProxies, unwantedFilters } = found
      const nothing = [departed, dead, detached, unwantedProxies, unwantedFilters].every(({ length }) => length === 0)
      const { steps } = planSweep(view, found)
      if (nothing && !meshMarkDetached) expect(steps).toEqual([])
      // The converse: what is dead, detached or unwanted takes at least one step each.
      for (const { link } of dead) expect(steps.some(({ bridges }) => bridges.includes(link.name))).toBe(true)
      for (const name of detached) expect(steps.some(({ bridges }) => bridges.includes(name))).toBe(true)
      for (const address of departed) expect(steps.some(({ addresses }) => addresses.includes(address))).toBe(true)
    }),
    RUNS,
  )
})

test('the same view gives the same plan, and the plan leaves the view alone', () => {
  fc.assert(
    fc.property(views, (view) => {
      const before = structuredClone({ ...view, net: null, iptables: null })
      expect(plan(view)).toEqual(plan(view))
      expect(structuredClone({ ...view, net: null, iptables: null })).toEqual(before)
    }),
    { numRuns: 60 },
  )
})

test('the order of docs/sweep.md, each object once', () => {
  const stages: Step['action'][][] = [
    ['delete-filter'],
    ['delete-proxy'],
    ['restore'],
    ['delete-route', 'delete-rule', 'delete-neighbour'],
    ['delete-link'],
  ]
  fc.assert(
    fc.property(views, (view) => {
      const { steps } = plan(view)
      const order = steps.map(({ action }) => stages.findIndex((stage) => stage.includes(action)))
      expect(order).toEqual([...order].sort((a, b) => a - b))
      const objects = steps.flatMap((step): object[] => {
        if (step.action === 'restore') return [...step.rules]
        if (step.action === 'delete-link') return [step.link]
        if (step.action === 'delete-rule') return [step.rule]
        if (step.action === 'delete-route') return [step.route]
        if (step.action === 'delete-conntrack') return [...step.connections]
        return [step.action === 'delete-filter' ? step.filter : step.neighbour]
      })
      expect(new Set(objects).size).toBe(objects.length)
    }),
    RUNS,
  )
})

test('a second reading only ever spares: what it lets go would have gone without it', () => {
  fc.assert(
    fc.property(views, (view) => {
      const once = new Set(plan({ ...view, confirmed: null }).steps.map(({ action, object }) => `${action} ${object}`))
      for (const { action, object } of plan(view).steps)
        if (action !== 'delete-neighbour') expect(once).toContain(`${action} ${object}`)
    }),
    RUNS,
  )
})

test('while anything is kept, a bridge with the gateway stays when there was one', () => {
  fc.assert(
    fc.property(views, (view) => {
      const results = foresee(plan(view))
      const isGateway = (name: string) =>
        view.links.bridges.some(
          ({ link, addresses }) =>
            link.name === name && addresses.some(({ address, prefix }) => address === '10.128.3.1' && prefix >= 24),
        )
      const gateways = view.links.bridges.map(({ link }) => link.name).filter(isGateway)
      const gone = results.flatMap(({ step, outcome }) =>
        step.action === 'delete-link' && outcome === 'planned' ? step.bridges : [],
      )
      const kept = results.filter(({ outcome }) => outcome === 'kept')
      if (kept.length > 0 && gateways.length > 0) expect(gateways.some((name) => !gone.includes(name))).toBe(true)
      // And a bridge whose own rules are kept is.
      for (const { step } of kept) for (const name of step.bridges) expect(gone).not.toContain(name)
    }),
    RUNS,
  )
})
