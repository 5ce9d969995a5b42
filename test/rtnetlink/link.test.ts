import { expect, test } from 'vitest'
import {
  allLinks,
  decodeLink,
  deleteLink,
  linkByIndex,
  linkByName,
  linksOfKind,
  portsOf,
} from '../../src/kernel/rtnetlink/link.js'
import { fromHex } from './golden/hex.js'
import * as golden from './golden/links.js'
import { messageOf } from './message.js'

const bridge = messageOf(golden.BRIDGE)
const veth = messageOf(golden.VETH)

test('a bridge', () => {
  expect(decodeLink(bridge)).toMatchObject({
    index: 2,
    name: 'br-a',
    kind: 'bridge',
    master: 0,
    up: true,
    mtu: 1400,
    peerIndex: 0,
    peerNamespace: -1,
    altNames: [],
  })
})

test('a veth, enslaved, whose peer lives in another namespace', () => {
  expect(decodeLink(veth)).toMatchObject({
    index: 4,
    name: 'veth7',
    kind: 'veth',
    master: 2,
    up: true,
    mtu: 1400,
    // The peer's index and that of a bridge here are the same number: it means nothing without the namespace.
    peerIndex: 2,
    peerNamespace: 0,
  })
})

test('a link with alternative names has one name of its own', () => {
  expect(decodeLink(messageOf(golden.RENAMED))).toMatchObject({
    index: 5,
    name: 'ifb7',
    kind: 'ifb',
    altNames: ['another-name', 'third'],
  })
})

test('the loopback has no kind', () => {
  expect(decodeLink(messageOf(golden.LOOPBACK))).toMatchObject({ index: 1, name: 'lo', kind: '', mtu: 65536, up: true })
})

test('a link that is down', () => {
  const bytes = Buffer.from(golden.BRIDGE)
  bytes.writeUInt32LE(bytes.readUInt32LE(24) & ~1, 24)
  expect(decodeLink(messageOf(bytes)).up).toBe(false)
})

test('a filter that the kernel ignored is applied here', () => {
  expect(linksOfKind('bridge').decode(bridge)?.name).toBe('br-a')
  expect(linksOfKind('bridge').decode(veth)).toBeUndefined()
  expect(portsOf(2).decode(veth)?.name).toBe('veth7')
  expect(portsOf(3).decode(veth)).toBeUndefined()
  expect(allLinks().decode(veth)?.name).toBe('veth7')
})

test('another kind of message is malformed', () => {
  expect(() => decodeLink({ ...bridge, type: 20 })).toThrow(
    expect.objectContaining({ name: 'MalformedMessage', offset: 4 }),
  )
})

test('a link without a name is malformed', () => {
  const bytes = fromHex('20000000 10000200 00000000 23000000  00000100 02000000 03100000 00000000')
  expect(() => decodeLink(messageOf(bytes))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
})

test('requests, byte by byte', () => {
  expect(linksOfKind('bridge')).toMatchObject({
    type: 18,
    flags: 0x300,
    payload: fromHex(`
      00000000 00000000 00000000 00000000  # ifinfomsg
      08001d00 08000000                    # IFLA_EXT_MASK RTEXT_FILTER_SKIP_STATS
      10001280 0b000100 62726964676500 00  # IFLA_LINKINFO { IFLA_INFO_KIND bridge }
    `),
  })
  expect(portsOf(7).payload).toEqual(
    fromHex('00000000 00000000 00000000 00000000  08001d00 08000000  08000a00 07000000'),
  )
  expect(allLinks().payload).toEqual(fromHex('00000000 00000000 00000000 00000000  08001d00 08000000'))
  expect(linkByName('yah0')).toMatchObject({
    type: 18,
    flags: 0,
    payload: fromHex('00000000 00000000 00000000 00000000  09000300 7961683000 000000  08001d00 08000000'),
  })
  expect(linkByIndex(7)).toMatchObject({
    type: 18,
    flags: 0,
    payload: fromHex('00000000 07000000 00000000 00000000  08001d00 08000000'),
  })
  expect(deleteLink(7, 'delete link yah0-x')).toMatchObject({
    what: 'delete link yah0-x',
    type: 17,
    flags: 4,
    payload: fromHex('00000000 07000000 00000000 00000000'),
  })
})

test.each([0, -1, 1.5, Number.NaN])('index %d is no link', (index) => {
  // Index 0 would make the kernel look for a name, or list every link that has no master.
  for (const ask of [portsOf, linkByIndex, (i: number) => deleteLink(i, 'delete')])
    expect(() => ask(index)).toThrow(RangeError)
})
