import { expect, test } from 'vitest'
import {
  decodeNeighbour,
  deleteNeighbour,
  deleteProxy,
  neighboursOf,
  proxies,
} from '../../src/kernel/rtnetlink/neighbour.js'
import { fromHex } from './golden/hex.js'
import * as golden from './golden/neighbours.js'
import { messageOf } from './message.js'

test('a neighbour that was seen', () => {
  expect(decodeNeighbour(messageOf(golden.STALE))).toEqual({
    index: 2,
    address: '10.128.3.8',
    state: 0x04,
    flags: 0,
    proxy: false,
    lladdr: '02:00:00:00:00:08',
    protocol: 0,
    unknown: [],
  })
})

test('permanent, with its maker; and NOARP', () => {
  expect(decodeNeighbour(messageOf(golden.PERMANENT))).toMatchObject({
    address: '10.128.3.7',
    state: 0x80,
    protocol: 42,
  })
  expect(decodeNeighbour(messageOf(golden.NOARP))).toMatchObject({ index: 3, address: '224.0.0.22', state: 0x40 })
})

test('proxy entries', () => {
  expect(decodeNeighbour(messageOf(golden.PROXY))).toEqual({
    index: 2,
    address: '10.128.3.9',
    state: 0,
    flags: 0x08,
    proxy: true,
    lladdr: null,
    protocol: 0,
    unknown: [],
  })
  expect(decodeNeighbour(messageOf(golden.PROXY_WITH_PROTOCOL))).toMatchObject({ index: 3, proxy: true, protocol: 4 })
})

test('a filter that the kernel ignored is applied here', () => {
  const proxy = messageOf(golden.PROXY)
  const stale = messageOf(golden.STALE)
  expect(proxies().decode(proxy)?.address).toBe('10.128.3.9')
  expect(proxies().decode(stale)).toBeUndefined()
  expect(neighboursOf(2).decode(stale)?.address).toBe('10.128.3.8')
  expect(neighboursOf(3).decode(stale)).toBeUndefined()
  expect(neighboursOf(2).decode(proxy)).toBeUndefined()
})

test('an entry without an address is malformed', () => {
  const bytes = fromHex('1c000000 1c000200 00000000 23000000  02000000 02000000 00000801')
  expect(() => decodeNeighbour(messageOf(bytes))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
})

test('requests, byte by byte', () => {
  const entry = { index: 2, address: '10.128.3.9' }
  expect(proxies()).toMatchObject({ type: 30, flags: 0x300, payload: fromHex('02000000 00000000 00000800') })
  expect(neighboursOf(2).payload).toEqual(fromHex('02000000 00000000 00000000  08000800 02000000'))
  expect(deleteProxy(entry)).toMatchObject({
    what: 'delete proxy neighbour 10.128.3.9 of link 2',
    type: 29,
    flags: 4,
    payload: fromHex('02000000 02000000 00000800  08000100 0a800309'),
  })
  expect(deleteNeighbour(entry).payload).toEqual(fromHex('02000000 02000000 00000000  08000100 0a800309'))
  expect(() => neighboursOf(0)).toThrow(RangeError)
})
