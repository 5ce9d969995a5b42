/**
 * tc: requests against the bytes of tc(8), filters against what a kernel says of them.
 *
 * @module-tag guest
 */
import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { NETLINK_ROUTE, NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST } from '../../src/kernel/linux.js'
import { type NativeSocket, native } from '../../src/kernel/native.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { need } from '../support/machine.js'
import { errnoOf, ip, ipLinks } from './support.js'

const MINUTE = 60_000
const RTM_NEWTFILTER = 44
const CLSACT_INGRESS = 0xfffffff2
const ETH_P_ARP = 0x0806
const ETH_P_IP = 0x0800

const address = (text: string) => Buffer.from(text.split('.').map(Number))
const grant = {
  index: 2,
  pref: 895,
  handle: 0x907,
  sender: address('10.128.3.9'),
  target: address('10.128.3.7'),
  mark: 0x2000000,
  mask: 0x2000000,
}

const hex = (lines: string) => Buffer.from(lines.replaceAll(/#.*$/gm, '').replaceAll(/\s/g, ''), 'hex')

/** What tc of iproute2 6.1 sent (strace --write), its sequence put to 0. */
const tcSent = {
  // tc filter replace dev … ingress protocol arp pref 895 handle 0x907 flower
  //   arp_op request arp_sip 10.128.3.9 arp_tip 10.128.3.7 action skbedit mark 0x2000000/0x2000000
  filterReplace: hex(`
    b4000000 2c000504 00000000 00000000 00000000 02000000 07090000 f2ffffff 08067f03
    0b000100 666c6f77 65720000 84000200
    05003d00 01000000 05003e00 ff000000 08003900 0a800309 08003a00 ffffffff
    08003b00 0a800307 08003c00 ffffffff
    40000300 3c000100 0c000100 736b6265 64697400 2c000280
    18000200 00000000 00000000 03000000 00000000 00000000 08000500 00000002 08000800 00000002
    08001600 00000000 06000800 08060000`),
  // tc filter del dev … ingress protocol arp pref 895 handle 0x907 flower
  filterDelete: hex(`
    44000000 2d000500 00000000 00000000 00000000 02000000 07090000 f2ffffff 08067f03
    0b000100 666c6f77 65720000 14000200 08001600 00000000 06000800 08060000`),
  // tc filter show dev … ingress protocol arp pref 895
  filterDump: hex('24000000 2e000103 00000000 00000000 00000000 02000000 00000000 f2ffffff 08067f03'),
  // tc qdisc replace dev … clsact
  clsactReplace: hex(`
    30000000 24000505 00000000 00000000 00000000 02000000 0000ffff f1ffffff 00000000 0b000100 636c7361 63740000`),
}

test('requests are, byte by byte, what tc sends', () => {
  expect(native().encodeFilterReplace(grant)).toEqual(tcSent.filterReplace)
  expect(native().encodeFilterDump(2, 895, ETH_P_ARP)).toEqual(tcSent.filterDump)
  expect(native().encodeClsactReplace(2)).toEqual(tcSent.clsactReplace)
})

test('a delete names what tc names, without the options that a delete does not read', () => {
  const options = 0x14
  const expected = Buffer.from(tcSent.filterDelete.subarray(0, -options))
  expected.writeUInt32LE(expected.length, 0)
  expect(native().encodeFilterDelete({ ...grant, protocol: ETH_P_ARP, kind: 'flower' })).toEqual(expected)
})

test('a delete that would take more than one filter is refused', () => {
  const one = { ...grant, protocol: ETH_P_ARP, kind: 'flower' }
  expect(() => native().encodeFilterDelete({ ...one, handle: 0 })).toThrow(RangeError)
  expect(() => native().encodeFilterDelete({ ...one, pref: 0 })).toThrow(RangeError)
})

test.each([
  ['index 0', { index: 0 }],
  ['a preference of 17 bits', { pref: 65536 }],
  ['half a handle', { handle: 0.5 }],
  ['a sender of 3 bytes', { sender: Buffer.alloc(3) }],
  ['a target of 16 bytes', { target: Buffer.alloc(16) }],
  ['a negative mark', { mark: -1 }],
])('%s is refused', (_, part) => {
  expect(() => native().encodeFilterReplace({ ...grant, ...part })).toThrow(RangeError)
})

/**
 * What Debian's kernel 6.1 answered for the filter that tc made (6.12 answers the same), with more keys and edits put in
 * where the kernel would put them.
 */
function flowerAnswer(keys = '', edits = ''): Buffer {
  const ofEdits = hex(edits).length
  const ofAll = hex(keys).length + ofEdits
  const u16 = (value: number) => Buffer.from(Uint16Array.of(value).buffer).toString('hex')
  const bytes = hex(`
    34010000 2c000200 00000000 71000000     # nlmsghdr: RTM_NEWTFILTER, NLM_F_MULTI
    00000000 02000000 07090000 f2ffffff 08067f03 # tcmsg: index 2, handle 0x907, ingress of clsact, pref 895 arp
    0b000100 666c6f77 65720000              # TCA_KIND flower
    08000b00 00000000                       # TCA_CHAIN 0
    ${u16(0xfc + ofAll)} 0200               # TCA_OPTIONS
    06000800 08060000                       #   TCA_FLOWER_KEY_ETH_TYPE arp
    08003900 0a800309 08003a00 ffffffff     #   TCA_FLOWER_KEY_ARP_SIP, its mask
    08003b00 0a800307 08003c00 ffffffff     #   TCA_FLOWER_KEY_ARP_TIP, its mask
    05003d00 01000000 05003e00 ff000000     #   TCA_FLOWER_KEY_ARP_OP request, its mask
    ${keys}
    08001600 08000000                       #   TCA_FLOWER_FLAGS not_in_hw
    08005600 00000000                       #   TCA_FLOWER_IN_HW_COUNT 0
    ${u16(0xb0 + ofEdits)} 0300             #   TCA_FLOWER_ACT
    ${u16(0xac + ofEdits)} 0100             #     action 1
    0c000100 736b6265 64697400              #       TCA_ACT_KIND skbedit
    44000400                                #       TCA_ACT_STATS: basic, basic_hw, queue
    14000100 00000000 00000000 00000000 00000000
    14000700 00000000 00000000 00000000 00000000
    18000300 00000000 00000000 00000000 00000000 00000000
    08000a00 00000000                       #       TCA_ACT_IN_HW_COUNT 0
    ${u16(0x50 + ofEdits)} 0200             #       TCA_ACT_OPTIONS
    18000200 01000000 00000000 03000000 01000000 01000000 # TCA_SKBEDIT_PARMS: index 1, pipe
    08000500 00000002                       #         TCA_SKBEDIT_MARK
    08000800 00000002                       #         TCA_SKBEDIT_MASK
    ${edits}
    24000100 1a000000 00000000 1a000000 00000000 00000000 00000000 00000000 00000000 # TCA_SKBEDIT_TM
  `)
  bytes.writeUInt32LE(bytes.length, 0)
  return bytes
}

test('the entry that every dump begins with is no filter', () => {
  const head = hex(`
    38000000 2c000200 00000000 71000000 00000000 02000000 00000000 f2ffffff 08067f03
    0b000100 666c6f77 65720000 08000b00 00000000`)
  expect(native().decodeFilter(head)).toBeNull()
})

const decodedGrant = {
  index: 2,
  parent: CLSACT_INGRESS,
  pref: 895,
  protocol: ETH_P_ARP,
  handle: 0x907,
  kind: 'flower',
  chain: 0,
  arpOperation: { value: 1, mask: 0xff },
  arpSender: { value: address('10.128.3.9'), mask: address('255.255.255.255') },
  arpTarget: { value: address('10.128.3.7'), mask: address('255.255.255.255') },
  otherKeys: [],
  actions: [{ kind: 'skbedit', mark: 0x2000000, mask: 0x2000000, control: 3, otherEdits: [] }],
}

test('a grant filter is read back field by field', () => {
  expect(native().decodeFilter(flowerAnswer())).toEqual(decodedGrant)
})

test('what was sent reads as what it will be', () => {
  const sent = Buffer.from(tcSent.filterReplace)
  sent.writeUInt16LE(RTM_NEWTFILTER, 4)
  expect(native().decodeFilter(sent)).toEqual(decodedGrant)
})

test('other keys and other edits are told', () => {
  const keys = `
    0a000400 02000000 00010000 0a000500 ffffffff ffff0000 # TCA_FLOWER_KEY_ETH_DST, its mask
    08000100 01000100                                     # TCA_FLOWER_CLASSID`
  const edits = '08000300 07000000 06000700 03000000 # TCA_SKBEDIT_PRIORITY, TCA_SKBEDIT_PTYPE'
  expect(native().decodeFilter(flowerAnswer(keys, edits))).toEqual({
    ...decodedGrant,
    otherKeys: [4, 5, 1],
    actions: [{ ...decodedGrant.actions[0], otherEdits: [3, 7] }],
  })
})

test('a key without its mask is no key that is understood', () => {
  const bytes = flowerAnswer()
  const mask = bytes.indexOf(hex('08003a00'))
  bytes.writeUInt16LE(100, mask + 2) // TCA_FLOWER_KEY_ARP_SIP_MASK turned into something else
  expect(native().decodeFilter(bytes)).toMatchObject({ arpSender: null, otherKeys: [100, 0x39] })
})

test('a message that is cut, or lies about a length, throws with the offset', () => {
  const bytes = flowerAnswer()
  // Behind the header, the kind and the chain it may as well end: nothing says that more was to come.
  const ends = [36, 36 + 11, 36 + 12, 36 + 12 + 8]
  for (let length = 0; length < bytes.length; length++) {
    const cut = Buffer.from(bytes.subarray(0, length))
    expect(() => native().decodeFilter(cut)).toThrow(/at byte \d+/)
    if (length < 36 || ends.includes(length)) continue
    cut.writeUInt32LE(length, 0)
    expect(() => native().decodeFilter(cut)).toThrow(expect.objectContaining({ offset: expect.any(Number) }))
  }
  const options = bytes.indexOf(hex('0200 0600 0800')) - 2
  bytes.writeUInt16LE(0xffff, options)
  expect(() => native().decodeFilter(bytes)).toThrow(`attribute length 65535 at byte ${options}`)
  bytes.writeUInt16LE(3, options)
  expect(() => native().decodeFilter(bytes)).toThrow(`attribute length 3 at byte ${options}`)
  expect(() => native().decodeFilter(ofType(flowerAnswer(), 45))).toThrow('message type 45 is no filter at byte 4')
})

test('spoilt bytes are read or refused, and never past their end', () => {
  const bytes = flowerAnswer()
  const change = fc.tuple(fc.nat(bytes.length - 1), fc.nat(255))
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), (changes) => {
      const spoilt = Buffer.from(bytes)
      for (const [at, value] of changes) spoilt[at] = value
      try {
        native().decodeFilter(spoilt)
      } catch (error) {
        expect(error).toMatchObject({ offset: expect.any(Number) })
        expect((error as { offset: number }).offset).toBeLessThanOrEqual(spoilt.length)
      }
    }),
    { numRuns: 3000 },
  )
})

