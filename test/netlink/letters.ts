/** Requests for letters, and kernels that answer them. */
import type { Host } from '../../src/kernel/host.js'
import { MalformedMessage } from '../../src/kernel/netlink/errors.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { type Answer, fakeHost } from '../support/fake-host.js'

/** A list of single bytes; 'x' cannot be read, '-' is not wanted. */
export const letters: Request<string> = {
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
export const one: Request<string> = { ...letters, what: 'one letter', flags: 0 }
export const remove: Request<never> = {
  ...letters,
  what: 'remove a letter',
  type: 17,
  flags: 4,
  decode: () => undefined,
}

export const bytes = (...texts: string[]) => texts.map((text) => Buffer.from(text))

/** Answers each request with what the function of its place returns. */
export function answering(...answers: ((request: Message) => Answer)[]): Host {
  return fakeHost((requests) => requests.flatMap((request, i) => answers[i]?.(request) ?? []))
}
