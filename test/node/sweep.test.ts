/** What a pass would do, in which order, and why. */
import { describe, expect, test } from 'vitest'
import { atOnce } from '../../src/kernel/turns.js'
import { foresee, restoreBatch } from '../../src/node/apply.js'
import { conclude } from '../../src/node/conclude.js'
import type { Plan, RestoreStep, Step } from '../../src/node/plan.js'
import { planSweep } from '../../src/node/sweep.js'
import type { NodeView } from '../../src/node/view.js'
import {
  ACME,
  addressLines,
  admitLines,
  BILLING_MARK,
  bridge,
  bridgeLines,
  bridgeRules,
  confirmed,
  filter,
  GLOBEX,
  NOBODY,
  neighbour,
  prohibit,
  proxy,
  reading,
  route,
  SUBNET,
  saved,
  view,
} from './views.js'

const node = bridge('yah0', 3)
const plan = (view: NodeView): Plan => planSweep(view, conclude(view, SUBNET))
const objects = (view: NodeView): string[] => plan(view).steps.map(({ object }) => object)
const restores = ({ steps }: Plan): RestoreStep[] => steps.filter((step) => step.action === 'restore')
const nft = (tables: Record<string, readonly string[]>) => new Map([['nft' as const, saved(tables)]])

/** api of acme runs; billing of globex, which had a grant from it, has stopped. */
function stopped(): NodeView {
  const api = addressLines('10.128.3.7', ACME, 77, admitLines('10.128.3.7', ACME, GLOBEX, BILLING_MARK))
  const billing = addressLines('10.128.3.9', GLOBEX, BILLING_MARK)
  const acme = bridgeLines(ACME)
  const globex = bridgeLines(GLOBEX)
  return confirmed(
    view(reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5)]), {
      routes: [route('10.128.3.7', 4), route('10.128.3.9', 5)],
      rules: [
        prohibit(1200, 'yah0', '10.128.3.7/32'),
        prohibit(1200, 'yah0', '10.128.3.9/32'),
        ...bridgeRules(ACME),
        ...bridgeRules(GLOBEX),
      ],
      proxies: [proxy('10.128.3.7', 5), proxy('10.128.3.9', 4)],
      filters: [filter(5, '10.128.3.9', '10.128.3.7'), filter(4, '10.128.3.7', '10.128.3.9')],
      iptables: nft({
        raw: [...acme.raw, ...globex.raw],
        mangle: [...acme.mangle, ...globex.mangle.slice(1), ...api, ...billing],
        filter: [...acme.filter, ...globex.filter],
      }),
    }),
    undefined,
    [neighbour('10.128.3.9', 5), neighbour('10.128.3.7', 4), neighbour('10.128.3.9', 4)],
  )
}

