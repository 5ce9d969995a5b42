/**
 * Reads are fatal: what a pass cannot see, it would take for gone. So a reply is whole, or it is an error that names
 * the read; and what was interrupted by concurrent changes is asked again, a few times.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Host } from '../kernel/host.js'
import { NLM_F_DUMP } from '../kernel/linux.js'
import { type AskOptions, ask, type Reply } from '../kernel/netlink/ask.js'
import { NetlinkError } from '../kernel/netlink/errors.js'
import type { Request } from '../kernel/netlink/request.js'
import { ReadError, type ReadErrorCode } from './errors.js'
import { PRIVILEGE_HINT } from './privilege.js'

/** The wait before each fresh try, in milliseconds: whoever is changing the node gets time to finish. */
const FRESH_TRIES_MS = [5, 20, 50, 100]

/** What was read does not fit together any more: start again. */
export class Stale extends Error {
  constructor(
    readonly read: string,
    readonly reason: string,
  ) {
    super(`${read}: ${reason}`)
  }
}

/** Runs a whole reading until none of its parts was interrupted. @throws ReadError INTERRUPTED after a few tries. */
export async function freshly<T>(reading: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (const delay of [...FRESH_TRIES_MS, null]) {
    try {
      return await reading()
    } catch (error) {
      if (!(error instanceof Stale)) throw error
      if (delay === null) {
        throw new ReadError({
          read: error.read,
          code: 'INTERRUPTED',
          reason: `${error.reason}, in each of ${FRESH_TRIES_MS.length + 1} tries`,
          hint: 'the node is changing all the time; try again when it is quieter',
        })
      }
      await sleep(delay)
      if (signal?.aborted) throw aborted(error.read)
    }
  }
  throw new Error('unreachable')
}

/** The lists that a batch of requests came to, by place. */
export type Lists<R extends readonly Request<unknown>[]> = {
  readonly [K in keyof R]: R[K] extends Request<infer T> ? readonly T[] : never
}

export interface ReadOptions extends AskOptions {
  /** Errnos by name that mean, in answer to a question for a list: it is empty. */
  readonly empty?: readonly string[]
  /** Errnos by name that mean: what was asked about has gone since it was listed. */
  readonly gone?: readonly string[]
}

/** Asks, and believes only what is whole. @throws ReadError, or what makes `freshly` try again. */
export async function readLists<const R extends readonly Request<unknown>[]>(
  host: Host,
  requests: R,
  { empty = [], gone = [], ...options }: ReadOptions = {},
): Promise<Lists<R>> {
  let replies: readonly Reply<unknown>[]
  try {
    replies = (await ask(host, requests, options)) as readonly Reply<unknown>[]
  } catch (error) {
    if (error instanceof NetlinkError) throw readError(requests[0]?.what ?? 'nothing', error)
    throw error
  }
  const lists = replies.map(({ items, error, interrupted }, i) => {
    const { what = '', flags = 0 } = requests[i] ?? {}
    if (error !== null) {
      if ((flags & NLM_F_DUMP) === NLM_F_DUMP && empty.includes(error.code)) return []
      if (gone.includes(error.code)) throw new Stale(what, 'what it is about has gone meanwhile')
      throw readError(what, error)
    }
    if (interrupted) throw new Stale(what, 'interrupted by concurrent changes')
    return items
  })
  return lists as unknown as Lists<R>
}

const CODES: Readonly<Record<string, ReadErrorCode>> = {
  TIMEOUT: 'TIMEOUT',
  ABORTED: 'ABORTED',
  EPERM: 'PRIVILEGE',
  EACCES: 'PRIVILEGE',
}

/** A read that the kernel refused, or that did not come to its end. */
export function readError(read: string, error: NetlinkError): ReadError {
  const code = CODES[error.code] ?? 'FAILED'
  const hint = code === 'PRIVILEGE' ? PRIVILEGE_HINT : code === 'TIMEOUT' ? 'wait longer with --timeout' : undefined
  const reason = error.message.startsWith(`${read}: `) ? error.message.slice(read.length + 2) : error.message
  return new ReadError({ read, code, reason, hint, cause: error })
}

export function aborted(read: string): ReadError {
  return new ReadError({ read, code: 'ABORTED', reason: 'cancelled' })
}
