import { closeSync, openSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { processesIn } from '../../src/kernel/netns.js'
import { namespaceId } from '../../src/kernel/rtnetlink/namespace-id.js'
import { firstLine, TestNode } from '../support/node.js'

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await node.run('ip netns add api')
  host = await openHost({ netns: node.netnsPath })
})

afterAll(async () => {
  host?.close()
  await node?.[Symbol.asyncDispose]()
})

test('the processes in a namespace, before and after its name is gone', async () => {
  const api = await openHost({ netns: `/proc/${node.pid}/root/run/netns/api` })
  const { namespace } = api
  api.close()
  expect(await processesIn(namespace)).toEqual([])
  const inside = await node.start('ip', ['netns', 'exec', 'api', 'sh', '-c', 'sleep 60 & echo up; wait'])
  await firstLine(inside)
  const found = await processesIn(namespace)
  const commands = () => found.map((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()).sort()
  // Between fork and exec the second one is still called after the shell.
  await expect.poll(commands).toEqual(['sh', 'sleep'])
  await node.run('ip netns del api')
  expect(await processesIn(namespace)).toEqual(found)
  inside.kill('SIGKILL')
})

test('those of our own are among them, those elsewhere are not', async () => {
  const own = await openHost()
  expect(await processesIn(own.namespace)).toContain(process.pid)
  expect(await processesIn(own.namespace)).not.toContain(node.pid)
  expect(await processesIn(host.namespace)).toContain(node.pid)
  own.close()
})

test('the id that a namespace has given to another, and none', async () => {
  await node.run('ip netns add near; ip netns add far; ip netns set near 7')
  const ofDescriptor = async (descriptor: number) => {
    const [{ items, error }] = await ask(host, [namespaceId(descriptor)])
    if (error !== null) throw error
    return items[0]
  }
  const idOf = async (name: string) => {
    const descriptor = openSync(`/proc/${node.pid}/root/run/netns/${name}`, 'r')
    try {
      return await ofDescriptor(descriptor)
    } finally {
      closeSync(descriptor)
    }
  }
  expect(await idOf('near')).toBe(7)
  expect(await idOf('far')).toBe(-1)
  await expect(ofDescriptor(99_999)).rejects.toMatchObject({ name: 'NetlinkError', code: 'EBADF' })
})
