/** That the node which is measured is what it must be, and that another one is refused. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { assertSame, wiredByOracle } from '../../bench/expected.mjs'
import { captureLeftovers } from '../../bench/leftovers.mjs'
import { Node } from '../../bench/node.mjs'
import { need } from '../support/machine.js'

const SIZE = { links: 20, routes: 3, rules: 50, workloads: 3, tenants: 2 }

beforeEach((context) => need(context, 'nft'))

let node: Node
beforeAll(async () => {
  node = await Node.create()
})
afterAll(() => node.end())

test('a node is wired as the oracle wires it, grows, and is swept of exactly what is put back', async () => {
  await node.grow({ ...SIZE, links: 0, routes: 0, rules: 0 })
  assertSame('wiring', await node.dump(), await wiredByOracle(3, 2))

  await node.grow(SIZE)
  const dump = await node.dump()
  expect(dump.match(/^link v[cp]\d+/gm)).toHaveLength(20)
  expect(dump.match(/^route 20\./gm)).toHaveLength(3)
  expect(dump.match(/^filter -A KUBE-0 /gm)).toHaveLength(50)

  const leftovers = await captureLeftovers(node)
  expect(leftovers.bridges).toHaveLength(2)
  const subject = node.subject()
  expect(await subject.ask('sweep')).toMatchObject({ bridges: 2, addresses: 3 })
  const swept = await node.dump()
  await leftovers.restore()
  await expect(subject.ask('idle')).rejects.toThrow('there was something to do')
  expect(await node.dump()).toBe(swept)

  await leftovers.restore()
  await node.run('ip', ['rule', 'del', 'priority', '1202'])
  expect(await node.oracle('sweep')).toContain('bridge yah0-')
  expect(await node.dump()).toBe(swept)
})

test('another state is refused, and told', () => {
  expect(() => assertSame('a pass', 'link a\nlink b\n', 'link a\nlink c\n')).toThrow(
    /nothing of it is reported:\n\+ link b\n- link c$/,
  )
  expect(() => assertSame('a pass', 'link a\nlink a\n', 'link a\n')).toThrow('another number of times')
  expect(() => assertSame('a pass', 'link a\n', 'link a\n')).not.toThrow()
})
