import { expect, test } from 'vitest'
import { addressesOf, decodeAddress } from '../../src/kernel/rtnetlink/address.js'
import * as golden from './golden/addresses.js'
import { fromHex } from './golden/hex.js'
import { messageOf } from './message.js'

const IFA_F_PERMANENT = 0x80

test('the gateway of a tenant bridge: a /32', () => {
  expect(decodeAddress(messageOf(golden.GATEWAY_32))).toEqual({
    index: 2,
    address: '10.128.3.1',
    prefix: 32,
    peer: null,
    broadcast: null,
    label: 'br-a',
    scope: 0,
    flags: IFA_F_PERMANENT,
    metric: 0,
    protocol: 0,
    unknown: [],
  })
})

test('the gateway of the node bridge: a /24 with a broadcast address', () => {
  expect(decodeAddress(messageOf(golden.GATEWAY_24))).toMatchObject({
    index: 3,
    address: '10.128.3.1',
    prefix: 24,
    peer: null,
    broadcast: '10.128.3.255',
    label: 'br-b:gw',
  })
})

test('of a point-to-point address the local end is the address', () => {
  expect(decodeAddress(messageOf(golden.POINT_TO_POINT))).toMatchObject({
    address: '192.0.2.1',
    peer: '192.0.2.9',
    prefix: 31,
    scope: 253,
    metric: 77,
  })
})

test('the loopback address', () => {
  expect(decodeAddress(messageOf(golden.LOOPBACK))).toMatchObject({
    index: 1,
    address: '127.0.0.1',
    prefix: 8,
    scope: 254,
  })
})

test('a filter that the kernel ignored is applied here', () => {
  expect(addressesOf(2).decode(messageOf(golden.GATEWAY_32))?.address).toBe('10.128.3.1')
  expect(addressesOf(3).decode(messageOf(golden.GATEWAY_32))).toBeUndefined()
})

test('an address of another family is left out', () => {
  const bytes = Buffer.from(golden.PLAIN)
  bytes.writeUInt8(10, 16)
  expect(decodeAddress(messageOf(bytes))).toBeUndefined()
})

test.each([
  ['without an address', '18000000 14000200 00000000 23000000  021a8000 05000000'],
  ['of prefix length 33', '20000000 14000200 00000000 23000000  02218000 05000000  08000200 c0000241'],
  ['of five bytes', '24000000 14000200 00000000 23000000  021a8000 05000000  09000200 c0000241 01000000'],
])('an entry %s is malformed', (_what, hex) => {
  expect(() => decodeAddress(messageOf(fromHex(hex)))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
})

test('requests, byte by byte', () => {
  expect(addressesOf(7)).toMatchObject({ type: 22, flags: 0x300, payload: fromHex('02000000 07000000') })
  expect(() => addressesOf(0)).toThrow(RangeError)
})
