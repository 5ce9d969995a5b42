import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MalformedMessage } from '../../src/kernel/netlink/errors.js'
import { readMessages, writeRequests } from '../../src/kernel/netlink/message.js'
import { fromHex } from '../rtnetlink/golden/hex.js'
import { writeMessage } from '../support/messages.js'

// What a 6.18 kernel sent for a dump of the addresses of a link that is gone: no entry, ENODEV.
const DONE = fromHex('14000000 0300 2200 00000000 23000000 edffffff')
const ACK = fromHex('24000000 0200 0001 01000000 23000000 00000000 24000000 21000500 01000000 00000000')

test('messages come one by one, with header fields and bytes of their own', () => {
  const messages = [...readMessages(Buffer.concat([DONE, ACK]))]
  expect(messages).toEqual([
    { type: 3, flags: 0x22, sequence: 0, port: 0x23, bytes: DONE, payload: 16 },
    { type: 2, flags: 0x100, sequence: 1, port: 0x23, bytes: ACK, payload: 16 },
  ])
})

test('a message that is not padded may be the last; in between the padding is passed over', () => {
  const odd = fromHex('12000000 1000 0000 00000000 00000000 abcd')
  expect([...readMessages(odd)].map(({ bytes }) => bytes.length)).toEqual([18])
  const padded = Buffer.concat([odd, Buffer.alloc(2), DONE])
  expect([...readMessages(padded)].map(({ bytes }) => bytes.length)).toEqual([18, 20])
})

test.each([
  ['a length of 0 would never advance', '00000000 0300 0200 00000000 00000000', 0],
  ['a length below the header', '0f000000 0300 0200 00000000 00000000', 0],
  ['a length past the end', '15000000 0300 0200 00000000 00000000 edffffff', 0],
  ['a length that is negative to somebody', 'ffffffff 0300 0200 00000000 00000000 edffffff', 0],
  ['a header that is cut short', '10000000 0300 0200 00000000 00000000  14000000 0300', 16],
])('%s: malformed, with the offset', (_what, hex, offset) => {
  expect(() => [...readMessages(fromHex(hex))]).toThrow(expect.objectContaining({ name: 'MalformedMessage', offset }))
})

test('any bytes at all are messages that fill them without overlap, or malformed inside them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (array) => {
      const bytes = Buffer.from(array)
      let at = 0
      try {
        for (const message of readMessages(bytes)) {
          expect(message.bytes.length).toBeGreaterThanOrEqual(16)
          expect(message.bytes.byteOffset - bytes.byteOffset).toBe(at)
          at += Math.ceil(message.bytes.length / 4) * 4
        }
        expect(at).toBeGreaterThanOrEqual(bytes.length)
      } catch (error) {
        if (!(error instanceof MalformedMessage)) throw error
        expect(error.offset).toBe(at)
      }
    }),
  )
})

test('a written message is read back, whatever its payload', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 70 }), fc.nat(0xffff), fc.nat(0xffffffff), (array, type, sequence) => {
      const payload = Buffer.from(array)
      const [message, ...rest] = readMessages(writeMessage({ type, flags: 5, payload, sequence, port: 7 }))
      expect(rest).toEqual([])
      expect(message).toMatchObject({ type, flags: 5, sequence, port: 7 })
      expect(message?.bytes.subarray(message.payload)).toEqual(payload)
    }),
  )
})

test('a batch: NLM_F_REQUEST added, numbered from 0, each padded to four bytes', () => {
  const batch = writeRequests([
    { type: 18, flags: 0x300, payload: Buffer.from('abcde') },
    { type: 33, flags: 4, payload: Buffer.alloc(0) },
  ])
  expect(batch).toEqual(
    fromHex(`
      15000000 1200 0103 00000000 00000000 6162636465 000000
      10000000 2100 0500 01000000 00000000
    `),
  )
})