test('everything of a stopped workload and its bridge, in the order of docs/sweep.md, and nothing else', () => {
  expect(objects(stopped())).toEqual([
    `filter dev ${GLOBEX} ingress protocol arp pref 895 handle 0x907 flower`,
    `filter dev ${ACME} ingress protocol arp pref 895 handle 0x709 flower`,
    `proxy 10.128.3.7 dev ${GLOBEX}`,
    `proxy 10.128.3.9 dev ${ACME}`,
    'nft mangle: chains yah-id-10.128.3.9, yah-gr-10.128.3.9',
    `nft mangle: rules of ${GLOBEX}`,
    `nft raw: rules of ${GLOBEX}`,
    `nft filter: rules of ${GLOBEX}`,
    `route 10.128.3.9/32 dev ${GLOBEX}`,
    'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
    `neighbour 10.128.3.9 dev ${GLOBEX}`,
    `neighbour 10.128.3.9 dev ${ACME}`,
    `priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
    `priority 1204 iif ${GLOBEX} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit`,
    `bridge ${GLOBEX}`,
  ])
})

test('every step says whose leftover it is and why it goes', () => {
  const { steps } = plan(stopped())
  const live = steps.filter(({ object }) => object.startsWith('proxy 10.128.3.7'))
  expect(live).toMatchObject([{ bridges: [], addresses: [], reason: 'no granted pair wants it' }])
  const ofBridge = steps.filter(({ bridges }) => bridges.length > 0)
  expect(ofBridge.map(({ action }) => action)).toEqual([
    ...['restore', 'restore', 'restore'],
    ...['delete-rule', 'delete-rule', 'delete-link'],
  ])
  for (const step of ofBridge)
    expect(step).toMatchObject({ bridges: [GLOBEX], addresses: [], reason: `bridge ${GLOBEX} has no workload` })
  for (const step of steps.filter((step) => !ofBridge.includes(step) && !live.includes(step)))
    expect(step).toMatchObject({ addresses: ['10.128.3.9'], reason: 'address 10.128.3.9 has no workload' })
})

test('the commands that a person would type', () => {
  const commands = plan(stopped()).steps.map(({ command }) => command)
  expect(commands).toContain(`ip neigh del proxy 10.128.3.7 dev ${GLOBEX}`)
  expect(commands).toContain(`ip neigh del 10.128.3.9 dev ${ACME}`)
  expect(commands).toContain(`ip route del 10.128.3.9/32 dev ${GLOBEX} proto boot scope link`)
  expect(commands).toContain(`ip rule del priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`)
  expect(commands).toContain(`ip link del dev ${GLOBEX}`)
  expect(commands).toContain(`tc filter del dev ${ACME} ingress protocol arp pref 895 handle 0x709 flower`)
  expect(commands.find((command) => command.includes('-X yah-id-10.128.3.9'))?.split(' && ')).toEqual([
    'iptables-nft -t mangle -D PREROUTING -s 10.128.3.9/32 -j yah-id-10.128.3.9',
    `iptables-nft -t mangle -D yah-id-10.128.3.9 -s 10.128.3.9/32 -d 10.128.3.0/24 -i ${GLOBEX} -j MARK --set-xmark 0x1869/0xffff`,
    'iptables-nft -t mangle -X yah-id-10.128.3.9',
    'iptables-nft -t mangle -X yah-gr-10.128.3.9',
  ])
})

test('a node on which everybody lives has nothing to do', () => {
  const quiet = view(reading([node, bridge(ACME, 4, [7])]), {
    routes: [route('10.128.3.7', 4)],
    rules: [prohibit(1200, 'yah0', '10.128.3.7/32'), ...bridgeRules(ACME)],
    iptables: nft({
      ...bridgeLines(ACME),
      mangle: [...bridgeLines(ACME).mangle, ...addressLines('10.128.3.7', ACME, 77)],
    }),
  })
  expect(plan(quiet)).toMatchObject({ steps: [], notices: [] })
})

test('links go last, by name', () => {
  const bridges = ['yah0-3333333333', 'yah0-1111111111', 'yah0-2222222222'].map((name, i) => bridge(name, 10 + i))
  expect(objects(view(reading([node, ...bridges])))).toEqual([
    'bridge yah0-1111111111',
    'bridge yah0-2222222222',
    'bridge yah0-3333333333',
  ])
})

describe('what the kernel would take first', () => {
  const links = reading([node, bridge(ACME, 4, [7]), bridge(GLOBEX, 5)])
  const held = (more: Partial<NodeView>, action: Step['action']) =>
    plan(view(links, more))
      .steps.filter((step) => step.action === action)
      .map((step) => step.held)
  const ours = prohibit(1202, GLOBEX, '10.128.3.0/24')

  test.each([
    ['a mark', { mark: 0x2000000 }],
    ['not', { invert: true }],
    ['an output interface', { oif: 'eth0' }],
    ['a source', { source: '10.0.0.0', sourcePrefix: 8 }],
    ['a protocol', { protocol: 4 }],
    ['tos', { tos: 16 }],
    ['ports', { destinationPorts: { start: 22, end: 22 } }],
  ])('a foreign rule with %s before ours: ours stays and the other is named', (_, change) => {
    const foreign = { ...ours, ...change }
    expect(held({ rules: [foreign, ours] }, 'delete-rule')).toEqual([
      expect.stringMatching(/^the kernel would take another one first, which is not ours: .*priority 1202/),
    ])
    expect(held({ rules: [ours, foreign] }, 'delete-rule')).toEqual([null])
  })

  test('a foreign rule that the request does not fit stands in nobody’s way', () => {
    const others = [
      { ...ours, mask: 0x3000000, mark: 0x1000000 },
      { ...ours, action: 'table' as const, table: 100 },
    ]
    expect(held({ rules: [...others, ours] }, 'delete-rule')).toEqual([null])
  })

  test('copies: each deletion takes the next one, until the foreign one is next', () => {
    const foreign = { ...ours, mark: 0x2000000 }
    expect(held({ rules: [ours, ours, ours] }, 'delete-rule')).toEqual([null, null, null])
    const mixed = held({ rules: [ours, foreign, { ...ours }] }, 'delete-rule')
    expect(mixed[0]).toBeNull()
    expect(mixed[1]).toMatch(/fwmark 0x2000000\/0x2000000/)
  })

  test('a foreign route before ours', () => {
    const departed = route('10.128.3.9', 5)
    expect(held({ routes: [{ ...departed, preferredSource: '10.128.3.1' }, departed] }, 'delete-route')).toEqual([
      expect.stringMatching(/which is not ours: 10\.128\.3\.9\/32 .*src 10\.128\.3\.1/),
    ])
    expect(held({ routes: [departed, { ...departed, metric: 100 }] }, 'delete-route')).toEqual([null])
    const others = [route('10.128.3.9', 99), { ...departed, protocol: 4, metric: 9 }, { ...departed, scope: 0 }]
    expect(held({ routes: [...others, departed] }, 'delete-route')).toEqual([null])
  })
})

describe('chains that somebody holds', () => {
  const holder = '-A FORWARD -s 10.128.3.9/32 -j yah-id-10.128.3.9'
  const lines = addressLines('10.128.3.9', GLOBEX, BILLING_MARK)

  test('our jumps and the chain’s rules go, the chain stays, and the report names who holds it', () => {
    const held = view(reading([node]), { iptables: nft({ mangle: [...lines, holder] }) })
    expect(
      restores(plan(held)).map(({ object, rules, chains, held }) => ({ object, rules: rules.length, chains, held })),
    ).toEqual([
      { object: 'nft mangle: chains yah-gr-10.128.3.9', rules: 2, chains: ['yah-gr-10.128.3.9'], held: null },
      {
        object: 'nft mangle: chain yah-id-10.128.3.9',
        rules: 0,
        chains: ['yah-id-10.128.3.9'],
        held: `held by somebody else's rule: ${holder}`,
      },
    ])
  })

  test('a jump from another chain that goes holds nothing', () => {
    const both = [...lines, ...addressLines('10.128.3.8', GLOBEX, 5), '-A yah-id-10.128.3.8 -j yah-id-10.128.3.9']
    const steps = restores(plan(view(reading([node]), { iptables: nft({ mangle: both }) })))
    expect(steps.every(({ held }) => held === null)).toBe(true)
    const batch = atOnce(restoreBatch('mangle', steps)).split('\n')
    // All rules before all chains: the kernel keeps a chain that is still jumped to.
    expect(batch.findLastIndex((line) => line.startsWith('-D'))).toBeLessThan(
      batch.findIndex((line) => line.startsWith('-X')),
    )
    expect(batch).toContain('-D yah-id-10.128.3.8 -j yah-id-10.128.3.9')
  })

  test('a jump from a live workload’s chain holds it', () => {
    const both = [...lines, ...addressLines('10.128.3.7', ACME, 5), '-A yah-gr-10.128.3.7 -j yah-id-10.128.3.9']
    const links = reading([node, bridge(ACME, 4, [7])])
    const steps = restores(plan(view(links, { iptables: nft({ mangle: both }) })))
    expect(steps.filter(({ held }) => held !== null).map(({ object }) => object)).toEqual([
      'nft mangle: chain yah-id-10.128.3.9',
    ])
  })
})