function ofType(message: Buffer, type: number): Buffer {
  message.writeUInt16LE(type, 4)
  return message
}

// A real kernel.

const node = 'tc-test'
let netns: number
let socket: NativeSocket
let index: number

beforeAll(async () => {
  ip('netns', 'add', node)
  netns = await native().openNamespace(node)
})
afterAll(() => {
  native().closeNamespace(netns)
  ip('netns', 'del', node)
})
beforeEach(async () => {
  ip('-n', node, 'link', 'add', 'tcbr', 'type', 'bridge')
  index = ipLinks('-n', node).get('tcbr') ?? 0
  socket = await native().openSocket(NETLINK_ROUTE, netns)
})
afterEach(() => {
  socket.close()
  ip('-n', node, 'link', 'del', 'tcbr')
})

const tc = (...args: string[]) => execFileSync('tc', ['-n', node, ...args], { encoding: 'utf8' })
const qdiscs = () =>
  (JSON.parse(tc('-j', 'qdisc', 'show', 'dev', 'tcbr')) as { kind: string }[]).map(({ kind }) => kind)

async function exchange(...requests: Buffer[]) {
  const { end, bytes } = await socket.exchange(Buffer.concat(requests), MINUTE)
  expect(end).toBe('complete')
  return [...readMessages(bytes)]
}

