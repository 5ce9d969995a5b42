/**
 * clsact and grant filters as requests; tc(8) says what came of them. test/native/tc.test.ts has their bytes.
 *
 * @module-tag guest
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { linkByName } from '../../src/kernel/rtnetlink/link.js'
import { arpFiltersOf, deleteFilter, replaceClsact, replaceGrantFilter } from '../../src/kernel/tc.js'
import { lack, need } from '../support/machine.js'
import { TestNode } from '../support/node.js'

const GONE = 4242
const GRANT = { pref: 895, mark: 0x2000000, mask: 0x2000000 }

let node: TestNode
let host: Host
let index: number

beforeAll(async () => {
  node = await TestNode.create()
  await node.run('ip link add yah0 type bridge; ip link add plain type bridge; tc qdisc add dev plain ingress')
  host = await openHost({ netns: node.netnsPath })
  index = await indexOf('yah0')
})

afterAll(async () => {
  host?.close()
  await node?.[Symbol.asyncDispose]()
})

async function refusal(request: Request<never>) {
  return (await ask(host, [request]))[0].error
}

async function indexOf(name: string): Promise<number> {
  return (await ask(host, [linkByName(name)]))[0].items[0]?.index ?? GONE
}

const qdiscs = (link: string) => node.run(`tc qdisc show dev ${link}`)
const deleteClsact = () => node.run('tc qdisc del dev yah0 clsact')

test('clsact comes, and stays when it is there', async () => {
  for (const again of [false, true]) {
    expect(await refusal(replaceClsact(index, 'clsact')), `again: ${again}`).toBeNull()
    expect(await qdiscs('yah0')).toMatch(/qdisc clsact ffff: parent ffff:fff1/)
  }
  await deleteClsact()
})

test('a plain ingress qdisc in its place stays', async () => {
  const plain = await indexOf('plain')
  const before = await qdiscs('plain')
  expect(await refusal(replaceClsact(plain, 'clsact on plain'))).toMatchObject({ operation: 'clsact on plain' })
  expect(await qdiscs('plain')).toBe(before)
})

test('a link that is gone', async () => {
  expect(await refusal(replaceClsact(GONE, 'clsact'))).toMatchObject({ code: 'ENODEV' })
  const filter = { ...GRANT, index: GONE, handle: 0x907, sender: '10.128.3.9', target: '10.128.3.7' }
  expect(await refusal(replaceGrantFilter(filter, 'filter'))).toMatchObject({ operation: 'filter', code: 'ENODEV' })
})

test('a filter on a link without clsact', async () => {
  const filter = { ...GRANT, index, handle: 0x907, sender: '10.128.3.9', target: '10.128.3.7' }
  expect(await refusal(replaceGrantFilter(filter, 'filter'))).toMatchObject({
    code: 'EINVAL',
    kernelMessage: expect.stringMatching(/^(Parent Qdisc|Failed to find qdisc|Specified qdisc|Class)/),
  })
})

test('a filter on a kernel that lacks what it takes', async (context) => {
  if ((await lack('flower')) === undefined) context.skip('this kernel has cls_flower and act_skbedit')
  const filter = { ...GRANT, index, handle: 0x907, sender: '10.128.3.9', target: '10.128.3.7' }
  expect(await refusal(replaceClsact(index, 'clsact'))).toBeNull()
  expect(await refusal(replaceGrantFilter(filter, 'filter'))).toMatchObject({
    code: 'ENOENT',
    kernelMessage: 'TC classifier not found',
  })
  await deleteClsact()
})

test('an address that is none', () => {
  const filter = { ...GRANT, index, handle: 0x907, sender: '10.128.3', target: '10.128.3.7' }
  expect(() => replaceGrantFilter(filter, 'filter')).toThrow(RangeError)
})

test('grant filters, as tc shows them; again, the same; and another target in its place', async (context) => {
  await need(context, 'flower')
  expect(await refusal(replaceClsact(index, 'clsact'))).toBeNull()
  const filter = { ...GRANT, index, handle: 0x907, sender: '10.128.3.9', target: '10.128.3.7' }
  const shown = () => node.run('tc filter show dev yah0 ingress')
  expect(await refusal(replaceGrantFilter(filter, 'filter'))).toBeNull()
  const first = await shown()
  expect(first).toMatch(/protocol arp pref 895 flower chain 0 handle 0x907/)
  expect(first).toMatch(/arp_sip 10\.128\.3\.9\n +arp_tip 10\.128\.3\.7/)
  expect(first).toMatch(/skbedit +mark 33554432\/0x2000000 pipe/)
  await node.run('tc filter del dev yah0 ingress pref 895')
  await node.run(`tc filter replace dev yah0 ingress protocol arp pref 895 handle 0x907 flower \
    arp_op request arp_sip 10.128.3.9 arp_tip 10.128.3.7 action skbedit mark 0x2000000/0x2000000`)
  const byTc = await shown()
  expect(await refusal(replaceGrantFilter(filter, 'filter'))).toBeNull()
  const numbers = / index \d+| ref \d+| bind \d+/g
  expect((await shown()).replaceAll(numbers, '')).toBe(byTc.replaceAll(numbers, ''))
  expect(first.replaceAll(numbers, '')).toBe(byTc.replaceAll(numbers, ''))

  expect(await refusal(replaceGrantFilter({ ...filter, target: '10.128.3.8' }, 'filter'))).toBeNull()
  const [{ items }] = await ask(host, [arpFiltersOf(index, 895)])
  expect(items.map(({ arpTarget }) => arpTarget?.value.join('.'))).toEqual(['10.128.3.8'])
  for (const each of items) expect(await refusal(deleteFilter(each, 'no filter'))).toBeNull()
  expect(await shown()).toBe('')
})
