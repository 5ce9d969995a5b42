/**
 * Exchanges with a real kernel, in a namespace that nothing else changes meanwhile.
 *
 * @module-tag guest
 */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import {
  NETLINK_ROUTE,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLM_F_REQUEST,
  NLMSG_DONE,
  NLMSG_ERROR,
  RTM_GETLINK,
  RTM_NEWLINK,
} from '../../src/kernel/linux.js'
import { type NativeSocket, native } from '../../src/kernel/native.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { writeMessage } from '../support/messages.js'
import { errnoOf, getLink, ip, ipBatch, ipLinks, linkDump, linkOf, linksOf, newLink, unanswered } from './support.js'

const ENODEV = 19
const EEXIST = 17
const NLM_F_ROOT = 0x100
const MINUTE = 60_000
const veths = Array.from({ length: 150 }, (_, i) => `veth${i}`)
/** As many links as a /24 has workloads; of those with an odd number there is none. */
const asked = Array.from({ length: 253 }, (_, i) => (i % 2 === 0 ? `veth${i / 2}` : `absent${i}`))

const node = 'exchange-test'
const links = () => ipLinks('-n', node)

let netns: number
let socket: NativeSocket

beforeAll(async () => {
  ip('netns', 'add', node)
  ipBatch(
    ['-n', node],
    veths.map((name) => `link add ${name} type veth peer name ${name}p`),
  )
  netns = await native().openNamespace(node)
})
afterAll(() => {
  native().closeNamespace(netns)
  ip('netns', 'del', node)
})
beforeEach(async () => {
  socket = await native().openSocket(NETLINK_ROUTE, netns)
})
afterEach(() => socket.close())

test('a dump lists what ip(8) lists, and ends', async () => {
  const { end, errno, bytes } = await socket.exchange(linkDump, MINUTE)
  expect({ end, errno }).toEqual({ end: 'complete', errno: 0 })
  expect(linksOf(bytes)).toEqual(links())
  expect([...readMessages(bytes)].at(-1)?.type).toBe(NLMSG_DONE)
})

test('253 links by name in one exchange: each answer belongs to its request', async () => {
  const { end, bytes } = await socket.exchange(Buffer.concat(asked.map((name) => getLink(name))), MINUTE)
  expect(end).toBe('complete')
  const known = links()
  const answers = [...readMessages(bytes)]
  expect(answers.map((answer) => answer.sequence)).toEqual(asked.map((_, i) => i))
  for (const answer of answers) {
    const name = asked[answer.sequence] ?? ''
    if (known.has(name)) expect(linkOf(answer)).toEqual([name, known.get(name)])
    else expect(errnoOf(answer)).toBe(ENODEV)
  }
})

test('a thousand requests need more than one send, and all are answered', async () => {
  const { end, bytes } = await socket.exchange(Buffer.concat(Array.from({ length: 1000 }, () => getLink('lo'))), MINUTE)
  expect(end).toBe('complete')
  expect([...readMessages(bytes)].map((answer) => answer.sequence)).toEqual(Array.from({ length: 1000 }, (_, i) => i))
})

test('dumps and single requests in one batch are answered in the order in which they stand', async () => {
  const { end, bytes } = await socket.exchange(
    Buffer.concat([getLink('lo'), linkDump, getLink('absent', NLM_F_ACK), getLink('lo', NLM_F_ACK), linkDump]),
    MINUTE,
  )
  expect(end).toBe('complete')
  const answers = [...readMessages(bytes)]
  const of = (request: number) => answers.filter(({ sequence }) => sequence === request)
  expect(answers.map(({ sequence }) => sequence)).toEqual(answers.map(({ sequence }) => sequence).sort())
  expect(of(0).map(linkOf)).toEqual([['lo', 1]])
  expect(linksOf(Buffer.concat(of(1).map(({ bytes }) => bytes)))).toEqual(links())
  expect(of(2).map(errnoOf)).toEqual([ENODEV])
  expect(of(3).map(({ type }) => type)).toEqual([RTM_NEWLINK, NLMSG_ERROR])
  expect(of(3).map(errnoOf)).toEqual([null, 0])
  expect(of(4).at(-1)?.type).toBe(NLMSG_DONE)
})