async function filters(pref = 0, protocol = 0) {
  const answers = await exchange(native().encodeFilterDump(index, pref, protocol))
  return answers.filter(({ type }) => type === RTM_NEWTFILTER).map(({ bytes }) => native().decodeFilter(bytes))
}

test('clsact comes, and comes again', async () => {
  expect((await exchange(native().encodeClsactReplace(index))).map(errnoOf)).toEqual([0])
  expect(qdiscs()).toContain('clsact')
  expect((await exchange(native().encodeClsactReplace(index))).map(errnoOf)).toEqual([0])
  expect(await filters()).toEqual([])
  expect(qdiscs()).toContain('clsact')
})

test('a filter of another kind is read for what it is, and chosen by preference and protocol', async () => {
  tc('qdisc', 'add', 'dev', 'tcbr', 'clsact')
  const match = ['u32', 'match', 'u32', '0', '0', 'action', 'mirred', 'egress', 'redirect', 'dev', 'tcbr']
  tc('filter', 'add', 'dev', 'tcbr', 'ingress', 'pref', '7', 'protocol', 'ip', ...match)
  tc('filter', 'add', 'dev', 'tcbr', 'ingress', 'pref', '895', 'protocol', 'arp', ...match)
  tc('filter', 'add', 'dev', 'tcbr', 'egress', 'pref', '9', 'protocol', 'ip', ...match)

  const listed = await filters()
  expect(listed.map((filter) => filter?.handle ?? null)).toEqual([
    null,
    0x80000000,
    0x80000800,
    null,
    0x80100000,
    0x80100800,
  ])
  expect(listed[2]).toEqual({
    ...{ index, parent: CLSACT_INGRESS, pref: 7, protocol: ETH_P_IP, handle: 0x80000800, kind: 'u32', chain: 0 },
    ...{ arpOperation: null, arpSender: null, arpTarget: null, otherKeys: [], actions: [] },
  })
  expect((await filters(895, ETH_P_ARP)).map((filter) => filter?.pref ?? null)).toEqual([null, 895, 895])
  expect(await filters(895, ETH_P_IP)).toEqual([])

  const removed = { index, pref: 7, protocol: ETH_P_IP, handle: 0x80000800, kind: 'u32' }
  expect((await exchange(native().encodeFilterDelete(removed))).map(errnoOf)).toEqual([0])
  expect(tc('filter', 'show', 'dev', 'tcbr', 'ingress', 'pref', '7')).not.toContain('800::800')
  expect(tc('filter', 'show', 'dev', 'tcbr', 'ingress', 'pref', '895')).toContain('::800 order')
})

