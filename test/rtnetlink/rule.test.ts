import { describe, expect, test } from 'vitest'
import { allRules, decodeRule, deleteRule, type Rule, ruleTakenFirst } from '../../src/kernel/rtnetlink/rule.js'
import { fromHex } from './golden/hex.js'
import * as golden from './golden/rules.js'
import { messageOf } from './message.js'

function rule(bytes: Buffer): Rule {
  const decoded = decodeRule(messageOf(bytes))
  if (decoded === undefined) throw new Error('no IPv4 rule')
  return decoded
}

/** Of a rule that selects nothing. */
const OPEN = {
  source: '0.0.0.0',
  sourcePrefix: 0,
  destination: '0.0.0.0',
  destinationPrefix: 0,
  tos: 0,
  iif: '',
  iifDetached: false,
  oif: '',
  oifDetached: false,
  mark: 0,
  mask: 0,
  invert: false,
  flags: 0,
  protocol: 0,
  suppressPrefixLength: -1,
  suppressGroup: -1,
  tunnelId: 0n,
  l3mdev: false,
  uidRange: null,
  ipProtocol: 0,
  sourcePorts: null,
  destinationPorts: null,
  goto: 0,
  realms: 0,
  unknown: [],
}

const detached = rule(golden.DETACHED_PROHIBIT)

