/** What a pass records before it removes anything puts all of it back. */
import { expect, test } from 'vitest'
import { UsageError } from '../../src/node/errors.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { hooked, isRead, leftBehind, machine, pass } from './passes.js'

test('a sweep and its record: the node is what it was', async () => {
  await using node = await TestNode.create()
  await leftBehind(node)
  const host = await machine(node)
  try {
    const dump = await node.dump()
    const before = await node.snapshot()
    let script = ''
    let written = 0
    const recorder = {
      async record(text: string) {
        expect(written, 'nothing is removed before it is recorded').toBe(0)
        script += text
      },
    }
    const watched = hooked(host, async ({ requests = [] }) => {
      written += requests.filter((request) => !isRead(request)).length
    })
    expect((await pass(watched, { recorder })).complete).toBe(true)
    expect(await node.dump()).not.toEqual(dump)
    await node.run('sh -s', { input: script })
    expect(await node.dump()).toEqual(dump)
    // A bridge that is made anew has another index and MAC, learned neighbours come back by themselves, and rules of one
    // priority may stand in another order.
    const byNature = /^(links|addresses|neighbours|nftables): |: moved /
    const changed = difference(before, await node.snapshot())
    expect(changed.filter((line) => !byNature.test(line))).toEqual([])
    // And a pass takes it away again.
    expect((await pass(host)).complete).toBe(true)
  } finally {
    host.close()
  }
})

test('when nothing can be recorded, nothing is removed', async () => {
  await using node = await TestNode.create()
  await leftBehind(node)
  const host = await machine(node)
  try {
    const before = await node.snapshot()
    const recorder = { record: () => Promise.reject(new UsageError('--record', 'no')) }
    await expect(pass(host, { recorder })).rejects.toBeInstanceOf(UsageError)
    expect(difference(before, await node.snapshot())).toEqual([])
  } finally {
    host.close()
  }
})
