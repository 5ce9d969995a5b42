/** The faults that other tests rely on are the faults they say they are. */
import { constants } from 'node:os'
import { expect, test } from 'vitest'
import type { Ran } from '../../src/kernel/host.js'
import { RTM_DELLINK, RTM_GETLINK } from '../../src/kernel/linux.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import {
  ack,
  type Call,
  closingError,
  cutShort,
  failExchange,
  failReadFile,
  failRun,
  failWriteFile,
  fakeHost,
  interrupted,
  list,
  lost,
  recording,
  refused,
  rejected,
} from '../support/fake-host.js'

const { EPERM } = constants.errno

const letters: Request<string> = {
  what: 'letters',
  type: RTM_GETLINK,
  flags: 0x300,
  payload: Buffer.alloc(0),
  decode: ({ bytes, payload }) => bytes.toString('latin1', payload),
}
const remove: Request<never> = { ...letters, type: RTM_DELLINK, flags: 4, decode: () => undefined }

/** A kernel with two letters, which counts its deletions. */
function kernel() {
  const seen = { deletions: 0, exchanges: 0 }
  const host = fakeHost(
    (requests) => {
      seen.exchanges++
      return requests.flatMap((request) => {
        if (request.type === RTM_GETLINK) return list(request, 16, [Buffer.from('a'), Buffer.from('b')])
        seen.deletions++
        return [ack(request)]
      })
    },
    {
      run: async (command) => ({ status: 0, signal: null, code: null, stdout: command, stderr: '' }),
      readFile: async (path) => path,
    },
  )
  return { host, seen }
}

test('refused: the kernel never sees it, and the rest of the batch goes on in its order', async () => {
  const { host, seen } = kernel()
  const failing = failExchange(host, { of: RTM_DELLINK, nth: 2 }, refused(EPERM, 'not you'))
  const [first, second, third, all] = await ask(failing, [remove, remove, remove, letters])
  expect([first.error, third.error, all.error]).toEqual([null, null, null])
  expect(second.error).toMatchObject({ code: 'EPERM', kernelMessage: 'not you' })
  expect(all.items).toEqual(['a', 'b'])
  expect(seen.deletions).toBe(2)
})

test.each([
  ['cut short', cutShort, { error: expect.objectContaining({ code: 'TRUNCATED' }), interrupted: false }],
  ['interrupted', interrupted, { error: null, interrupted: true }],
  [
    'ending in an error',
    closingError(EPERM),
    { error: expect.objectContaining({ code: 'EPERM' }), interrupted: false },
  ],
])('a list that is %s', async (_what, fault, expected) => {
  const failing = failExchange(kernel().host, { of: RTM_GETLINK }, fault)
  const [reply] = await ask(failing, [letters])
  expect(reply).toEqual({ items: ['a', 'b'], ...expected })
})

test('the nth request counts over all exchanges; without a number all are hit', async () => {
  const second = failExchange(kernel().host, { of: RTM_GETLINK, nth: 2 }, interrupted)
  const every = failExchange(kernel().host, { of: ({ flags }) => (flags & 0x300) !== 0 }, interrupted)
  const outcomes = async (host: typeof second) => {
    const replies = [...(await ask(host, [letters])), ...(await ask(host, [letters, letters]))]
    return replies.map((reply) => reply.interrupted)
  }
  expect(await outcomes(second)).toEqual([false, true, false])
  expect(await outcomes(every)).toEqual([true, true, true])
})

test('rejected before it was asked, or after: the difference is what the kernel has done', async () => {
  const error = new Error('no socket')
  for (const [fault, deletions] of [[rejected(error), 0] as const, [lost(error), 1] as const]) {
    const { host, seen } = kernel()
    await expect(ask(failExchange(host, { of: RTM_DELLINK }, fault), [remove])).rejects.toBe(error)
    expect(seen.deletions).toBe(deletions)
  }
})

test('what no fault concerns goes out in one exchange', async () => {
  const { host, seen } = kernel()
  await ask(failExchange(host, { of: RTM_GETLINK, nth: 2 }, cutShort), [remove, letters, remove])
  expect(seen.exchanges).toBe(1)
})

test('tools and files', async () => {
  const gone: Ran = { status: 4, signal: null, code: null, stdout: '', stderr: 'busy' }
  const tools = failRun(kernel().host, { of: 'iptables-restore', nth: 1 }, async () => gone)
  expect(await tools.run('iptables-save', [])).toMatchObject({ status: 0 })
  expect(await tools.run('iptables-restore', [])).toEqual(gone)
  expect(await tools.run('iptables-restore', [])).toMatchObject({ status: 0 })

  const files = failReadFile(kernel().host, { of: '/proc/net/x' }, rejected(new Error('EACCES')))
  await expect(files.readFile('/proc/net/x')).rejects.toThrow('EACCES')
  expect(await files.readFile('/proc/net/y')).toBe('/proc/net/y')

  const written: string[] = []
  const whole = kernel().host
  const writer = { ...whole, writeFile: async (path: string, text: string) => void written.push(`${path} ${text}`) }
  const writes = failWriteFile(writer, { of: '/proc/sys/x', nth: 2 }, rejected(new Error('EROFS')))
  await writes.writeFile('/proc/sys/x', '1')
  await expect(writes.writeFile('/proc/sys/x', '2')).rejects.toThrow('EROFS')
  await writes.writeFile('/proc/sys/y', '3')
  await expect(whole.writeFile('/proc/sys/x', '4')).rejects.toThrow('cannot write')
  expect(written).toEqual(['/proc/sys/x 1', '/proc/sys/y 3'])
})

test('a record of everything that was asked', async () => {
  const calls: Call[] = []
  const host = recording(kernel().host, calls)
  await ask(host, [letters, remove])
  await host.run('iptables-restore', ['--noflush'], { input: '*mangle' })
  await host.readFile('/proc/net/x')
  expect(calls).toMatchObject([
    { type: RTM_GETLINK, sequence: 0 },
    { type: RTM_DELLINK, sequence: 1 },
    { command: 'iptables-restore', args: ['--noflush'], input: '*mangle' },
    { path: '/proc/net/x' },
  ])
})
