/** Asks the kernel: a batch of requests out, for each what it answered, and whether that may be believed. */
import type { ExchangeOptions, Host } from '../host.js'
import {
  NLM_F_ACK,
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLM_F_DUMP,
  NLM_F_DUMP_INTR,
  NLMSG_DONE,
  NLMSG_ERROR,
  NLMSG_HDRLEN,
  NLMSG_NOOP,
  NLMSG_OVERRUN,
  NLMSGERR_ATTR_MSG,
  NLMSGERR_ATTR_OFFS,
} from '../linux.js'
import { AttributeReader } from './attribute.js'
import { errnoName, MalformedMessage, NetlinkError } from './errors.js'
import { align, type Message, readMessages, writeRequests } from './message.js'
import type { Request } from './request.js'

/** What one request came to. */
export interface Reply<T> {
  /** What was listed. All that there is only when `error` is null and `interrupted` is false. */
  readonly items: readonly T[]
  /**
   * Why the answer is no full answer: the kernel's errno, with its own words; 'TRUNCATED' when the end of the answer is
   * missing; 'MALFORMED' for a message that cannot be read; 'ENOBUFS' when the kernel dropped some of it.
   */
  readonly error: NetlinkError | null
  /** What was listed changed while it was being listed: some of it may be missing. */
  readonly interrupted: boolean
}

export interface AskOptions extends ExchangeOptions {
  /** Errnos by name that are no error in answer to a question for one object: there is none. A list is never absent. */
  readonly absent?: readonly string[]
}

/** The reply of each request, by its place. */
export type Replies<R extends readonly Request<unknown>[]> = {
  readonly [K in keyof R]: R[K] extends Request<infer T> ? Reply<T> : never
}

/**
 * Sends all requests in one exchange. What the kernel answers to each, errors included, is in its reply.
 *
 * @throws NetlinkError when the exchange itself failed, or when what came back cannot be told apart by request.
 */
export async function ask<const R extends readonly Request<unknown>[]>(
  host: Host,
  requests: R,
  { absent, ...options }: AskOptions = {},
): Promise<Replies<R>> {
  const answers = new Answers(requests, absent)
  if (requests.length > 0) {
    const keep = requests.flatMap(({ keep }, request) => (keep === undefined ? [] : [{ ...keep, request }]))
    const take = (part: Buffer): void => answers.take(part)
    const all = { ...options, take, ...(keep.length > 0 && { keep }) }
    answers.take(await host.exchange(writeRequests(requests), all))
  }
  return answers.replies() as unknown as Replies<R>
}

/** The answers to a batch, while they come in. */
class Answers {
  readonly #answers: readonly Answer<unknown>[]
  #taken = 0
  #malformed: NetlinkError | undefined

  constructor(
    readonly requests: readonly Request<unknown>[],
    absent: readonly string[] = [],
  ) {
    this.#answers = requests.map((request) => new Answer(request, absent))
  }