describe('reading', () => {
  test('a prohibit whose interface is gone, with a mask and mark 0', () => {
    expect(detached).toEqual({
      ...OPEN,
      priority: 1202,
      action: 'prohibit',
      table: 0,
      destination: '10.128.3.0',
      destinationPrefix: 24,
      iif: 'br-gone',
      iifDetached: true,
      mark: 0,
      mask: 0x2000000,
      flags: 8,
    })
  })

  test('a prohibit with a mark', () => {
    expect(rule(golden.MARKED_PROHIBIT)).toEqual({
      ...OPEN,
      priority: 1200,
      action: 'prohibit',
      table: 0,
      destination: '10.128.3.7',
      destinationPrefix: 32,
      iif: 'br-a',
      mark: 5,
      mask: 0xff,
    })
  })

  test('the rules that every namespace has: priority 0 comes without an attribute', () => {
    expect(rule(golden.LOCAL)).toEqual({ ...OPEN, priority: 0, action: 'table', table: 255, protocol: 2 })
    expect(rule(golden.MAIN)).toEqual({ ...OPEN, priority: 32766, action: 'table', table: 254, protocol: 2 })
    expect(rule(golden.DEFAULT)).toEqual({ ...OPEN, priority: 32767, action: 'table', table: 253, protocol: 2 })
  })

  test('goto, and a tunnel id', () => {
    expect(rule(golden.GOTO)).toEqual({ ...OPEN, priority: 7, action: 'goto', table: 0, goto: 40000 })
    expect(rule(golden.TUNNEL)).toEqual({ ...OPEN, priority: 0, action: 'table', table: 254, tunnelId: 77n })
  })

  test('a rule with everything, and what a newer kernel sends besides', () => {
    expect(rule(golden.EVERYTHING)).toEqual({
      ...OPEN,
      priority: 40000,
      action: 'table',
      table: 1000,
      source: '192.0.2.0',
      sourcePrefix: 24,
      tos: 0x10,
      oif: 'ifb7',
      invert: true,
      flags: 2,
      protocol: 99,
      suppressPrefixLength: 8,
      suppressGroup: 3,
      uidRange: { start: 5, end: 9 },
      ipProtocol: 6,
      sourcePorts: { start: 10, end: 20 },
      destinationPorts: { start: 443, end: 443 },
      realms: (3 << 16) | 4,
      // The mask of the destination port (FRA_DPORT_MASK).
      unknown: [{ type: 29, bytes: fromHex('ffff') }],
    })
  })

  test('an action without a name is its number', () => {
    const bytes = Buffer.from(golden.MAIN)
    bytes.writeUInt8(77, 16 + 7)
    expect(rule(bytes).action).toBe(77)
  })

  test('a rule of another family is left out', () => {
    const bytes = Buffer.from(golden.MAIN)
    bytes.writeUInt8(10, 16)
    expect(allRules().decode(messageOf(bytes))).toBeUndefined()
  })

  test.each([
    ['a prefix length of 33', 17, 33],
    ['a source prefix length of 33', 18, 33],
    ['an action of another message', 4, 24],
  ])('%s is malformed', (_what, at, value) => {
    const bytes = Buffer.from(golden.DETACHED_PROHIBIT)
    bytes.writeUInt8(value, at)
    expect(() => decodeRule(messageOf(bytes))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
  })
})

describe('requests, byte by byte', () => {
  test('the list: the family alone', () => {
    expect(allRules()).toMatchObject({ type: 34, flags: 0x300, payload: fromHex('02000000 00000000 00000000') })
  })

  test('deleting a prohibit: family, destination, action, priority, interface, mask', () => {
    expect(deleteRule(detached, 'delete rule x')).toMatchObject({
      what: 'delete rule x',
      type: 33,
      flags: 4,
      payload: fromHex(`
        02180000 00000008 00000000
        08000600 b2040000
        08000100 0a800300
        0c000300 62722d676f6e6500
        08001000 00000002
      `),
    })
  })

  test('deleting sends all that was read and is compared', () => {
    // Read back as if the kernel had sent it: but for the flags, and what is unknown, it is the same rule.
    const { payload } = deleteRule(rule(golden.EVERYTHING), 'delete')
    const header = fromHex('00000000 20000200 00000000 00000000')
    header.writeUInt32LE(16 + payload.length)
    expect(rule(Buffer.concat([header, payload]))).toEqual({
      ...rule(golden.EVERYTHING),
      invert: false,
      flags: 0,
      unknown: [],
    })
  })
})

describe('which rule the kernel takes', () => {
  const mark = (mark: number): Rule => ({ ...detached, mark })

  test('the first that agrees, in the order of the list', () => {
    const copy = { ...detached }
    expect(ruleTakenFirst([rule(golden.LOCAL), copy, detached], detached)).toBe(copy)
    expect(ruleTakenFirst([rule(golden.LOCAL), rule(golden.MAIN)], detached)).toBeUndefined()
  })

  test.each<[string, Partial<Rule>]>([
    ['mark', { mark: 0x2000000 }],
    ['source', { source: '192.0.2.0', sourcePrefix: 24 }],
    ['tos', { tos: 0x10 }],
    ['not', { invert: true, flags: 2 }],
    ['oif', { oif: 'ifb7' }],
    ['protocol', { protocol: 4 }],
    ['ports', { sourcePorts: { start: 1, end: 2 }, destinationPorts: { start: 1, end: 2 } }],
    ['IP protocol', { ipProtocol: 6 }],
    ['uid range', { uidRange: { start: 0, end: 0 } }],
    ['suppressor', { suppressPrefixLength: 0, suppressGroup: 3 }],
    ['tunnel id', { tunnelId: 7n }],
    ['l3mdev', { l3mdev: true }],
    ['realms', { realms: 7 }],
    ['table', { table: 100 }],
  ])('one that has a %s besides goes first, but is not taken the other way round', (_what, besides) => {
    const other: Rule = { ...detached, ...besides }
    expect(ruleTakenFirst([other, detached], detached)).toBe(other)
    if (besides.invert === undefined) expect(ruleTakenFirst([detached, other], other)).toBe(other)
    else expect(ruleTakenFirst([detached, other], other)).toBe(detached)
  })

  test.each<[string, Partial<Rule>]>([
    ['priority', { priority: 1201 }],
    ['action', { action: 'unreachable' }],
    ['interface', { iif: 'br-other' }],
    ['destination', { destination: '10.128.4.0' }],
    ['prefix', { destinationPrefix: 25 }],
    ['mask', { mask: 0x3000000 }],
  ])('one of another %s is passed over', (_what, besides) => {
    expect(ruleTakenFirst([{ ...detached, ...besides }, detached], detached)).toBe(detached)
  })

  test('a mark is compared when there is one', () => {
    expect(ruleTakenFirst([detached, mark(1), mark(2)], mark(2))?.mark).toBe(2)
  })
})
