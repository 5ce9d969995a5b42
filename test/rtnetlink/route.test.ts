import { describe, expect, test } from 'vitest'
import { decodeRoute, deleteRoute, type Route, routes, routeTakenFirst } from '../../src/kernel/rtnetlink/route.js'
import { fromHex } from './golden/hex.js'
import * as golden from './golden/routes.js'
import { messageOf } from './message.js'

const [MAIN, LOCAL] = [254, 255]
const [UNICAST, BROADCAST, PROHIBIT] = [1, 3, 8]
const [UNIVERSE, LINK] = [0, 253]

function route(bytes: Buffer): Route {
  const decoded = decodeRoute(messageOf(bytes))
  if (decoded === undefined) throw new Error('no IPv4 route')
  return decoded
}

/** Of a unicast route in main that says nothing more. */
const PLAIN = {
  table: MAIN,
  type: UNICAST,
  tos: 0,
  flags: 0,
  oif: 0,
  gateway: null,
  metric: 0,
  preferredSource: null,
  metrics: null,
  hops: 1,
  nextHops: [],
  nexthopId: 0,
  encapsulation: 0,
  unknown: [],
}

const host = route(golden.HOST)

describe('reading', () => {
  test('a host route', () => {
    expect(host).toEqual({
      ...PLAIN,
      destination: '10.128.3.7',
      prefix: 32,
      scope: LINK,
      protocol: 3,
      oif: 2,
      flags: 0x10, // RTNH_F_LINKDOWN
    })
  })

  test('a default route with a gateway, metric, source, MTU and MSS', () => {
    expect(route(golden.DEFAULT)).toEqual({
      ...PLAIN,
      destination: '0.0.0.0',
      prefix: 0,
      scope: UNIVERSE,
      protocol: 42,
      oif: 5,
      gateway: '192.0.2.70',
      metric: 100,
      preferredSource: '192.0.2.65',
      metrics: fromHex('08000200 14050000 08000800 b0040000'),
    })
  })

  test('a route of two hops', () => {
    expect(route(golden.MULTIPATH)).toEqual({
      ...PLAIN,
      destination: '203.0.113.0',
      prefix: 24,
      scope: UNIVERSE,
      protocol: 3,
      hops: 2,
      nextHops: [
        { oif: 5, gateway: '192.0.2.70', weight: 3 },
        { oif: 3, gateway: null, weight: 1 },
      ],
    })
  })

  test('a table above 255, and a route that leads nowhere', () => {
    expect(route(golden.PROHIBIT)).toEqual({
      ...PLAIN,
      destination: '198.51.100.0',
      prefix: 24,
      table: 1000,
      type: PROHIBIT,
      scope: UNIVERSE,
      protocol: 3,
    })
  })

  test('a gateway of another family is no plain gateway; realms are kept as they came', () => {
    expect(route(golden.VIA_IPV6)).toMatchObject({
      tos: 0x10,
      oif: 5,
      gateway: 'via family 10 fe800000000000000000000000000001',
      unknown: [{ type: 11, bytes: fromHex('04000300') }],
    })
  })

  test('a next hop object, an encapsulation, a metric, a broadcast', () => {
    expect(route(golden.NEXT_HOP_OBJECT)).toMatchObject({ nexthopId: 12, oif: 5, gateway: '192.0.2.70', hops: 1 })
    // LWTUNNEL_ENCAP_IP
    expect(route(golden.ENCAPSULATED)).toMatchObject({ encapsulation: 2, oif: 5, gateway: null, scope: LINK })
    expect(route(golden.METRIC)).toMatchObject({ prefix: 31, metric: 77, preferredSource: '192.0.2.1', protocol: 2 })
    expect(route(golden.BROADCAST)).toMatchObject({ table: LOCAL, type: BROADCAST, scope: LINK, oif: 3 })
  })

  test.each([
    ['a prefix length of 33', '1c000000 18002200 00000000 23000000  02210000 fe03fd01 00000000'],
    [
      'a hop without room for its header',
      '24000000 18002200 00000000 23000000  02180000 fe030001 00000000  08000900 08000002',
    ],
    [
      'a hop of length 0',
      '28000000 18002200 00000000 23000000  02180000 fe030001 00000000  0c000900 00000002 05000000',
    ],
    [
      'a hop longer than the attribute',
      '28000000 18002200 00000000 23000000  02180000 fe030001 00000000  0c000900 0c000002 05000000',
    ],
    [
      'a gateway without a family',
      '24000000 18002200 00000000 23000000  02180000 fe030001 00000000  05001200 0a000000',
    ],
  ])('%s is malformed', (_what, hex) => {
    expect(() => decodeRoute(messageOf(fromHex(hex)))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
  })

  test('a filter that the kernel ignored is applied here', () => {
    const decode = (bytes: Buffer, wanted: Parameters<typeof routes>[0]) => routes(wanted).decode(messageOf(bytes))
    expect(decode(golden.HOST, { table: MAIN })).toEqual(host)
    expect(decode(golden.HOST, { table: LOCAL })).toBeUndefined()
    expect(decode(golden.HOST, { table: MAIN, type: UNICAST, devices: [2] })).toEqual(host)
    expect(decode(golden.HOST, { table: MAIN, type: PROHIBIT })).toBeUndefined()
    expect(decode(golden.HOST, { table: MAIN, devices: [3] })).toBeUndefined()
    // Any hop will do: the kernel may take such a route for one of that link.
    expect(decode(golden.MULTIPATH, { table: MAIN, devices: [3] })?.hops).toBe(2)
  })
})

describe('requests, byte by byte', () => {
  test('lists', () => {
    expect(routes({ table: 254 })).toMatchObject({
      type: 26,
      flags: 0x300,
      payload: fromHex('02000000 00000000 00000000  08000f00 fe000000'),
    })
    expect(routes({ table: 1000, type: 1, devices: [7] }).payload).toEqual(
      fromHex('02000000 00000001 00000000  08000f00 e8030000  08000400 07000000'),
    )
    expect(() => routes({ table: 254, devices: [0] })).toThrow(RangeError)
    expect(() => routes({ table: 0 })).toThrow(RangeError)
  })

  test('deleting a host route: table, type, scope and protocol, destination and device', () => {
    expect(deleteRoute(host, 'delete route x')).toMatchObject({
      what: 'delete route x',
      type: 25,
      flags: 4,
      payload: fromHex('02200000 0003fd01 00000000  08000f00 fe000000  08000100 0a800307  08000400 02000000'),
    })
  })

  test('deleting sends gateway, metric and source where there are some', () => {
    expect(deleteRoute(route(golden.DEFAULT), 'delete').payload).toEqual(
      fromHex(`
        02000000 002a0001 00000000
        08000f00 fe000000
        08000400 05000000
        08000500 c0000246
        08000600 64000000
        08000700 c0000241
      `),
    )
  })

  test.each([
    ['of several hops', golden.MULTIPATH],
    ['of a next hop object', golden.NEXT_HOP_OBJECT],
    ['with an encapsulation', golden.ENCAPSULATED],
    ['through a gateway of another family', golden.VIA_IPV6],
  ])('a route %s is not deleted here: what tells it apart would not be sent', (_what, bytes) => {
    expect(() => deleteRoute(route(bytes), 'delete')).toThrow(RangeError)
  })
})

describe('which route the kernel takes', () => {
  test('the first that agrees, in the order of the list', () => {
    const copy = { ...host }
    expect(routeTakenFirst([route(golden.DEFAULT), copy, host], host)).toBe(copy)
    expect(routeTakenFirst([route(golden.DEFAULT)], host)).toBeUndefined()
  })

  test.each<[string, Partial<Route>]>([
    ['metric', { metric: 100 }],
    ['preferred source', { preferredSource: '10.128.3.1' }],
    ['gateway', { gateway: '10.128.3.1' }],
  ])('one that has a %s besides goes first, but is not taken the other way round', (_what, besides) => {
    const other = { ...host, ...besides }
    expect(routeTakenFirst([other, host], host)).toBe(other)
    expect(routeTakenFirst([host, other], other)).toBe(other)
  })

  test('metrics such as the MTU are never compared', () => {
    const other = { ...host, metrics: fromHex('08000200 14050000') }
    expect(routeTakenFirst([other, host], host)).toBe(other)
    expect(routeTakenFirst([host, other], other)).toBe(host)
  })

  test('of a route of several hops the first counts', () => {
    const through = (...links: number[]): Route => ({
      ...host,
      oif: 0,
      nextHops: links.map((oif) => ({ oif, gateway: null, weight: 1 })),
    })
    expect(routeTakenFirst([through(2, 3), host], host)?.oif).toBe(0)
    expect(routeTakenFirst([through(3, 2), host], host)).toBe(host)
  })

  test.each<[string, Partial<Route>]>([
    ['table', { table: 100 }],
    ['destination', { destination: '10.128.3.8' }],
    ['prefix', { prefix: 31 }],
    ['tos', { tos: 0x10 }],
    ['type', { type: BROADCAST }],
    ['scope', { scope: UNIVERSE }],
    ['protocol', { protocol: 4 }],
    ['device', { oif: 3 }],
    ['next hop object', { nexthopId: 12 }],
  ])('one of another %s is passed over', (_what, besides) => {
    expect(routeTakenFirst([{ ...host, ...besides }, host], host)).toBe(host)
  })
})
