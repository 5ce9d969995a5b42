import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Connection, decodeConnection, isConnectionOf } from '../../src/kernel/conntrack/connection.js'
import { connectionCount, connectionsOf, deleteConnection } from '../../src/kernel/conntrack/conntrack.js'
import { parseIpv4 } from '../../src/kernel/ipv4.js'
import { NLM_F_ACK, NLM_F_DUMP } from '../../src/kernel/linux.js'
import { MalformedMessage } from '../../src/kernel/netlink/errors.js'
import { writeRequests } from '../../src/kernel/netlink/message.js'
import { fromHex } from '../rtnetlink/golden/hex.js'
import { messageOf } from '../rtnetlink/message.js'
import * as golden from './golden/connections.js'

const all = Object.entries(golden)

function connection(bytes: Buffer): Connection {
  const decoded = decodeConnection(messageOf(bytes))
  if (decoded === undefined) throw new Error('no IPv4 connection')
  return decoded
}

test('TCP through a forwarded port', () => {
  expect(connection(golden.FORWARDED_TCP)).toEqual({
    original: {
      source: '192.0.2.2',
      destination: '192.0.2.1',
      protocol: 6,
      sourcePort: 40857,
      destinationPort: 8080,
      icmp: null,
    },
    reply: {
      source: '10.128.3.9',
      destination: '192.0.2.2',
      protocol: 6,
      sourcePort: 80,
      destinationPort: 40857,
      icmp: null,
    },
    id: 2071521080,
    zone: 0,
    mark: 0,
    status: 0x1ae,
    // 16 bytes of nlmsghdr, 4 of nfgenmsg, 4 of the attribute's own header.
    tuple: golden.FORWARDED_TCP.subarray(24, 24 + 48),
  })
})

test('a mark, ICMP, a protocol without ports, zones', () => {
  expect(connection(golden.MARKED_UDP)).toMatchObject({ id: 2343662906, mark: 0x2000000, original: { protocol: 17 } })
  expect(connection(golden.PING)).toMatchObject({
    original: { protocol: 1, sourcePort: null, destinationPort: null, icmp: { type: 8, code: 0, id: 77 } },
    reply: { source: '192.0.2.2', destination: '192.0.2.1', icmp: { type: 0, code: 0, id: 77 } },
    id: 1241718272,
  })
  expect(connection(golden.IGMP).original).toEqual({
    source: '10.128.3.1',
    destination: '224.0.0.22',
    protocol: 2,
    sourcePort: null,
    destinationPort: null,
    icmp: null,
  })
  expect(connection(golden.ZONED_TCP)).toMatchObject({ zone: 5, mark: 3, id: 2913823301 })
  expect(connection(golden.ONE_WAY_ZONED_TCP)).toMatchObject({ zone: 0, id: 3393456787 })
})

test('one of another family is passed over', () => {
  const bytes = Buffer.from(golden.PING)
  bytes.writeUInt8(10, 16) // AF_INET6
  expect(decodeConnection(messageOf(bytes))).toBeUndefined()
  expect(connectionsOf(['10.128.3.7']).decode(messageOf(bytes))).toBeUndefined()
})

test.each([
  ['10.128.3.9', ['FORWARDED_TCP', 'MARKED_UDP']],
  ['192.0.2.1', ['FORWARDED_TCP', 'MARKED_UDP', 'PING']],
  ['192.0.2.2', ['FORWARDED_TCP', 'MARKED_UDP', 'PING']],
  ['224.0.0.22', ['IGMP']],
  ['10.128.3.20', ['ZONED_TCP', 'ONE_WAY_ZONED_TCP']],
  // The first three bytes of one, and ports and ids read as an address.
  ['10.128.3.2', []],
  ['0.0.0.0', []],
])('the connections of %s', (address, names) => {
  const request = connectionsOf([address])
  expect(all.filter(([, bytes]) => request.decode(messageOf(bytes)) !== undefined).map(([name]) => name)).toEqual(names)
})

