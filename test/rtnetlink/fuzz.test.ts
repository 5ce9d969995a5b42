/** Whatever the kernel, or whoever stands in for it, sends: a value, or MalformedMessage with its place. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MalformedMessage } from '../../src/kernel/netlink/errors.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import { decodeAddress } from '../../src/kernel/rtnetlink/address.js'
import { decodeLink } from '../../src/kernel/rtnetlink/link.js'
import { decodeNamespaceId } from '../../src/kernel/rtnetlink/namespace-id.js'
import { decodeNeighbour } from '../../src/kernel/rtnetlink/neighbour.js'
import { decodeRoute } from '../../src/kernel/rtnetlink/route.js'
import { decodeRule } from '../../src/kernel/rtnetlink/rule.js'
import { writeMessage } from '../support/messages.js'
import * as addresses from './golden/addresses.js'
import * as links from './golden/links.js'
import * as neighbours from './golden/neighbours.js'
import * as routes from './golden/routes.js'
import * as rules from './golden/rules.js'
import { messageOf } from './message.js'

const decoders: [string, number, (message: Message) => unknown, Record<string, Buffer>][] = [
  ['links', 16, decodeLink, links],
  ['addresses', 20, decodeAddress, addresses],
  ['routes', 24, decodeRoute, routes],
  ['neighbours', 28, decodeNeighbour, neighbours],
  ['rules', 32, decodeRule, rules],
  ['namespace ids', 88, decodeNamespaceId, {}],
]

/** The message as a view of something larger, as it comes out of an exchange. */
function amidst(bytes: Buffer, around: number): Buffer {
  const whole = Buffer.alloc(bytes.length + 64, around)
  bytes.copy(whole, 32)
  return whole.subarray(32, 32 + bytes.length)
}

function outcome(decode: (message: Message) => unknown, bytes: Buffer): unknown {
  try {
    return decode(messageOf(bytes))
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error
    expect(error.offset).toBeGreaterThanOrEqual(0)
    expect(error.offset).toBeLessThanOrEqual(bytes.length)
    return error.message
  }
}

/** A value or MalformedMessage, and the same one whatever stands around the message: nothing beyond it was read. */
function valueOrMalformed(decode: (message: Message) => unknown, bytes: Buffer): void {
  expect(outcome(decode, amidst(bytes, 0x00))).toEqual(outcome(decode, amidst(bytes, 0xff)))
}

test.each(decoders)('%s: attributes of any type and length', (_what, type, decode) => {
  const attribute = fc
    .record({ type: fc.nat(70), length: fc.nat(40), value: fc.uint8Array({ maxLength: 24 }) })
    .map(({ type, length, value }) => Buffer.concat([Buffer.of(length, 0, type, 0), value]))
  fc.assert(
    fc.property(fc.array(attribute, { maxLength: 6 }), fc.uint8Array({ maxLength: 16 }), (attributes, header) => {
      const payload = Buffer.concat([Buffer.of(2), header, ...attributes])
      valueOrMalformed(decode, writeMessage({ type, flags: 2, payload }))
    }),
    { numRuns: 300 },
  )
})

test.each(decoders.filter(([, , , golden]) => Object.keys(golden).length > 0))(
  '%s: real messages with some bytes changed, or cut short',
  (_what, _type, decode, golden) => {
    fc.assert(
      fc.property(
        fc.constantFrom(...Object.values(golden)),
        fc.array(fc.tuple(fc.nat(2000), fc.nat(255)), { maxLength: 4 }),
        fc.nat(2000),
        (original, changes, cut) => {
          const bytes = Buffer.from(original.subarray(0, Math.max(16, original.length - (cut % original.length))))
          // The header stays: what it says of the length is the iterator's to check.
          for (const [at, value] of changes) if (bytes.length > 16) bytes[16 + (at % (bytes.length - 16))] = value
          bytes.writeUInt32LE(bytes.length, 0)
          valueOrMalformed(decode, bytes)
        },
      ),
      { numRuns: 500 },
    )
  },
)

test.each(decoders)('%s: a message cut anywhere inside its header is malformed', (_what, type, decode) => {
  for (let length = 0; length < 4; length++) {
    const bytes = writeMessage({ type, flags: 2, payload: Buffer.alloc(length, 2) })
    bytes.writeUInt32LE(16 + length, 0)
    expect(() => decode(messageOf(bytes))).toThrow(MalformedMessage)
  }
})
