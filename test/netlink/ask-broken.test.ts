/** Answers that are not whole, or make no sense. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { MalformedMessage, NetlinkError } from '../../src/kernel/netlink/errors.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { fromHex } from '../rtnetlink/golden/hex.js'
import { ack, fakeHost, list, object } from '../support/fake-host.js'
import { answering, bytes, letters, one, remove } from './letters.js'

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

describe('an answer that comes in parts', () => {
  /** Hands over all messages but the last as a part each. */
  function inParts(whole: Host): Host {
    return {
      ...whole,
      async exchange(requests, options) {
        const messages = (await whole.exchange(requests)).toString('hex').match(/.{40}/g) ?? []
        for (const message of messages.slice(0, -1)) options?.take?.(Buffer.from(message, 'hex'))
        return Buffer.from(messages.at(-1) ?? '', 'hex')
      },
    }
  }
  const five = (request: Message) => list(request, 16, bytes('a', 'b', 'c', 'd'))

  test('is one answer', async () => {
    const replies = await ask(inParts(answering(five, five)), [letters, letters])
    const whole = { items: ['a', 'b', 'c', 'd'], error: null, interrupted: false }
    expect(replies).toEqual([whole, whole])
  })

  test('what is malformed stands at its place in the whole', async () => {
    const host = inParts(answering((request) => [...five(request), ack({ ...request, sequence: 9 }).subarray(0, 20)]))
    await expect(ask(host, [letters])).rejects.toMatchObject({ code: 'MALFORMED', offset: 100 })
  })

  test('a part that fails spoils what follows', async () => {
    const host = inParts(
      answering((request) => [object({ ...request, sequence: 9 }, 16, bytes('a')[0] as Buffer), ...five(request)]),
    )
    await expect(ask(host, [letters])).rejects.toMatchObject({ code: 'MALFORMED', offset: 0 })
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
