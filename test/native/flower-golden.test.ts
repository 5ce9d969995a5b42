/**
 * Flower filters as Debian's 6.1 and 6.12 wrote them (test/vm/capture-filters.sh, in a guest of scripts/vm.sh), against
 * what tc printed of each, which stands beside the bytes in golden/.
 *
 * @module-tag guest
 */
import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { type NativeAction, type NativeFilter, native } from '../../src/kernel/native.js'
import { ownFilter } from '../../src/node/ownership.js'
import { Subnet } from '../../src/node/subnet.js'
import { fromHex } from '../rtnetlink/golden/hex.js'

const SKBEDIT: NativeAction = { kind: 'skbedit', mark: 33554432, mask: 0x2000000, control: 3, otherEdits: [] } // pipe
const GACT: NativeAction = { kind: 'gact', mark: null, mask: null, control: null, otherEdits: [] }
const PEDIT: NativeAction = { ...GACT, kind: 'pedit' }
const ALL = [255, 255, 255, 255]

/** `# filter protocol arp pref 895 flower chain 0 handle 0x907`, on the bridge that was given index 7. */
const GRANT: NativeFilter = {
  index: 7,
  parent: 0xfffffff2, // tc filter show … ingress
  pref: 895,
  protocol: 0x0806,
  handle: 0x907,
  kind: 'flower',
  chain: 0,
  arpOperation: { value: 1, mask: 0xff },
  arpSender: { value: Buffer.of(10, 128, 3, 9), mask: Buffer.from(ALL) },
  arpTarget: { value: Buffer.of(10, 128, 3, 7), mask: Buffer.from(ALL) },
  otherKeys: [],
  actions: [SKBEDIT],
}

/** What each says otherwise than a grant's filter. */
const EXPECTED: Record<string, Partial<NativeFilter>> = {
  'a grant': {},
  'kept out of hardware': {},
  'another key': { otherKeys: [63, 64] }, // TCA_FLOWER_KEY_ARP_SHA and its mask
  'another input': { otherKeys: [2] }, // TCA_FLOWER_INDEV
  'a class': { otherKeys: [1] }, // TCA_FLOWER_CLASSID
  'a sender of 24 bits': { arpSender: { value: Buffer.of(10, 128, 3, 0), mask: Buffer.of(255, 255, 255, 0) } },
  'no target': { arpTarget: null },
  'a reply': { arpOperation: { value: 2, mask: 0xff } },
  'no action': { actions: [] },
  'another action': { actions: [GACT] },
  'a second action': { actions: [SKBEDIT, GACT] },
  'an action before': { actions: [PEDIT, SKBEDIT] },
  'another mark': { actions: [{ ...SKBEDIT, mark: 16777216, mask: 0x1000000 }] },
  'a mark without a mask': { actions: [{ ...SKBEDIT, mask: null }] },
  'a priority besides': { actions: [{ ...SKBEDIT, otherEdits: [3] }] }, // TCA_SKBEDIT_PRIORITY
  'let through': { actions: [{ ...SKBEDIT, control: 0 }] }, // pass
}

/** The captured messages by name. */
function golden(kernel: string): Map<string, Buffer> {
  const text = readFileSync(new URL(`./golden/flower-${kernel}.txt`, import.meta.url), 'utf8')
  return new Map(
    [...text.matchAll(/^\[(.*)\]$([^[]*)/gm)].map(([, name = '', message = '']) => [name, fromHex(message)]),
  )
}

describe.each(['6.1', '6.12'])('on %s', (kernel) => {
  const captured = golden(kernel)

  test('there is one of each', () => {
    expect([...captured.keys()]).toEqual(Object.keys(EXPECTED))
  })

  test.each([...captured])('%s is read as tc reads it', (name, message) => {
    expect(native().decodeFilter(message)).toEqual({ ...GRANT, ...EXPECTED[name] })
  })

  test('none but a grant of the bridge is taken for one', () => {
    const isOwn = (message: Buffer) => {
      const filter = native().decodeFilter(message)
      return filter !== null && 'mine' in ownFilter(filter, Subnet.containing('10.128.3.1'), new Set([7]))
    }
    const own = [...captured].filter(([, message]) => isOwn(message)).map(([name]) => name)
    // Where it is kept, and what comes after the edit, change nothing for whom it marks.
    expect(own).toEqual(['a grant', 'kept out of hardware', 'let through'])
  })
})
