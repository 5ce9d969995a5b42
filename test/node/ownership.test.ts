/** Each predicate, on an object that is ours, and with each field of it changed in turn: then it is not, for that reason. */
import { describe, expect, test } from 'vitest'
import type { Neighbour } from '../../src/kernel/rtnetlink/neighbour.js'
import type { Route } from '../../src/kernel/rtnetlink/route.js'
import type { Rule } from '../../src/kernel/rtnetlink/rule.js'
import type { Filter } from '../../src/kernel/tc.js'
import {
  type Ownership,
  ownBridgeProhibit,
  owned,
  ownFilter,
  ownHostRoute,
  ownProxy,
  ownWorkloadProhibit,
} from '../../src/node/ownership.js'
import { filter, GLOBEX, NET, prohibit, proxy, route, SUBNET } from './views.js'

const INDEXES = new Set([3, 4])
const UNKNOWN = [{ type: 77, bytes: Buffer.alloc(4) }]

type Change<T> = readonly [Partial<T>, RegExp]

/** The fields that are changed, and those that may hold anything, are all that the object has. */
function everyField<T extends object>(object: T, changes: readonly Change<T>[], free: readonly (keyof T)[]): void {
  const covered = new Set([...changes.flatMap(([change]) => Object.keys(change)), ...free.map(String)])
  expect([...covered].sort()).toEqual(Object.keys(object).sort())
}

function refused<T>(ownership: Ownership<T>, reason: RegExp): void {
  expect(ownership).toEqual({ foreign: expect.stringMatching(reason) })
}

