/** What grants need on the bridges, as far as it can be told without a kernel. */
import { describe, expect, test } from 'vitest'
import { arpChanges, missingEntries, type Owner } from '../../src/node/arp-path.js'
import { conclude } from '../../src/node/conclude.js'
import { planSweep } from '../../src/node/sweep.js'
import type { NodeView } from '../../src/node/view.js'
import {
  ACME,
  addressLines,
  admitLines,
  BILLING_MARK,
  bridge,
  confirmed,
  filter,
  GLOBEX,
  proxy,
  reading,
  SUBNET,
  saved,
  view,
} from './views.js'

const API = '10.128.3.7'
const BILLING = '10.128.3.9'
const ACME_INDEX = 4
const GLOBEX_INDEX = 5
const billing: Owner = { identity: { bridge: GLOBEX, mark: BILLING_MARK }, admitted: [] }
const api: Owner = { identity: { bridge: ACME, mark: 77 }, admitted: [billing.identity] }
const ENTRIES = [
  { bridge: ACME, sender: API, target: BILLING },
  { bridge: GLOBEX, sender: BILLING, target: API },
]

const apiLines = addressLines(API, ACME, 77, admitLines(API, ACME, GLOBEX, BILLING_MARK))
const billingLines = addressLines(BILLING, GLOBEX, BILLING_MARK)

function node(mangle: readonly string[], more: Partial<NodeView> = {}, octets = { acme: [7], globex: [9] }): NodeView {
  const links = reading([
    bridge('yah0', 3),
    bridge(ACME, ACME_INDEX, octets.acme),
    bridge(GLOBEX, GLOBEX_INDEX, octets.globex),
  ])
  return view(links, { iptables: new Map([['nft', saved({ mangle })]]), ...more })
}
const WIRED = {
  proxies: [proxy(BILLING, ACME_INDEX), proxy(API, GLOBEX_INDEX)],
  filters: [filter(ACME_INDEX, API, BILLING), filter(GLOBEX_INDEX, BILLING, API)],
}
const changes = (from: NodeView, address: string, owner: Owner | null) =>
  arpChanges(from, conclude(from, SUBNET), address, owner)

describe('a granted pair', () => {
  test.each([
    ['the granting one comes second', billingLines, API, api],
    ['the admitted one comes second', apiLines, BILLING, billing],
  ] as const)('%s: the same entries are wanted', (_, there, address, owner) => {
    expect(changes(node(there), address, owner)).toEqual({
      proxiesGone: [],
      filtersGone: [],
      wanted: expect.arrayContaining(ENTRIES),
    })
    expect(changes(node(there), address, owner).wanted).toHaveLength(2)
  })

  test('that is wired has nothing to change, and nothing is missing', () => {
    const wired = node([...apiLines, ...billingLines], WIRED)
    const { wanted, ...gone } = changes(wired, API, api)
    expect(gone).toEqual({ proxiesGone: [], filtersGone: [] })
    expect(missingEntries(wired, conclude(wired, SUBNET), wanted)).toEqual([])
  })

  test.each([
    ['proxy', { ...WIRED, proxies: [proxy(BILLING, ACME_INDEX)] }],
    ['filter', { ...WIRED, filters: [filter(ACME_INDEX, API, BILLING)] }],
  ])('whose %s is missing on one side gets that side', (_, left) => {
    const damaged = node([...apiLines, ...billingLines], left)
    expect(missingEntries(damaged, conclude(damaged, SUBNET), ENTRIES)).toEqual([ENTRIES[1]])
  })

  test('that is none any more loses both sides', () => {
    const wired = node([...apiLines, ...billingLines], WIRED)
    const expected = { proxiesGone: WIRED.proxies, filtersGone: WIRED.filters, wanted: [] }
    expect(changes(wired, API, { ...api, admitted: [] })).toEqual(expected)
    expect(changes(wired, BILLING, { identity: { bridge: GLOBEX, mark: 1 }, admitted: [] })).toEqual(expected)
    expect(changes(wired, API, null)).toEqual(expected)
    expect(changes(wired, BILLING, null)).toEqual(expected)
  })

  test('leaves what another pair of the same peer wants', () => {
    const web = addressLines('10.128.3.8', ACME, 78, admitLines('10.128.3.8', ACME, GLOBEX, BILLING_MARK))
    const both = node([...apiLines, ...web, ...billingLines], {
      proxies: [...WIRED.proxies, proxy('10.128.3.8', GLOBEX_INDEX)],
      filters: [
        ...WIRED.filters,
        filter(ACME_INDEX, '10.128.3.8', BILLING),
        filter(GLOBEX_INDEX, BILLING, '10.128.3.8'),
      ],
    })
    // web asks for billing on the same bridge as api did: that proxy entry stays.
    const { proxiesGone, filtersGone } = changes(both, API, null)
    expect(proxiesGone).toEqual([proxy(API, GLOBEX_INDEX)])
    expect(filtersGone).toEqual(WIRED.filters)
  })

  test('on one bridge is none', () => {
    const mate: Owner = { identity: { bridge: ACME, mark: 5 }, admitted: [] }
    const lines = addressLines(API, ACME, 77, admitLines(API, ACME, ACME, 5))
    expect(changes(node(lines), '10.128.3.8', mate).wanted).toEqual([])
  })
})

test('every entry that a deploy asserts is in the plan of a sweep, once either side has gone', () => {
  const { wanted } = changes(node(billingLines), API, api)
  const index = (name: string): number => (name === ACME ? ACME_INDEX : GLOBEX_INDEX)
  const asserted = {
    proxies: wanted.map((entry) => proxy(entry.target, index(entry.bridge))),
    filters: wanted.map((entry) => filter(index(entry.bridge), entry.sender, entry.target)),
  }
  expect(wanted).toHaveLength(2)
  for (const octets of [
    { acme: [], globex: [9] },
    { acme: [7], globex: [] },
  ]) {
    const left = confirmed(node([...apiLines, ...billingLines], asserted, octets))
    const { steps } = planSweep(left, conclude(left, SUBNET))
    expect(steps.flatMap((step) => (step.action === 'delete-proxy' ? step.neighbour : []))).toEqual(asserted.proxies)
    expect(steps.flatMap((step) => (step.action === 'delete-filter' ? step.filter : []))).toEqual(asserted.filters)
  }
})
