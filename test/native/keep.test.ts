/** Dumps of which the addon leaves objects out before JavaScript sees them, against what ip(8) lists. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import type { KeepOf } from '../../src/kernel/host.js'
import {
  IFLA_IFNAME,
  IFLA_MASTER,
  NETLINK_ROUTE,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  RTM_NEWLINK,
} from '../../src/kernel/linux.js'
import { type NativeSocket, native } from '../../src/kernel/native.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { getLink, ip, ipBatch, ipLinks, linkDump, linkOf, linksOf } from './support.js'

const IFINFOMSG = 16
const MINUTE = 60_000
const node = 'keep-test'

let netns: number
let socket: NativeSocket
let links: Map<string, number>

beforeAll(async () => {
  ip('netns', 'add', node)
  ipBatch(
    ['-n', node],
    [
      ...['one', 'two', 'three'].map((name) => `link add name ${name} type bridge`),
      // Enough that the kernel needs more than one datagram.
      ...Array.from({ length: 100 }, (_, i) => `link add l${i} type veth peer name p${i}`),
      ...['l0', 'l1', 'l99'].map((name) => `link set ${name} master one`),
      'link set l50 master two',
      'link set l60 master three',
    ],
  )
  netns = await native().openNamespace(node)
  links = ipLinks('-n', node)
})
afterAll(() => {
  native().closeNamespace(netns)
  ip('netns', 'del', node)
})
beforeEach(async () => {
  socket = await native().openSocket(NETLINK_ROUTE, netns)
})
afterEach(() => socket.close())

const indexOf = (name: string): number => links.get(name) ?? expect.fail(`no link ${name}`)
const byMaster = (...masters: string[]): KeepOf => ({
  ...{ request: 0, header: IFINFOMSG, attribute: IFLA_MASTER, values: masters.map(indexOf), without: false },
})
const enslavedTo = (...bridges: string[]): string[] =>
  bridges
    .flatMap((name) => JSON.parse(ip('-n', node, '-j', 'link', 'show', 'master', name)) as { ifname: string }[])
    .map(({ ifname }) => ifname)
    .sort()

/** The names of the links that are left, and that the list has its end. */
async function left(...keeps: KeepOf[]): Promise<string[]> {
  const { end, bytes } = await socket.exchange(linkDump, MINUTE, 0, keeps)
  expect(end).toBe('complete')
  expect([...readMessages(bytes)].map(({ type }) => type).at(-1)).toBe(NLMSG_DONE)
  return [...linksOf(bytes).keys()].sort()
}

test('objects whose attribute has one of the values are kept, the others and those without it dropped', async () => {
  expect(await left(byMaster('one'))).toEqual(['l0', 'l1', 'l99'])
  expect(await left(byMaster('one', 'three'))).toEqual(enslavedTo('one', 'three'))
  expect(await left(byMaster('l0'))).toEqual([])
  expect(await left({ ...byMaster(), values: [] })).toEqual([])
})

test('those without the attribute are kept when that is said', async () => {
  const others = new Set(enslavedTo('two', 'three'))
  const expected = [...links.keys()].filter((name) => !others.has(name)).sort()
  expect(await left({ ...byMaster('one'), without: true })).toEqual(expected)
  // Nested ones, and those of another number, are not it.
  const none = { ...byMaster('one'), attribute: 0x3fff }
  expect(await left({ ...none, without: true })).toEqual([...links.keys()].sort())
  expect(await left(none)).toEqual([])
})

test('no list of what to keep, and an empty one: everything comes', async () => {
  expect(await left()).toEqual([...links.keys()].sort())
  expect(linksOf((await socket.exchange(linkDump, MINUTE, 0, undefined)).bytes)).toEqual(links)
})

test('what cannot be read that way is kept, for the reader to refuse', async () => {
  // The family header read as attributes: lengths of 0.
  expect(await left({ ...byMaster(), header: 0 })).toEqual([...links.keys()].sort())
  // A name is no number, unless it is as long as one with its NUL.
  const short = [...links.keys()].filter((name) => name.length === 3)
  expect(short).toEqual(expect.arrayContaining(['l10', 'one', 'two']))
  expect(await left({ ...byMaster(), attribute: IFLA_IFNAME })).toEqual(
    [...links.keys()].filter((name) => name.length !== 3).sort(),
  )
})

