/** Numbers that cannot be meant, as a program may pass them: refused before the machine is asked anything. */
import { expect, test } from 'vitest'
import {
  ContainerNet,
  type LockOptions,
  lockNodeState,
  type ReconcileOptions,
  reconcile,
  UsageError,
} from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { fakeHost } from '../support/fake-host.js'

const BAD = [Number.NaN, -1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, '5', '', null, {}, 5n] as number[]
const TOO_LONG = 2 ** 31

const net = new ContainerNet()

async function refusal(running: Promise<unknown>): Promise<unknown> {
  return running.then(
    () => 'it was taken',
    (error: unknown) => error,
  )
}

function silentHost(): { host: Host; told: string[] } {
  const told: string[] = []
  const asked = (what: string) => async (): Promise<never> => {
    told.push(what)
    throw new Error(what)
  }
  const rest = { exchange: asked('exchange'), bridgeNames: asked('bridges'), run: asked('run') }
  return { host: fakeHost(() => [], { ...rest, close: () => void told.push('closed') }), told }
}

test.each([...BAD, TOO_LONG])('lockNodeState: timeoutMs %o', async (timeoutMs) => {
  const { host, told } = silentHost()
  const abort = AbortSignal.timeout(1000)
  const error = await refusal(lockNodeState(net, { host, timeoutMs, signal: abort } as LockOptions))
  expect(error).toBeInstanceOf(UsageError)
  expect(error).toMatchObject({
    option: '--lock-timeout',
    reason: expect.stringContaining(' is no number of milliseconds'),
  })
  expect(told).toEqual(['closed'])
})

const PASSES: [keyof ReconcileOptions, string, readonly number[]][] = [
  ['settleMs', '--settle', [...BAD, TOO_LONG]],
  ['freshMs', 'freshMs', [...BAD, TOO_LONG]],
  ['maxRemovals', '--max-removals', [...BAD, 1.5, 2 ** 53]],
]

test.each(PASSES)('reconcile: %s', async (name, option, values) => {
  const { host, told } = silentHost()
  await using lock = await lockNodeState(net, { host })
  for (const value of values) {
    const error = await refusal(reconcile(net, lock, { [name]: value }))
    expect(error, String(value)).toBeInstanceOf(UsageError)
    expect(error).toMatchObject({ option, code: 'USAGE' })
  }
  expect(told).toEqual([])
})

test('a pause that is none leaves the lock held', async () => {
  await using lock = await lockNodeState(net, { host: silentHost().host })
  for (const value of [...BAD, TOO_LONG]) {
    expect(await refusal(lock.pause(value)), String(value)).toBeInstanceOf(UsageError)
    expect(lock.held).toBe(true)
  }
})

test('ContainerNet: timeoutMs', () => {
  for (const timeoutMs of [...BAD.filter((value) => value !== null), TOO_LONG, 0])
    expect(() => new ContainerNet({ timeoutMs }), String(timeoutMs)).toThrow(UsageError)
})

test('what can be meant is taken', async () => {
  const { host } = silentHost()
  expect(new ContainerNet({ timeoutMs: TOO_LONG - 1 }).timeoutMs).toBe(TOO_LONG - 1)
  await using lock = await lockNodeState(net, { host, timeoutMs: 0 })
  await lock.pause(0)
  const options = { settleMs: 0.5, freshMs: TOO_LONG - 1, maxRemovals: 0 }
  // As far as the machine, which answers nothing.
  expect(await refusal(reconcile(net, lock, options))).not.toBeInstanceOf(UsageError)
})
