/** Exit statuses and what stands beside them, for everything that can go wrong before anything is changed. */
import { describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { GuardError, type GuardErrorCode, ReadError, type ReadErrorCode } from '../../src/node/errors.js'
import { fakeHost } from '../support/fake-host.js'
import { TestNode } from '../support/node.js'
import { call } from './call.js'

const failing = (error: Error) => ({ openNode: (): Promise<Host> => Promise.reject(error) })

const READ_CODES: readonly ReadErrorCode[] = ['INTERRUPTED', 'FAILED', 'PRIVILEGE', 'TWO_SUBNETS', 'TIMEOUT', 'ABORTED']

test('an addon that cannot be loaded is told as that, also where a namespace was named', async () => {
  await using node = await TestNode.create()
  await node.run('mkdir -p /run/netns; ip netns add there; mkdir /run/none')
  for (const argv of [['show'], ['sweep', '--netns', 'there']]) {
    const { status, stdout, stderr } = await node.netsweep(argv, { env: { NETSWEEP_PREBUILD: '/run/none' } })
    expect({ status, stdout }).toEqual({ status: 3, stdout: '' })
    expect(stderr).toMatch(
      /^netsweep: the addon: cannot be loaded: No native build [^\n]+; compile it: npm rebuild [^\n]+\n$/,
    )
  }
})

describe.each(['sweep', 'show'])('%s', (command) => {
  test.each(READ_CODES)('ReadError %s: 3', async (code) => {
    const error = new ReadError({ read: 'links of kind bridge', code, reason: 'no\nluck', hint: 'try again' })
    const text = await call([command], failing(error))
    expect(text).toMatchObject({ status: 3, stdout: '' })
    expect(text.stderr).toBe('netsweep: links of kind bridge: no luck; try again\n')

    const json = await call([command, '--json'], failing(error))
    expect(json).toMatchObject({ status: 3, stderr: text.stderr })
    expect(json.json()).toEqual({ error: { code, message: 'links of kind bridge: no luck', hint: 'try again' } })
  })

  test('anything else: 3, one line, and the trace at --log-level debug alone', async () => {
    const quiet = await call([command], failing(new TypeError('x is undefined')))
    expect(quiet).toMatchObject({
      status: 3,
      stdout: '',
      stderr: 'netsweep: x is undefined; a defect of netsweep; --log-level debug tells where\n',
    })
    const loud = await call([command, '--log-level', 'debug'], failing(new TypeError('x is undefined')))
    expect(loud.status).toBe(3)
    const [record = ''] = loud.stderr.split('\n')
    expect(JSON.parse(record)).toMatchObject({ level: 20, err: { stack: expect.stringContaining('failure.test') } })
  })
})

const GUARD_STATUS: Readonly<Record<GuardErrorCode, number>> = { BUSY: 4, ABORTED: 3, UNUSABLE: 3, NOT_HELD: 3 }

test.each(Object.entries(GUARD_STATUS))('GuardError %s: %i, for lock too', async (code, status) => {
  const error = new GuardError(code as GuardErrorCode, 'the lock: not for you')
  for (const argv of [
    ['sweep', '--json'],
    ['lock', '--json', '--', 'true'],
  ]) {
    const called = await call(argv, failing(error))
    expect(called).toMatchObject({ status, stderr: 'netsweep: the lock: not for you\n' })
    expect(called.json()).toEqual({ error: { code, message: 'the lock: not for you', hint: null } })
  }
})

test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('%s ends a read that does not end by itself', async (signal) => {
  const { EventEmitter } = await import('node:events')
  const signals = new EventEmitter()
  const host = fakeHost(() => [], {
    exchange: (_requests, options) =>
      new Promise((_, reject) => {
        options?.signal?.addEventListener('abort', () =>
          reject(new ReadError({ read: 'it', code: 'ABORTED', reason: 'cancelled' })),
        )
        setImmediate(() => signals.emit(signal))
      }),
    run: async () => ({ status: null, signal: 'aborted', code: null, stdout: '', stderr: '' }),
    readFile: async () => '',
  })
  const called = await call(['show'], { signals, openNode: async () => host })
  expect(called).toMatchObject({ status: 3, stdout: '' })
  expect(called.stderr).toMatch(/^netsweep: [^\n]+\n$/)
  expect(signals.eventNames()).toEqual([])
})

test('a host that was opened is closed, whatever came of it', async () => {
  let closed = 0
  const host = fakeHost(() => [], {
    exchange: () => Promise.reject(new ReadError({ read: 'it', code: 'FAILED', reason: 'no' })),
    run: () => Promise.reject(new Error('not to be waited for')),
    readFile: async () => '',
    close: () => void closed++,
  })
  for (const argv of [['show'], ['sweep']]) expect((await call(argv, { openNode: async () => host })).status).toBe(3)
  expect(closed).toBe(2)
})
