/** Long answers, handed over in parts while the kernel goes on. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { NETLINK_ROUTE } from '../../src/kernel/linux.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { type NativeExchange, type NativeSocket, native } from '../../src/kernel/native.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { NetlinkError } from '../../src/kernel/netlink/errors.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { allLinks } from '../../src/kernel/rtnetlink/link.js'
import { getLink, ip, ipBatch, ipLinks, linkDump, linkOf, linksOf } from './support.js'

const MINUTE = 60_000
const PART = 64 * 1024
/** What it reads ahead of whoever asks, and what one datagram of the kernel's may have at most behind that. */
const MOST_AHEAD = 512 * 1024
const DATAGRAM = 32 * 1024
const KEY = 7

const node = 'parts-test'
let netns: number
let socket: NativeSocket
let host: Host

beforeAll(async () => {
  ip('netns', 'add', node)
  const pairs = Array.from({ length: 600 }, (_, i) => `link add veth${i} type veth peer name peer${i}`)
  ipBatch(['-n', node], pairs)
  netns = await native().openNamespace(node)
  host = await openHost({ netns: node })
})
afterAll(() => {
  host?.close()
  native().closeNamespace(netns)
  ip('netns', 'del', node)
})
beforeEach(async () => {
  socket = await native().openSocket(NETLINK_ROUTE, netns)
})
afterEach(() => socket.close())

const begin = (timeoutMs = MINUTE, key = KEY) => socket.exchange(linkDump, timeoutMs, key, undefined, PART)

/** All that follows the first part. */
async function rest(first: NativeExchange): Promise<NativeExchange[]> {
  const parts = [first]
  while (parts.at(-1)?.end === 'more') parts.push(await socket.more(KEY))
  return parts
}

test('the parts are what comes without them, each of whole messages', async () => {
  const parts = await rest(await begin())
  expect(parts.length).toBeGreaterThan(3)
  expect(parts.map(({ end }) => end)).toEqual([...parts.slice(1).map(() => 'more'), 'complete'])
  for (const { bytes } of parts) expect([...readMessages(bytes)].length).toBeGreaterThan(0)
  for (const { bytes } of parts.slice(0, -1)) expect(bytes.length).toBeGreaterThanOrEqual(PART)
  const whole = await socket.exchange(linkDump, MINUTE)
  expect(Buffer.concat(parts.map(({ bytes }) => bytes)).equals(whole.bytes)).toBe(true)
  expect(linksOf(whole.bytes)).toEqual(ipLinks('-n', node))
})

test('what is shorter than a part comes whole', async () => {
  const { end, bytes } = await socket.exchange(getLink('lo'), MINUTE, KEY, undefined, PART)
  expect(end).toBe('complete')
  expect([...readMessages(bytes)].map(linkOf)).toEqual([['lo', 1]])
})

test('it reads on while nobody asks, and not without end', async () => {
  const first = await begin()
  await sleep(300)
  const second = await socket.more(KEY)
  expect(second.end).toBe('more')
  expect(second.bytes.length).toBeGreaterThanOrEqual(MOST_AHEAD)
  expect(second.bytes.length).toBeLessThan(MOST_AHEAD + DATAGRAM)
  const parts = [first, ...(await rest(second))]
  expect(linksOf(Buffer.concat(parts.map(({ bytes }) => bytes)))).toEqual(ipLinks('-n', node))
})

test('an exchange that waits for another one begins when the kernel has said all to that', async () => {
  const first = await begin()
  const behind = socket.exchange(getLink('lo'), MINUTE)
  const parts = await rest(first)
  expect(parts.at(-1)?.end).toBe('complete')
  expect((await behind).end).toBe('complete')
})

