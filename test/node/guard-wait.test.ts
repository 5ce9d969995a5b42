/** Waiting in the process's own queue for the node-state lock, with no machine behind it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { lockNodeState } from '../../src/node/guard.js'
import { ContainerNet } from '../../src/node/net.js'

const net = new ContainerNet()
const host = { namespace: { device: 0, inode: process.pid }, close() {} } as unknown as Host

setFlagsFromString('--expose_gc')
const collect = runInNewContext('gc') as () => void

test('it ends in time while memory is collected, and whoever comes next has its turn', async () => {
  const held = await lockNodeState(net, { host })
  const late = lockNodeState(net, { host, timeoutMs: 200 }).catch((error: unknown) => error)
  const next = lockNodeState(net, { host, timeoutMs: 60_000 })
  const collecting = setInterval(collect, 10)
  try {
    expect(await Promise.race([late, sleep(20_000, 'it waits for ever')])).toMatchObject({ code: 'BUSY' })
  } finally {
    clearInterval(collecting)
  }
  await held.release()
  await (await next).release()
})

test('it ends when it is cancelled', async () => {
  await using _held = await lockNodeState(net, { host })
  const abort = new AbortController()
  const cancelled = lockNodeState(net, { host, signal: abort.signal }).catch((error: unknown) => error)
  abort.abort()
  expect(await cancelled).toMatchObject({ code: 'ABORTED' })
})