describe('both back ends', () => {
  test('a batch for each table of each', () => {
    const save = saved({
      ...bridgeLines(GLOBEX),
      mangle: [...bridgeLines(GLOBEX).mangle, ...addressLines('10.128.3.9', GLOBEX, 1)],
    })
    const both = view(reading([node]), {
      iptables: new Map([
        ['nft', save],
        ['legacy', save],
      ] as const),
    })
    expect(restores(plan(both)).map(({ backend, table }) => `${backend} ${table}`)).toEqual([
      ...['nft mangle', 'nft mangle', 'nft mangle', 'nft raw', 'nft filter'],
      ...['legacy mangle', 'legacy mangle', 'legacy mangle', 'legacy raw', 'legacy filter'],
    ])
  })
})

describe('neighbours', () => {
  const links = reading([node, bridge(GLOBEX, 5, [7])])
  const of = (...neighbours: ReturnType<typeof neighbour>[]) =>
    objects(confirmed(view(links, { routes: [route('10.128.3.9', 5)] }), undefined, neighbours)).filter((o) =>
      /^neigh/.test(o),
    )

  test('of a departed address alone', () => {
    expect(of(neighbour('10.128.3.9', 5), neighbour('10.128.3.7', 5), neighbour('10.128.3.8', 5))).toEqual([
      `neighbour 10.128.3.9 dev ${GLOBEX}`,
    ])
  })

  test('not one that is permanent or NOARP: somebody made it', () => {
    expect(of(neighbour('10.128.3.9', 5, { state: 0x80 }), neighbour('10.128.3.9', 3, { state: 0x40 }))).toEqual([])
    expect(of(...[1, 2, 4, 8, 16, 32].map((state) => neighbour('10.128.3.9', 5, { state })))).toHaveLength(6)
  })
})

