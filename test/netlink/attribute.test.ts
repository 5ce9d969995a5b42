import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { AttributeReader, AttributeWriter } from '../../src/kernel/netlink/attribute.js'
import { MalformedMessage } from '../../src/kernel/netlink/errors.js'
import { fromHex } from '../rtnetlink/golden/hex.js'

function first(hex: string): AttributeReader {
  const reader = new AttributeReader(fromHex(hex), 0)
  expect(reader.next()).toBe(true)
  return reader
}

describe('reading', () => {
  test('each value by the method of its type', () => {
    expect(first('0500 0100 fe').u8()).toBe(254)
    expect(first('0600 0100 0180').u16()).toBe(0x8001)
    expect(first('0800 0100 ffffffff').u32()).toBe(0xffffffff)
    expect(first('0800 0100 ffffffff').s32()).toBe(-1)
    expect(first('0c00 0100 0000000000000102').u64be()).toBe(258n)
    expect(first('0800 0100 0a800301').ipv4()).toBe('10.128.3.1')
    expect(first('0900 0300 76657468 00').string()).toBe('veth')
    expect(first('0600 0100 abcd').raw()).toEqual(fromHex('abcd'))
    expect(first('0600 3e00 abcd').unknown()).toEqual({ type: 62, bytes: fromHex('abcd') })
  })

  test('text may lack its NUL, and may be padded with more of them', () => {
    expect(first('0600 0300 6c6f').string()).toBe('lo')
    expect(first('0a00 0300 6c6f00000000').string()).toBe('lo')
    expect(first('0400 0300').string()).toBe('')
    expect(() => first('0900 0300 6c6f006c00').string()).toThrow(MalformedMessage)
  })

  test('the type comes without its flag bits, and padding is passed over', () => {
    const reader = new AttributeReader(fromHex('0500 12 80 01 000000  0500 02 40 02'), 0)
    expect([reader.next(), reader.type, reader.u8()]).toEqual([true, 0x12, 1])
    expect([reader.next(), reader.type, reader.u8()]).toEqual([true, 2, 2])
    expect(reader.next()).toBe(false)
    expect(reader.next()).toBe(false)
  })

  test('a nested one ends where its parent ends', () => {
    const reader = new AttributeReader(fromHex('0d00 1280  0900 0100 7665746800  000000  0800 0400 dc050000'), 0)
    reader.next()
    const inner = reader.nested()
    expect([inner.next(), inner.type, inner.string(), inner.next()]).toEqual([true, 1, 'veth', false])
    expect([reader.next(), reader.type, reader.u32()]).toEqual([true, 4, 1500])
  })

  test('a nested one that says it is longer than its parent is malformed, though the bytes are there', () => {
    const reader = new AttributeReader(fromHex('0c00 1280  0900 0100 76657468  0800 0400 dc050000'), 0)
    reader.next()
    expect(() => reader.nested().next()).toThrow(expect.objectContaining({ offset: 4 }))
  })

  test.each([
    ['header cut short', '0800 0100 01020304  0500 01', 8],
    ['length 0', '0800 0100 01020304  0000 0100', 8],
    ['length 3', '0800 0100 01020304  0300 0100', 8],
    ['length past the end', '0800 0100 01020304  0900 0100 01020304', 8],
  ])('%s: malformed, with the offset', (_what, hex, offset) => {
    const reader = new AttributeReader(fromHex(hex), 0)
    expect(reader.next()).toBe(true)
    expect(() => reader.next()).toThrow(expect.objectContaining({ name: 'MalformedMessage', offset }))
  })

  test.each(['u8', 'u16', 'u32', 's32', 'u64be', 'ipv4'] as const)('%s takes its exact length alone', (method) => {
    for (const length of [0, 3, 5, 7, 9]) {
      const bytes = new AttributeWriter().raw(1, Buffer.alloc(length)).finish()
      const reader = new AttributeReader(bytes, 0)
      reader.next()
      expect(() => reader[method]()).toThrow(expect.objectContaining({ name: 'MalformedMessage', offset: 0 }))
    }
  })

  test('a header that is longer than the message is malformed at its end', () => {
    expect(() => new AttributeReader(Buffer.alloc(20), 24)).toThrow(expect.objectContaining({ offset: 20 }))
  })

  test('any bytes at all: the reader stays between start and end, and comes to an end', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), fc.nat(8), fc.nat(8), (array, before, behind) => {
        // 0xff around it: whoever reads past an edge sees a length and a type that are not there.
        const bytes = Buffer.concat([Buffer.alloc(before, 0xff), array, Buffer.alloc(behind, 0xff)])
        const end = before + array.length
        const reader = new AttributeReader(bytes, before, end)
        let rounds = 0
        try {
          while (reader.next()) {
            expect(++rounds).toBeLessThanOrEqual(array.length / 4)
            const value = reader.value()
            expect(value.start).toBeGreaterThanOrEqual(before + 4)
            expect(value.end).toBeGreaterThanOrEqual(value.start)
            expect(value.end).toBeLessThanOrEqual(end)
          }
        } catch (error) {
          if (!(error instanceof MalformedMessage)) throw error
          expect(error.offset).toBeGreaterThanOrEqual(before)
          expect(error.offset).toBeLessThan(end)
        }
      }),
    )
  })
})

describe('writing', () => {
  test('header, then attributes, each padded to four bytes', () => {
    const payload = new AttributeWriter(Buffer.of(2))
      .u8(21, 3)
      .u32(6, 1202)
      .u64be(12, 77n)
      .string(3, 'br-gone')
      .ipv4(1, '10.128.3.0')
      .nested(18, new AttributeWriter().string(1, 'veth'))
      .finish()
    expect(payload).toEqual(
      fromHex(`
        02 000000
        0500 1500 03 000000
        0800 0600 b2040000
        0c00 0c00 000000000000004d
        0c00 0300 62722d67 6f6e6500
        0800 0100 0a800300
        1000 1280 0900 0100 76657468 00 000000
      `),
    )
  })

  test.each(['', '10.128.3', '10.128.3.256', '010.128.3.1', '10.128.3.1 '])('%j is no IPv4 address', (text) => {
    expect(() => new AttributeWriter().ipv4(1, text)).toThrow(RangeError)
  })

  test('text with a NUL, and what no length can tell, is refused', () => {
    expect(() => new AttributeWriter().string(3, 'br\0a')).toThrow(RangeError)
    expect(() => new AttributeWriter().raw(3, Buffer.alloc(0xfffc))).toThrow(RangeError)
  })
})
