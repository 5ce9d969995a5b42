import { constants } from 'node:os'
import fc from 'fast-check'
import { describe, expect, expectTypeOf, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { ask, type Reply } from '../../src/kernel/netlink/ask.js'
import { MalformedMessage, NetlinkError } from '../../src/kernel/netlink/errors.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { fromHex } from '../rtnetlink/golden/hex.js'
import { type Answer, ack, endInError, fakeHost, list, object, refuse } from '../support/fake-host.js'

const { EBUSY, ENOENT } = constants.errno

/** A list of single bytes; 'x' cannot be read, '-' is not wanted. */
const letters: Request<string> = {
  what: 'letters',
  type: 18,
  flags: 0x300,
  payload: Buffer.alloc(16),
  decode(message) {
    const letter = message.bytes.toString('latin1', message.payload, message.payload + 1)
    if (letter === 'x') throw new MalformedMessage('an x', message.payload)
    return letter === '-' ? undefined : letter
  },
}
const one: Request<string> = { ...letters, what: 'one letter', flags: 0 }
const remove: Request<never> = { ...letters, what: 'remove a letter', type: 17, flags: 4, decode: () => undefined }

const bytes = (...texts: string[]) => texts.map((text) => Buffer.from(text))

/** Answers each request with what the function of its place returns. */
function answering(...answers: ((request: Message) => Answer)[]): Host {
  return fakeHost((requests) => requests.flatMap((request, i) => answers[i]?.(request) ?? []))
}

test('a batch is one exchange, and each request gets the reply of its place and type', async () => {
  let exchanges = 0
  const host = fakeHost((requests) => {
    exchanges++
    expect(requests.map(({ type, flags, sequence }) => ({ type, flags, sequence }))).toEqual([
      { type: 18, flags: 0x301, sequence: 0 },
      { type: 17, flags: 0x005, sequence: 1 },
      { type: 18, flags: 0x001, sequence: 2 },
    ])
    return requests.flatMap((request, i) =>
      i === 0
        ? list(request, 16, bytes('a', '-', 'b'))
        : i === 1
          ? [ack(request)]
          : [object(request, 16, Buffer.from('c'))],
    )
  })
  const replies = await ask(host, [letters, remove, one])
  expectTypeOf(replies).toEqualTypeOf<readonly [Reply<string>, Reply<never>, Reply<string>]>()
  expect(replies).toEqual([
    { items: ['a', 'b'], error: null, interrupted: false },
    { items: [], error: null, interrupted: false },
    { items: ['c'], error: null, interrupted: false },
  ])
  expect(exchanges).toBe(1)
})

test('an array of like requests gives an array of like replies; of none, nothing is asked', async () => {
  const requests: Request<string>[] = []
  const host = fakeHost(() => {
    throw new Error('asked')
  })
  const replies = await ask(host, requests)
  expectTypeOf(replies).toEqualTypeOf<readonly Reply<string>[]>()
  expect(replies).toEqual([])
})

test('answers to two lists may come in pieces between each other', async () => {
  const host = fakeHost((requests) => {
    const [a = [], b = []] = requests.map((request, i) => list(request, 16, bytes(`${i}`, `${i + 5}`)))
    return [...b.slice(0, 1), ...a.slice(0, 2), ...b.slice(1), ...a.slice(2)]
  })
  const replies = await ask(host, [letters, letters])
  expect(replies.map(({ items, error }) => ({ items, error }))).toEqual([
    { items: ['0', '5'], error: null },
    { items: ['1', '6'], error: null },
  ])
})

describe('refusals', () => {
  test('an errno, with the kernel’s own words and the offset into the request', async () => {
    const host = answering((request) => [refuse(request, EBUSY, 'still in use', 28)])
    const [{ error }] = await ask(host, [remove])
    expect(error).toBeInstanceOf(NetlinkError)
    expect(error).toMatchObject({
      operation: 'remove a letter',
      code: 'EBUSY',
      errno: 16,
      kernelMessage: 'still in use',
      offset: 28,
    })
  })

  test('one request of a batch fails alone', async () => {
    const host = answering(
      (request) => [ack(request)],
      (request) => [refuse(request, ENOENT)],
      (request) => [ack(request)],
    )
    const replies = await ask(host, [remove, remove, remove])
    expect(replies.map(({ error }) => error?.code ?? null)).toEqual([null, 'ENOENT', null])
  })

  test('a list that ends in an error is an error, not an empty list', async () => {
    const host = answering((request) => [endInError(request, ENOENT, 'ipv4: FIB table does not exist')])
    const [reply] = await ask(host, [letters])
    expect(reply.error).toMatchObject({ code: 'ENOENT', kernelMessage: 'ipv4: FIB table does not exist' })
  })

  test('what was listed before the error is there, beside the error', async () => {
    const host = answering((request) => [...list(request, 16, bytes('a')).slice(0, -1), endInError(request, EBUSY)])
    const [reply] = await ask(host, [letters])
    expect(reply.items).toEqual(['a'])
    expect(reply.error?.code).toBe('EBUSY')
  })

  // As a 6.18 kernel answered.
  test.each([
    [
      'ENODEV',
      'a link that is not there',
      one,
      '24000000 0200 0001 00000000 23000000 edffffff 2c000000120001000000000000000000',
      undefined,
    ],
    ['ENODEV', 'addresses of a link that is gone', letters, '14000000 0300 2200 00000000 23000000 edffffff', undefined],
    [
      'EINVAL',
      'a rule dump with an action',
      letters,
      '4c000000 0300 0202 00000000 23000000 eaffffff 37000100 496e76616c69642076616c75657320696e2068656164657220666f72206669622072756c652064756d7020726571756573740000',
      'Invalid values in header for fib rule dump request',
    ],
    [
      'ENOENT',
      'routes of a table that does not exist',
      letters,
      '38000000 0300 2202 00000000 23000000 feffffff 23000100697076343a20464942207461626c6520646f6573206e6f742065786973740000',
      'ipv4: FIB table does not exist',
    ],
  ])('%s for %s, as the kernel says it', async (code, _what, request, hex, words) => {
    const [reply] = await ask(
      fakeHost(() => [fromHex(hex)]),
      [request],
    )
    expect(reply).toMatchObject({ items: [], interrupted: false })
    expect(reply.error).toMatchObject({ code, kernelMessage: words })
  })

  test('without NLM_F_CAPPED the whole request comes back before the kernel’s words', async () => {
    const host = fakeHost(([request]) => {
      if (request === undefined) throw new Error('no request')
      const capped = refuse(request, EBUSY, 'still in use')
      const uncapped = Buffer.concat([capped.subarray(0, 20), request.bytes, capped.subarray(36)])
      uncapped.writeUInt32LE(uncapped.length, 0)
      uncapped.writeUInt16LE(0x200, 6)
      return [uncapped]
    })
    const [{ error }] = await ask(host, [remove])
    expect(error).toMatchObject({ code: 'EBUSY', kernelMessage: 'still in use' })
  })
})

describe('interrupted', () => {
  test.each([0, 1, 'end'] as const)('the flag on message %s', async (interruptedAt) => {
    const host = answering(
      (request) => list(request, 16, bytes('a', 'b'), { interruptedAt }),
      (request) => list(request, 16, bytes('c')),
    )
    const [first, second] = await ask(host, [letters, letters])
    expect(first).toEqual({ items: ['a', 'b'], error: null, interrupted: true })
    expect(second.interrupted).toBe(false)
  })
})

describe('an answer that is not whole is never an empty list', () => {
  test.each([
    ['a list', letters],
    ['one object', one],
    ['an ack', remove],
  ])('%s that does not come at all', async (_what, request) => {
    const [reply] = await ask(
      fakeHost(() => []),
      [request],
    )
    expect(reply.error).toMatchObject({ code: 'TRUNCATED', operation: request.what })
  })

  test('a list without its end', async () => {
    const [reply] = await ask(
      answering((request) => list(request, 16, bytes('a')).slice(0, 1)),
      [letters],
    )
    expect(reply.items).toEqual(['a'])
    expect(reply.error?.code).toBe('TRUNCATED')
  })

  test('an ack does not end a list', async () => {
    const [reply] = await ask(
      answering((request) => [ack(request)]),
      [letters],
    )
    expect(reply.error?.code).toBe('TRUNCATED')
  })

  test('an object does not acknowledge a change', async () => {
    const [reply] = await ask(
      answering((request) => [object(request, 16, Buffer.from('a'))]),
      [remove],
    )
    expect(reply.error?.code).toBe('TRUNCATED')
  })

  test('the end of a list does not acknowledge a change', async () => {
    const [reply] = await ask(
      answering((request) => list(request, 16, [])),
      [remove],
    )
    expect(reply.error?.code).toBe('MALFORMED')
  })

  test('an entry that cannot be read, though the list goes on to its end', async () => {
    const host = answering(
      (request) => list(request, 16, bytes('a', 'x', 'b')),
      (request) => list(request, 16, bytes('c')),
    )
    const [bad, good] = await ask(host, [letters, letters])
    expect(bad.error).toMatchObject({ code: 'MALFORMED', operation: 'letters', offset: 16 })
    expect(bad.error?.cause).toBeInstanceOf(MalformedMessage)
    expect(good).toEqual({ items: ['c'], error: null, interrupted: false })
  })

  test('a message behind the end', async () => {
    const [reply] = await ask(
      answering((request) => [...list(request, 16, []), object(request, 16, Buffer.from('a'))]),
      [letters],
    )
    expect(reply.error?.code).toBe('MALFORMED')
  })

  test('the kernel dropped something', async () => {
    const [reply] = await ask(
      answering((request) => [object(request, 4, Buffer.alloc(0)), ...list(request, 16, [])]),
      [letters],
    )
    expect(reply.error?.code).toBe('ENOBUFS')
  })

  test('NOOP means nothing', async () => {
    const [reply] = await ask(
      answering((request) => [object(request, 1, Buffer.alloc(0)), ...list(request, 16, [])]),
      [letters],
    )
    expect(reply).toEqual({ items: [], error: null, interrupted: false })
  })

  test.each([
    ['an errno that is cut short', (request: Message) => object(request, 3, Buffer.alloc(2))],
    ['an errno that is positive', (request: Message) => object(request, 3, Buffer.of(1, 0, 0, 0))],
    ['an echo that is cut short', (request: Message) => object(request, 2, Buffer.alloc(10, 0xff))],
    [
      'an echo of no length',
      (request: Message) => object(request, 2, Buffer.concat([Buffer.alloc(4, 0xff), Buffer.alloc(16)]), 0x200),
    ],
    ['an echo past the end', (request: Message) => object(request, 2, Buffer.alloc(20, 0xff), 0x200)],
    ['words past the end', (request: Message) => object(request, 3, fromHex('feffffff ff000100'), 0x202)],
  ])('%s', async (_what, closing) => {
    const [reply] = await ask(
      answering((request) => [closing(request)]),
      [letters],
    )
    expect(reply.error?.code).toBe('MALFORMED')
  })
})

describe('rejected', () => {
  test('an answer to a request that was not made', async () => {
    const host = fakeHost((requests) => requests.map((request) => ack({ ...request, sequence: 2 })))
    await expect(ask(host, [remove, remove])).rejects.toMatchObject({
      name: 'NetlinkError',
      code: 'MALFORMED',
      operation: 'remove a letter and 1 more',
    })
  })

  test('bytes that are no messages', async () => {
    const host = fakeHost((requests) => [...requests.map(ack), Buffer.alloc(7)])
    await expect(ask(host, [remove])).rejects.toMatchObject({ code: 'MALFORMED', offset: 36 })
  })

  test('the exchange failed: its own error', async () => {
    const error = new NetlinkError({ operation: 'exchange', code: 'TIMEOUT' })
    const host = fakeHost(() => {
      throw error
    })
    await expect(ask(host, [letters])).rejects.toBe(error)
  })

  test('what is wrong in a decoder itself is not taken for a malformed message', async () => {
    const broken: Request<string> = {
      ...letters,
      decode() {
        throw new TypeError('a bug')
      },
    }
    await expect(
      ask(
        answering((request) => list(request, 16, bytes('a'))),
        [broken],
      ),
    ).rejects.toThrow(TypeError)
  })
})

test('any answer that is cut anywhere is an error of some kind', async () => {
  const whole = await fakeHost((requests) =>
    requests.flatMap((request) => list(request, 16, bytes('a', 'b', 'c'))),
  ).exchange(Buffer.concat([fromHex('10000000 1200 0103 00000000 00000000')]))
  for (let length = 0; length < whole.length; length++) {
    const outcome = await ask(
      fakeHost(() => [whole.subarray(0, length)]),
      [letters],
    ).then(
      ([reply]) => reply.error,
      (error: unknown) => error,
    )
    expect(outcome, `cut to ${length} bytes`).toBeInstanceOf(NetlinkError)
  }
})

test('any bytes at all are replies or a NetlinkError', async () => {
  // Mostly well-framed, so that more than the framing is tried.
  const message = fc
    .record({ type: fc.nat(20), flags: fc.nat(0xffff), sequence: fc.nat(2), payload: fc.uint8Array({ maxLength: 60 }) })
    .map(({ type, flags, sequence, payload }) =>
      object({ sequence, port: 0 } as Message, type, Buffer.from(payload), flags),
    )
  const noise = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array))
  const answers = fc.array(fc.oneof({ weight: 9, arbitrary: message }, { weight: 1, arbitrary: noise }), {
    maxLength: 8,
  })
  await fc.assert(
    fc.asyncProperty(answers, async (parts) => {
      try {
        const replies = await ask(
          fakeHost(() => parts),
          [letters, remove],
        )
        const ends = new Set(
          parts.flatMap((part) => [...readMessages(part)]).map(({ sequence, type }) => `${sequence} ${type}`),
        )
        if (replies[0].error === null) expect(ends).toContain('0 3')
        if (replies[1].error === null) expect(ends).toContain('1 2')
      } catch (error) {
        expect(error).toBeInstanceOf(NetlinkError)
      }
    }),
    { numRuns: 500 },
  )
})