  /** Takes the next messages. What cannot be told apart by request spoils everything. */
  take(bytes: Buffer): void {
    if (this.#malformed !== undefined) return
    try {
      for (const message of readMessages(bytes)) {
        const answer = this.#answers[message.sequence]
        if (answer === undefined) {
          const at = message.bytes.byteOffset - bytes.byteOffset
          throw new MalformedMessage(`an answer to request ${message.sequence}`, at)
        }
        answer.take(message)
      }
      this.#taken += bytes.length
    } catch (cause) {
      if (!(cause instanceof MalformedMessage)) throw cause
      const inAll = new MalformedMessage(cause.reason, this.#taken + cause.offset)
      this.#malformed = malformed(subject(this.requests), inAll)
    }
  }

  replies(): Reply<unknown>[] {
    if (this.#malformed !== undefined) throw this.#malformed
    return this.#answers.map((answer) => answer.reply())
  }
}

/** The answer to one request, while it comes in. */
class Answer<T> {
  readonly #items: T[] = []
  #error: NetlinkError | null = null
  #interrupted = false
  #ended = false

  constructor(
    readonly request: Request<T>,
    readonly absent: readonly string[],
  ) {}

  /** Takes the next message. What cannot be read is this request's error, and no other's. */
  take(message: Message): void {
    try {
      if (this.#ended) throw new MalformedMessage(`a message of type ${message.type} behind the end of the answer`, 0)
      if ((message.flags & NLM_F_DUMP_INTR) !== 0) this.#interrupted = true
      this.#read(message)
    } catch (cause) {
      if (!(cause instanceof MalformedMessage)) throw cause
      this.#fail(malformed(this.request.what, cause))
    }
  }

  reply(): Reply<T> {
    if (!this.#ended) {
      const cause = new Error('the answer has no end')
      this.#fail(new NetlinkError({ operation: this.request.what, code: 'TRUNCATED', cause }))
    }
    return { items: this.#items, error: this.#error, interrupted: this.#interrupted }
  }

  /** A dump ends with NLMSG_DONE, a change with NLMSG_ERROR, a question for one object with that object. Errors end all. */
  #read(message: Message): void {
    const { flags, what } = this.request
    const isDump = (flags & NLM_F_DUMP) === NLM_F_DUMP
    switch (message.type) {
      case NLMSG_NOOP:
        return
      case NLMSG_OVERRUN:
        this.#fail(new NetlinkError({ operation: what, code: 'ENOBUFS' }))
        return
      case NLMSG_DONE: {
        if (!isDump) throw new MalformedMessage('the end of a list where none was asked for', 0)
        this.#ended = true
        const errno = errnoOf(message)
        if (errno !== 0) this.#fail(refusal(what, errno, message, message.payload + ERRNO))
        return
      }
      case NLMSG_ERROR: {
        const errno = errnoOf(message)
        // An ack does not end a dump: its list does.
        if (errno !== 0 || !isDump) this.#ended = true
        if (errno !== 0 && (isDump || !this.absent.includes(errnoName(errno))))
          this.#fail(refusal(what, errno, message, endOfEcho(message)))
        return
      }
      default: {
        if (!isDump && (flags & NLM_F_ACK) === 0) this.#ended = true
        const item = this.request.decode(message)
        if (item !== undefined) this.#items.push(item)
      }
    }
  }

  /** The first thing that went wrong is the one that is told. */
  #fail(error: NetlinkError): void {
    this.#error ??= error
  }
}

/** Bytes of the `int error` that NLMSG_ERROR and NLMSG_DONE begin with. */
const ERRNO = 4

/** The errno that a closing message carries, positive; 0 for none. */
function errnoOf(message: Message): number {
  if (message.bytes.length < message.payload + ERRNO) throw new MalformedMessage('errno is cut short', message.payload)
  const errno = message.bytes.readInt32LE(message.payload)
  if (errno > 0) throw new MalformedMessage(`errno ${errno} is not negative`, message.payload)
  return -errno
}

/** Where in a NLMSG_ERROR the echo of the request ends: only its header comes back when NLM_F_CAPPED says so. */
function endOfEcho(message: Message): number {
  const start = message.payload + ERRNO
  if (message.bytes.length < start + NLMSG_HDRLEN) throw new MalformedMessage('echoed request is cut short', start)
  if ((message.flags & NLM_F_CAPPED) !== 0) return start + NLMSG_HDRLEN
  const length = message.bytes.readUInt32LE(start)
  if (length < NLMSG_HDRLEN) throw new MalformedMessage(`echoed request of ${length} bytes`, start)
  return start + align(length)
}

/** The kernel's refusal, with the extended ack that stands at `start` when there is one. */
function refusal(operation: string, errno: number, message: Message, start: number): NetlinkError {
  let kernelMessage: string | undefined
  let offset: number | undefined
  if ((message.flags & NLM_F_ACK_TLVS) !== 0) {
    const attributes = new AttributeReader(message.bytes, start)
    while (attributes.next()) {
      if (attributes.type === NLMSGERR_ATTR_MSG) kernelMessage = attributes.string()
      else if (attributes.type === NLMSGERR_ATTR_OFFS) offset = attributes.u32()
    }
  }
  return NetlinkError.fromErrno(operation, errno, { kernelMessage, offset })
}

function malformed(operation: string, cause: MalformedMessage): NetlinkError {
  return new NetlinkError({ operation, code: 'MALFORMED', offset: cause.offset, cause })
}

/** A batch, for people. */
function subject(requests: readonly Request<unknown>[]): string {
  const first = requests[0]?.what ?? ''
  return requests.length > 1 ? `${first} and ${requests.length - 1} more` : first
}