test('an address must be one', () => {
  expect(() => connectionsOf(['10.128.3'])).toThrow(RangeError)
})

test('the requests, attribute by attribute', () => {
  expect(connectionsOf(['10.128.3.9'])).toMatchObject({ flags: NLM_F_DUMP })
  expect(writeRequests([connectionsOf(['10.128.3.9'])])).toEqual(
    fromHex(`
      14000000 01010103 00000000 00000000  # nlmsghdr: IPCTNL_MSG_CT_GET, a request for a dump
      02000000  # nfgenmsg`),
  )
  expect(writeRequests([connectionCount()])).toEqual(
    fromHex(`
      14000000 05010500 00000000 00000000  # nlmsghdr: IPCTNL_MSG_CT_GET_STATS, with an acknowledgement
      02000000  # nfgenmsg`),
  )
  expect(deleteConnection(connection(golden.ZONED_TCP), 'x')).toMatchObject({ what: 'x', flags: NLM_F_ACK })
  expect(writeRequests([deleteConnection(connection(golden.ZONED_TCP), 'x')])).toEqual(
    fromHex(`
      58000000 02010500 00000000 00000000  # nlmsghdr: IPCTNL_MSG_CT_DELETE, with an acknowledgement
      02000000  # nfgenmsg
      34000180  # CTA_TUPLE_ORIG
        14000180  # CTA_TUPLE_IP
          08000100 0a800314  # CTA_IP_V4_SRC
          08000200 c0000209  # CTA_IP_V4_DST
        1c000280  # CTA_TUPLE_PROTO
          05000100 06000000  # CTA_PROTO_NUM
          06000200 03e80000  # CTA_PROTO_SRC_PORT
          06000300 00500000  # CTA_PROTO_DST_PORT
      06001200 00050000  # CTA_ZONE
      08000c00 adad6a45  # CTA_ID`),
  )
})

test('a deletion without a tuple, which would take everything, is refused', () => {
  expect(() => deleteConnection({ ...connection(golden.PING), tuple: Buffer.alloc(0) }, 'x')).toThrow(RangeError)
})

test('a connection that is kept does not keep the list that it came in', () => {
  const list = Buffer.alloc(100_000)
  golden.PING.copy(list)
  const { tuple } = connection(list.subarray(0, golden.PING.length))
  expect(tuple.buffer).not.toBe(list.buffer)
})

/** Decoded, or the reason why it cannot be. Any other error is a fault of ours. */
function outcome(bytes: Buffer): Connection | MalformedMessage | undefined {
  try {
    return decodeConnection(messageOf(bytes))
  } catch (error) {
    if (!(error instanceof MalformedMessage)) throw error
    return error
  }
}

test('a message with a byte changed is a connection or malformed, and the quick look agrees with the whole one', () => {
  fc.assert(
    fc.property(fc.constantFrom(...all), fc.nat(), fc.nat(255), ([, original], place, value) => {
      const bytes = Buffer.from(original)
      // Behind nlmsghdr.
      bytes.writeUInt8(value, 16 + (place % (bytes.length - 16)))
      const decoded = outcome(bytes)
      if (decoded === undefined || decoded instanceof MalformedMessage) return
      const { original: there, reply: back } = decoded
      for (const address of [there.source, there.destination, back.source, back.destination]) {
        expect(isConnectionOf(new Set([parseIpv4(address) ?? -1]), messageOf(bytes))).toBe(true)
      }
      expect(isConnectionOf(new Set([1]), messageOf(bytes))).toBe(false)
    }),
    { numRuns: 2000 },
  )
})

test.each(all)('%s without its end is malformed, wherever it is cut', (_, bytes) => {
  // The tuples and the id stand before the last two attributes.
  const enough = bytes.indexOf(Buffer.of(0x08, 0x00, 0x0b, 0x00))
  for (let length = 20; length < enough; length++) {
    const cut = Buffer.from(bytes.subarray(0, length))
    cut.writeUInt32LE(length, 0)
    expect(outcome(cut)).toBeInstanceOf(MalformedMessage)
  }
})
