import { expect, test } from 'vitest'
import { decodeNamespaceId, namespaceId } from '../../src/kernel/rtnetlink/namespace-id.js'
import { fromHex } from './golden/hex.js'
import { messageOf } from './message.js'

// As a 6.18 kernel answered: `ip netns list-id` said `nsid 0`.
const ANSWER = '1c000000 58000000 00000000 23000000  00000000  08000100 00000000'

test('the id that links carry', () => {
  expect(decodeNamespaceId(messageOf(fromHex(ANSWER)))).toBe(0)
})

test('-1 for a namespace that has none', () => {
  expect(decodeNamespaceId(messageOf(fromHex(ANSWER.replace(/0{8}$/, 'ffffffff'))))).toBe(-1)
})

test('an answer without an id is malformed, not an id', () => {
  const bytes = fromHex('14000000 58000000 00000000 23000000  00000000')
  expect(() => decodeNamespaceId(messageOf(bytes))).toThrow(expect.objectContaining({ name: 'MalformedMessage' }))
})

test('the request, byte by byte', () => {
  expect(namespaceId(9)).toMatchObject({ type: 90, flags: 0, payload: fromHex('00000000  08000300 09000000') })
})
