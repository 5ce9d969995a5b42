import { constants } from 'node:os'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { ask, type Reply } from '../../src/kernel/netlink/ask.js'
import { NetlinkError } from '../../src/kernel/netlink/errors.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { fromHex } from '../rtnetlink/golden/hex.js'
import { ack, endInError, fakeHost, list, object, refuse } from '../support/fake-host.js'
import { answering, bytes, letters, one, remove } from './letters.js'

const { EBUSY, ENOENT } = constants.errno

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