test('a header longer than the object: it has no attribute', async () => {
  expect(await left({ ...byMaster('one'), header: 0xffffffff })).toEqual([])
  expect(await left({ ...byMaster('one'), header: 0xffffffff, without: true })).toEqual([...links.keys()].sort())
})

test('each dump of a batch has its own, and what is no dump is left alone', async () => {
  const batch = Buffer.concat([getLink('p3'), linkDump, linkDump, linkDump, getLink('absent')])
  const keeps = [
    { ...byMaster('two'), request: 1 },
    { ...byMaster('one'), request: 3 },
  ]
  const { end, bytes } = await socket.exchange(batch, MINUTE, 0, keeps)
  expect(end).toBe('complete')
  const answers = [...readMessages(bytes)]
  const of = (request: number) =>
    answers.flatMap((answer) => (answer.sequence === request && answer.type === RTM_NEWLINK ? [linkOf(answer)[0]] : []))
  expect(of(0)).toEqual(['p3'])
  expect(of(1)).toEqual(['l50'])
  expect(of(2).sort()).toEqual([...links.keys()].sort())
  expect(of(3).sort()).toEqual(['l0', 'l1', 'l99'])
  expect(answers.at(-1)?.sequence).toBe(4)
})

test('one exchange’s list does not hold for the next', async () => {
  expect(await left(byMaster('two'))).toEqual(['l50'])
  expect(await left()).toEqual([...links.keys()].sort())
})

// The kernel says so once, on the first object behind the change, and on the end of a list only when nothing came between.
test('that a dump was interrupted is told on what is kept, though it stood on what was dropped', async () => {
  const churn = spawn('sh', [
    '-c',
    `while :; do ip -n ${node} link add churn type bridge; ip -n ${node} link del churn; done`,
  ])
  try {
    await expect
      .poll(
        async () => {
          const { bytes } = await socket.exchange(linkDump, MINUTE, 0, [{ ...byMaster(), values: [] }])
          const answers = [...readMessages(bytes)]
          expect(answers.map(({ type }) => type)).toEqual([NLMSG_DONE])
          return answers.some(({ flags }) => (flags & NLM_F_DUMP_INTR) !== 0)
        },
        { timeout: 20_000, interval: 0 },
      )
      .toBe(true)
  } finally {
    churn.kill('SIGKILL')
    await once(churn, 'exit')
    // Killed between the two commands, it leaves the link.
    ip('-n', node, 'link', 'add', 'name', 'churn0', 'type', 'bridge')
    for (const name of ipLinks('-n', node).keys()) if (name.startsWith('churn')) ip('-n', node, 'link', 'del', name)
  }
}, 30_000)

test.each([
  ['no dump', Buffer.concat([linkDump, getLink('lo')]), 1],
  ['behind the last request', linkDump, 1],
])('a list for a request that is %s is refused, and nothing is sent', async (_, batch, request) => {
  await expect(socket.exchange(batch, MINUTE, 0, [{ ...byMaster('one'), request }])).rejects.toThrow(
    'request 1 is no dump',
  )
  expect(await left(byMaster('two'))).toEqual(['l50'])
})

test.each<[string, unknown, ErrorConstructor]>([
  ['no array', { ...{ request: 0, header: 16, attribute: 10, values: [], without: false } }, TypeError],
  ['null', null, TypeError],
  ['without values', [{ request: 0, header: 16, attribute: 10, without: false }], TypeError],
  ['a value that is no number', [{ request: 0, header: 16, attribute: 10, values: ['1'], without: false }], TypeError],
  ['a value below 0', [{ request: 0, header: 16, attribute: 10, values: [-1], without: false }], RangeError],
  ['a value of 33 bits', [{ request: 0, header: 16, attribute: 10, values: [2 ** 32], without: false }], RangeError],
  ['an attribute of 17 bits', [{ request: 0, header: 16, attribute: 0x10000, values: [], without: false }], RangeError],
  ['no header', [{ request: 0, attribute: 10, values: [], without: false }], TypeError],
  ['half a header', [{ request: 0, header: 1.5, attribute: 10, values: [], without: false }], RangeError],
  ['no request', [{ header: 16, attribute: 10, values: [], without: false }], TypeError],
])('%s is refused', (_, keeps, kind) => {
  expect(() => socket.exchange(linkDump, MINUTE, 0, keeps as KeepOf[])).toThrow(kind)
})