test('the last part is there when it is asked for, after other exchanges too', async () => {
  // Less than is read ahead.
  const names = Array.from({ length: 200 }, (_, i) => `veth${i}`)
  const batch = Buffer.concat(names.map((name) => getLink(name)))
  const parts = [await socket.exchange(batch, MINUTE, KEY, undefined, PART)]
  expect(parts[0]?.end).toBe('more')
  expect((await socket.exchange(getLink('lo'), MINUTE)).end).toBe('complete')
  parts.push(await socket.more(KEY))
  expect(parts[1]?.end).toBe('complete')
  const answers = parts.flatMap(({ bytes }) => [...readMessages(bytes)])
  expect(answers.map((answer) => linkOf(answer)[0])).toEqual(names)
  await expect(socket.more(KEY)).rejects.toThrow('no exchange of that key has more')
})

test('who waits too long is told so, with what had come in time', async () => {
  await begin(200)
  await sleep(400)
  const { end, bytes } = await socket.more(KEY)
  expect(end).toBe('timeout')
  expect(bytes.length).toBeGreaterThanOrEqual(MOST_AHEAD)
  expect((await socket.exchange(linkDump, MINUTE)).end).toBe('complete')
})

test.each([
  ['cancelled', () => socket.cancel(KEY)],
  ['cancelled with all others', () => socket.cancel()],
])('when it is %s, nothing more comes, and the socket is fit for use', async (_what, cancel) => {
  const all = ipLinks('-n', node)
  for (const wait of [0, 100]) {
    await begin()
    await sleep(wait)
    cancel()
    // The one as long as its thread has not seen it, the other then.
    const said = await socket.more(KEY).then(
      ({ end }) => end,
      (error: Error) => error.message,
    )
    expect(['cancelled', 'no exchange of that key has more']).toContain(said)
    expect(linksOf((await socket.exchange(linkDump, MINUTE)).bytes)).toEqual(all)
  }
})

test('when the socket is closed, nothing more comes', async () => {
  await begin()
  socket.close()
  expect((await socket.more(KEY)).end).toBe('cancelled')
})

test('more of what nobody began, or what somebody waits for, is refused', async () => {
  await expect(socket.more(KEY)).rejects.toThrow('no exchange of that key has more')
  await begin()
  const waiting = socket.more(KEY)
  await expect(socket.more(KEY)).rejects.toThrow('no exchange of that key has more')
  expect((await waiting).end).toBe('more')
  expect(() => socket.more(-1)).toThrow(RangeError)
})

test('a list is read in parts', async () => {
  let parts = 0
  const counted: Host = Object.create(host, {
    exchange: {
      value: (requests: Buffer, options: Parameters<Host['exchange']>[1] = {}) =>
        host.exchange(requests, {
          ...options,
          take(part) {
            parts++
            options.take?.(part)
          },
        }),
    },
  })
  const [{ items, error }] = await ask(counted, [allLinks()])
  expect(error).toBeNull()
  expect(new Map(items.map(({ name, index }) => [name, index]))).toEqual(ipLinks('-n', node))
  expect(parts).toBeGreaterThan(1)
})

test('one that is aborted between two parts ends, and the next does not suffer', async () => {
  const controller = new AbortController()
  const aborted = host.exchange(linkDump, { signal: controller.signal, take: () => controller.abort() })
  await expect(aborted).rejects.toThrow(expect.objectContaining({ name: 'NetlinkError', code: 'ABORTED' }))
  expect(linksOf(await host.exchange(linkDump))).toEqual(ipLinks('-n', node))
})

test('a host that is closed between two parts ends it', async () => {
  const closing = await openHost({ netns: node })
  const closed = closing.exchange(linkDump, { take: () => closing.close() })
  await expect(closed).rejects.toThrow(expect.objectContaining({ name: 'NetlinkError', code: 'ABORTED' }))
})

test('what fails in the reader ends the exchange, and the next does not suffer', async () => {
  const take = () => {
    throw new NetlinkError({ operation: 'test', code: 'MALFORMED' })
  }
  await expect(host.exchange(linkDump, { take })).rejects.toThrow('MALFORMED')
  expect(linksOf(await host.exchange(linkDump))).toEqual(ipLinks('-n', node))
})