describe('a host route', () => {
  const ours = route('10.128.3.9', 4)
  const own = (change: Partial<Route>) => ownHostRoute({ ...ours, ...change }, SUBNET, INDEXES)
  const changes: Change<Route>[] = [
    [{ table: 255 }, /table 255/],
    [{ table: 100 }, /table 100/],
    [{ type: 6 }, /type 6/],
    [{ prefix: 31 }, /prefix 31/],
    [{ prefix: 24 }, /prefix 24/],
    [{ destination: '10.128.4.9' }, /no workload's address in 10\.128\.3\.0\/24/],
    [{ destination: '10.128.3.1' }, /no workload's address/],
    [{ destination: '10.128.3.255' }, /no workload's address/],
    [{ oif: 5 }, /not one of the bridges/],
    [{ oif: 0 }, /not one of the bridges/],
    [{ hops: 2 }, /one hop/],
    [{ nexthopId: 12 }, /one hop/],
    [{ scope: 0 }, /scope 0/],
    [{ gateway: '10.128.3.1' }, /gateway 10\.128\.3\.1/],
    [{ metric: 100 }, /metric 100/],
    [{ tos: 16 }, /tos 16/],
    [{ preferredSource: '10.128.3.1' }, /preferred source 10\.128\.3\.1/],
    [{ metrics: Buffer.alloc(8) }, /metrics/],
    [{ encapsulation: 1 }, /encapsulation 1/],
    [{ unknown: UNKNOWN }, /attribute 77/],
  ]

  test('is ours whoever made it', () => {
    expect(own({})).toEqual({ mine: '10.128.3.9' })
    for (const change of [{ protocol: 4 }, { protocol: 186 }, { flags: 16 }, { oif: 3 }])
      expect(own(change)).toEqual({ mine: '10.128.3.9' })
  })
  test.each(changes)('is not with %o', (change, reason) => refused(own(change), reason))
  test('no field is forgotten', () => everyField(ours, changes, ['protocol', 'flags', 'nextHops']))
})

/** What no prohibit of ours has. */
const besides: Change<Rule>[] = [
  [{ action: 'table', table: 254 }, /action table/],
  [{ action: 'blackhole' }, /action blackhole/],
  [{ action: 'unreachable' }, /action unreachable/],
  [{ table: 254 }, /table 254/],
  [{ source: '10.0.0.0', sourcePrefix: 8 }, /sourcePrefix 8/],
  [{ tos: 16 }, /tos 16/],
  [{ oif: 'eth0' }, /oif eth0/],
  [{ mark: 0x2000000 }, /mark 33554432/],
  [{ mask: 0 }, /mask 0/],
  [{ mask: 0xffffffff }, /mask 4294967295/],
  [{ invert: true }, /invert true/],
  [{ protocol: 4 }, /protocol 4/],
  [{ suppressPrefixLength: 0 }, /suppressPrefixLength 0/],
  [{ suppressGroup: 0 }, /suppressGroup 0/],
  [{ tunnelId: 77n }, /tunnelId 77/],
  [{ l3mdev: true }, /l3mdev true/],
  [{ uidRange: { start: 0, end: 0 } }, /uidRange/],
  [{ ipProtocol: 6 }, /ipProtocol 6/],
  [{ sourcePorts: { start: 1, end: 2 } }, /sourcePorts/],
  [{ destinationPorts: { start: 1, end: 2 } }, /destinationPorts/],
  [{ goto: 1300 }, /goto 1300/],
  [{ realms: 1 }, /realms 1/],
  [{ unknown: UNKNOWN }, /attribute 77/],
]
/** Whether the interface is there now changes by itself. */
const FREE: (keyof Rule)[] = ['iifDetached', 'oifDetached', 'flags']

describe('the prohibit of a workload', () => {
  const ours = prohibit(1200, 'yah0', '10.128.3.9/32')
  const own = (change: Partial<Rule>) => ownWorkloadProhibit({ ...ours, ...change }, NET, SUBNET)
  const changes: Change<Rule>[] = [
    ...besides,
    [{ priority: 1199 }, /priority 1199/],
    [{ priority: 1202 }, /priority 1202/],
    [{ iif: 'yah1' }, /iif yah1/],
    [{ iif: GLOBEX }, /iif yah0-91auqknbeu/],
    [{ iif: '' }, /iif/],
    [{ destination: '10.128.4.9' }, /no workload's address/],
    [{ destination: '10.128.3.1' }, /no workload's address/],
    [{ destinationPrefix: 31 }, /destinationPrefix 31/],
    [{ mask: 0x3000000 }, /mask 50331648/],
  ]

  test('is ours, with its interface there or not', () => {
    expect(own({})).toEqual({ mine: '10.128.3.9' })
    expect(own({ iifDetached: true, flags: 8 })).toEqual({ mine: '10.128.3.9' })
  })
  test.each(changes)('is not with %o', (change, reason) => refused(own(change), reason))
  test('no field is forgotten', () => everyField(ours, changes, FREE))
})

describe.each([
  ['the subnet', '10.128.3.0/24', [1201, 1202], 0x3000000],
  ['the mesh', '100.64.0.0/10', [1203, 1204], 0x2000000],
] as const)('the prohibit of a bridge for %s', (_, destination, priorities, otherMask) => {
  const ours = prohibit(priorities[1], GLOBEX, destination)
  const own = (change: Partial<Rule>) => ownBridgeProhibit({ ...ours, ...change }, NET, SUBNET)
  const changes: Change<Rule>[] = [
    ...besides,
    [{ priority: 1200 }, /priority 1200/],
    [{ priority: 1205 }, /priority 1205/],
    [{ priority: priorities[0] === 1201 ? 1204 : 1202 }, /priority|destination/],
    [{ iif: 'yah0' }, /no tenant bridge/],
    [{ iif: 'yah0-scratch' }, /no tenant bridge/],
    [{ iif: '' }, /no tenant bridge/],
    [{ destination: '10.128.4.0' }, /destination 10\.128\.4\.0/],
    [{ destinationPrefix: 25 }, /destinationPrefix 25/],
    [{ mask: otherMask }, new RegExp(`mask ${otherMask}`)],
  ]

  test('is ours in both generations, with the bridge there or not', () => {
    for (const priority of priorities) expect(own({ priority })).toEqual({ mine: GLOBEX })
    expect(own({ iifDetached: true, flags: 8 })).toEqual({ mine: GLOBEX })
    expect(own({ iif: 'yah0-0000000000' })).toEqual({ mine: 'yah0-0000000000' })
  })
  test.each(changes)('is not with %o', (change, reason) => refused(own(change), reason))
  test('no field is forgotten', () => everyField(ours, changes, FREE))
})

describe('a proxy entry', () => {
  const ours = proxy('10.128.3.9', 4)
  const own = (change: Partial<Neighbour>) => ownProxy({ ...ours, ...change }, SUBNET, INDEXES)
  const changes: Change<Neighbour>[] = [
    [{ proxy: false }, /no proxy entry/],
    [{ index: 5 }, /not one of the bridges/],
    [{ index: 0 }, /not one of the bridges/],
    [{ address: '10.128.4.9' }, /not in 10\.128\.3\.0\/24/],
  ]

  test('is ours, whoever made it', () => {
    expect(own({})).toEqual({ mine: '10.128.3.9' })
    expect(own({ protocol: 4 })).toEqual({ mine: '10.128.3.9' })
  })
  test.each(changes)('is not with %o', (change, reason) => refused(own(change), reason))
  test('no field is forgotten', () => everyField(ours, changes, ['state', 'flags', 'lladdr', 'protocol', 'unknown']))
})

describe('a grant filter', () => {
  const ours = filter(4, '10.128.3.9', '10.128.3.7')
  const own = (change: Partial<Filter>) => ownFilter({ ...ours, ...change }, SUBNET, INDEXES)
  const key = (address: string, mask = '255.255.255.255') => ({
    value: Buffer.from(address.split('.').map(Number)),
    mask: Buffer.from(mask.split('.').map(Number)),
  })
  const edit = { kind: 'skbedit', mark: 0x2000000, mask: 0x2000000, control: 3, otherEdits: [] }
  const changes: Change<Filter>[] = [
    [{ index: 5 }, /not one of the bridges/],
    [{ pref: 896 }, /pref 896/],
    [{ protocol: 0x800 }, /protocol 2048/],
    [{ kind: 'u32' }, /kind u32/],
    [{ chain: 1 }, /chain 1/],
    [{ handle: 0x709 }, /handle 1801/],
    [{ handle: 0x10907 }, /handle/],
    [{ arpOperation: null }, /ARP requests/],
    [{ arpOperation: { value: 2, mask: 255 } }, /ARP requests/],
    [{ arpOperation: { value: 1, mask: 1 } }, /ARP requests/],
    [{ arpSender: null }, /one sender and one target/],
    [{ arpSender: key('10.128.3.0', '255.255.255.0') }, /one sender and one target/],
    [{ arpSender: key('10.128.4.9') }, /not between addresses of 10\.128\.3\.0\/24/],
    [{ arpSender: key('10.128.3.8') }, /handle 2311/],
    [{ arpTarget: null }, /one sender and one target/],
    [{ arpTarget: key('10.128.3.7', '255.255.255.254') }, /one sender and one target/],
    [{ arpTarget: key('10.129.3.7') }, /not between addresses/],
    [{ arpTarget: key('10.128.3.8') }, /handle 2311/],
    [{ otherKeys: [4] }, /key 4/],
    [{ actions: [] }, /not one skbedit/],
    [{ actions: [edit, edit] }, /not one skbedit/],
    [{ actions: [{ ...edit, kind: 'gact' }] }, /not one skbedit/],
    [{ actions: [{ ...edit, mark: 0x1000000 }] }, /something else than the grant mark/],
    [{ actions: [{ ...edit, mark: null }] }, /something else/],
    [{ actions: [{ ...edit, mask: 0xffffffff }] }, /something else/],
    [{ actions: [{ ...edit, otherEdits: [3] }] }, /something else/],
  ]

  test('is ours', () => expect(own({})).toEqual({ mine: { sender: '10.128.3.9', target: '10.128.3.7' } }))
  test.each(changes)('is not with %o', (change, reason) => refused(own(change), reason))
  // The dump is that of the ingress alone.
  test('no field is forgotten', () => everyField(ours, changes, ['parent']))
})

test('owned: those that are, with what they say, in their order', () => {
  const entries = [proxy('10.128.3.9', 4), proxy('10.0.0.1', 4), proxy('10.128.3.7', 3)]
  const own = owned(entries, (entry) => ownProxy(entry, SUBNET, INDEXES))
  expect(own).toEqual([
    { object: entries[0], mine: '10.128.3.9' },
    { object: entries[2], mine: '10.128.3.7' },
  ])
})