test('the kernel takes one bit of NLM_F_DUMP for a dump, and so is it read', async () => {
  const half = writeMessage({ type: RTM_GETLINK, flags: NLM_F_REQUEST | NLM_F_ROOT, payload: Buffer.alloc(16) })
  const { end, bytes } = await socket.exchange(Buffer.concat([half, getLink('lo')]), MINUTE)
  expect(end).toBe('complete')
  expect(linksOf(bytes)).toEqual(links())
})

test('a change is acknowledged, and refused the second time', async () => {
  // NLM_F_CREATE | NLM_F_EXCL of a change must not be taken for the bits of a dump.
  const create = newLink('made', 'bridge', NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK)
  const { end, bytes } = await socket.exchange(Buffer.concat([create, create]), MINUTE)
  expect(end).toBe('complete')
  expect([...readMessages(bytes)].map(errnoOf)).toEqual([0, EEXIST])
  expect(links().has('made')).toBe(true)
  ip('-n', node, 'link', 'del', 'made')
})

test.each([
  ['a header cut short', (good: Buffer) => Buffer.concat([good, Buffer.alloc(8)]), /request 1 at byte \d+: header/],
  [
    'a length below the header',
    (good: Buffer) => Buffer.concat([good, Buffer.alloc(16)]),
    /request 1 .*length 0 of 16/,
  ],
  ['a length past the end', (good: Buffer) => Buffer.concat([good, good.subarray(0, 20)]), /request 1 .*length/],
  [
    'a change that asks for no answer',
    (good: Buffer) => Buffer.concat([good, newLink('other', 'bridge', NLM_F_CREATE)]),
    /request 1 .*NLM_F_ACK/,
  ],
])('%s is refused, and nothing of that batch is sent', async (_, spoil, message) => {
  const batch = spoil(newLink('made', 'bridge', NLM_F_CREATE | NLM_F_ACK))
  await expect(socket.exchange(batch, MINUTE)).rejects.toThrow(message)
  expect(links().has('made')).toBe(false)
})

test('an empty batch is complete', async () => {
  expect(await socket.exchange(Buffer.alloc(0), MINUTE)).toEqual({ end: 'complete', errno: 0, bytes: Buffer.alloc(0) })
})

test('arguments of the wrong kind are refused', () => {
  expect(() => socket.exchange('bytes' as never, MINUTE)).toThrow(TypeError)
  expect(() => socket.exchange(linkDump, -1)).toThrow(RangeError)
  expect(() => socket.exchange(linkDump, Number.NaN)).toThrow(RangeError)
  expect(() => native().openSocket(1.5, -1)).toThrow(RangeError)
})

test('a time-out keeps what came before it, and leaves the socket fit for use', async () => {
  const begun = performance.now()
  const { end, bytes } = await socket.exchange(Buffer.concat([getLink('lo'), unanswered]), 100)
  expect(end).toBe('timeout')
  expect(performance.now() - begun).toBeGreaterThanOrEqual(99)
  expect([...readMessages(bytes)].map(linkOf)).toEqual([['lo', 1]])
  expect((await socket.exchange(linkDump, MINUTE)).end).toBe('complete')
})

test('with no time at all nothing is sent', async () => {
  expect((await socket.exchange(newLink('made', 'bridge', NLM_F_CREATE | NLM_F_ACK), 0)).end).toBe('timeout')
  expect(links().has('made')).toBe(false)
})