describe('a dry run', () => {
  const outcomes = (view: NodeView) =>
    foresee(plan(view)).map(({ step, outcome, kept }) => [step.object, outcome, kept])

  test('plans everything of a node where nothing is held', () => {
    expect(new Set(foresee(plan(stopped())).map(({ outcome }) => outcome))).toEqual(new Set(['planned']))
  })

  const rules = [
    { ...prohibit(1202, GLOBEX, '10.128.3.0/24'), mark: 0x2000000 },
    prohibit(1202, GLOBEX, '10.128.3.0/24'),
  ]
  const object = `priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`

  test('a bridge whose rule is held keeps its link', () => {
    expect(outcomes(view(reading([node, bridge(GLOBEX, 5)]), { rules }))).toEqual([
      [object, 'kept', expect.stringContaining('not ours')],
      [`bridge ${GLOBEX}`, 'kept', `${object} is still there`],
    ])
  })

  test('the last bridges with the gateway: the lowest name stays while anything is held', () => {
    const bridges = [bridge(NOBODY, 7), bridge(ACME, 4), bridge(GLOBEX, 5)]
    const detached = 'yah0-0000000000'
    const held = rules.map((rule) => ({ ...rule, iif: detached }))
    expect(outcomes(view(reading(bridges), { rules: held })).slice(1)).toEqual([
      [
        `bridge ${ACME}`,
        'kept',
        expect.stringMatching(`^priority 1202 iif ${detached} .* is still there, and no other bridge tells`),
      ],
      [`bridge ${GLOBEX}`, 'planned', null],
      [`bridge ${NOBODY}`, 'planned', null],
    ])
    // The node bridge has the gateway as well: then all of them may go.
    expect(
      outcomes(view(reading([node, ...bridges]), { rules: held }))
        .slice(1)
        .map(([, outcome]) => outcome),
    ).toEqual(Array(3).fill('planned'))
  })

  test('one that stays for its own rules is enough', () => {
    const bridges = [bridge(ACME, 4), bridge(GLOBEX, 5)]
    expect(outcomes(view(reading(bridges), { rules })).slice(1)).toEqual([
      [`bridge ${ACME}`, 'planned', null],
      [`bridge ${GLOBEX}`, 'kept', `${object} is still there`],
    ])
  })

  test('a bridge without the gateway is none that could stay for it', () => {
    const half = bridge(ACME, 4, [], { addresses: [] })
    expect(
      outcomes(
        view(reading([half, bridge(GLOBEX, 5)]), { rules: rules.map((rule) => ({ ...rule, iif: NOBODY })) }),
      ).slice(1),
    ).toEqual([
      [`bridge ${ACME}`, 'planned', null],
      [`bridge ${GLOBEX}`, 'kept', expect.stringContaining("no other bridge tells the node's /24")],
    ])
  })
})