test('a filter of another chain says so', async () => {
  tc('qdisc', 'add', 'dev', 'tcbr', 'clsact')
  tc(
    'filter',
    'add',
    'dev',
    'tcbr',
    'ingress',
    'chain',
    '5',
    'pref',
    '7',
    'protocol',
    'ip',
    'u32',
    'match',
    'u32',
    '0',
    '0',
  )
  expect((await filters()).map((filter) => filter?.chain ?? null)).toEqual([null, 5, 5])
})

test('the flags of the requests are those of a change and of a dump', () => {
  const flags = (request: Buffer) => request.readUInt16LE(6)
  expect(flags(native().encodeFilterDump(2, 0, 0))).toBe(NLM_F_REQUEST | NLM_F_DUMP)
  for (const change of [native().encodeClsactReplace(2), native().encodeFilterReplace(grant)]) {
    expect(flags(change) & NLM_F_ACK).toBe(NLM_F_ACK)
  }
})

test('a grant filter is made, listed and deleted', async (context) => {
  await need(context, 'flower')
  const made = { ...grant, index }
  const requests = [native().encodeClsactReplace(index), native().encodeFilterReplace(made)]
  expect((await exchange(...requests)).map(errnoOf)).toEqual([0, 0])
  const shown = tc('filter', 'show', 'dev', 'tcbr', 'ingress', 'protocol', 'arp', 'pref', '895')
  for (const part of [
    'handle 0x907',
    'arp_op request',
    'arp_tip 10.128.3.7',
    'arp_sip 10.128.3.9',
    'skbedit  mark 33554432',
  ]) {
    expect(shown).toContain(part)
  }
  expect(await filters(895, ETH_P_ARP)).toEqual([null, { ...decodedGrant, index }])

  const removed = { ...made, protocol: ETH_P_ARP, kind: 'flower' }
  expect((await exchange(native().encodeFilterDelete(removed))).map(errnoOf)).toEqual([0])
  expect((await filters()).filter((filter) => filter !== null)).toEqual([])
})