test('a dump that was left half-way does not spoil the next', async () => {
  const all = links()
  let halfRead = 0
  for (let attempt = 0; attempt < 200 && halfRead < 3; attempt++) {
    const { end, bytes } = await socket.exchange(linkDump, (attempt % 20) / 20)
    if (end === 'timeout' && bytes.length > 0) halfRead++
    const next = await socket.exchange(linkDump, MINUTE)
    expect(next.end).toBe('complete')
    expect(linksOf(next.bytes)).toEqual(all)
  }
  expect(halfRead, 'dumps that were interrupted half-way').toBeGreaterThan(0)
})

test('cancelling one exchange leaves the others', async () => {
  const running = socket.exchange(unanswered, MINUTE, 1)
  const waiting = socket.exchange(unanswered, MINUTE, 2)
  const last = socket.exchange(getLink('lo'), MINUTE, 3)
  socket.cancel(2)
  expect((await waiting).end).toBe('cancelled')
  setTimeout(() => socket.cancel(1), 20)
  expect((await running).end).toBe('cancelled')
  expect((await last).end).toBe('complete')
})

test('cancelling without a key ends all of them, and only those', async () => {
  const ended = [1, 2, 3].map((key) => socket.exchange(unanswered, MINUTE, key))
  socket.cancel()
  expect((await Promise.all(ended)).map(({ end }) => end)).toEqual(['cancelled', 'cancelled', 'cancelled'])
  expect((await socket.exchange(getLink('lo'), MINUTE)).end).toBe('complete')
})

test('closing cancels, may be repeated, and refuses what comes after', async () => {
  const pending = [socket.exchange(unanswered, MINUTE), socket.exchange(linkDump, MINUTE)]
  socket.close()
  socket.close()
  expect((await Promise.all(pending)).map(({ end }) => end)).toEqual(['cancelled', 'cancelled'])
  await expect(socket.exchange(linkDump, MINUTE)).rejects.toThrow('closed')
})

test('an answer that no kernel sent is not taken for one', async () => {
  // The first request of a socket has sequence 1: a forger may well guess it.
  const forge = `
import socket, struct, sys
sender = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
port = int(sys.argv[1])
print(sender.sendto(struct.pack('=IHHIIi', 36, ${NLMSG_ERROR}, 0, 1, port, 0) + bytes(16), (port, 0)))`
  const pending = socket.exchange(unanswered, 3000)
  const sent = execFileSync('ip', ['netns', 'exec', node, 'python3', '-c', forge, String(socket.port)], {
    encoding: 'utf8',
  })
  expect(sent.trim()).toBe('36')
  const { end, bytes } = await pending
  expect({ end, bytes }).toEqual({ end: 'timeout', bytes: Buffer.alloc(0) })
})

test('a protocol that has no kernel side: the error number of the system call', async () => {
  const NETLINK_USERSOCK = 2
  const ECONNREFUSED = 111
  const user = await native().openSocket(NETLINK_USERSOCK, -1)
  expect(await user.exchange(linkDump, MINUTE)).toMatchObject({ end: 'failed', errno: ECONNREFUSED })
  user.close()
})

test('a protocol that does not exist is refused, with the system call', async () => {
  const EPROTONOSUPPORT = 93
  await expect(native().openSocket(1000, -1)).rejects.toMatchObject({ errno: EPROTONOSUPPORT, syscall: 'socket' })
})

test('links that come and go meanwhile interrupt a dump, and the flag of that is passed on', async () => {
  const NLM_F_DUMP_INTR = 0x10
  const churn = spawn('sh', [
    '-c',
    `while :; do ip -n ${node} link add churn type bridge; ip -n ${node} link del churn; done`,
  ])
  try {
    await expect
      .poll(
        async () => {
          const { end, bytes } = await socket.exchange(linkDump, MINUTE)
          expect(end).toBe('complete')
          return [...readMessages(bytes)].some(({ flags }) => (flags & NLM_F_DUMP_INTR) !== 0)
        },
        { timeout: 20_000, interval: 0 },
      )
      .toBe(true)
  } finally {
    churn.kill('SIGKILL')
    await once(churn, 'exit')
  }
}, 30_000)
