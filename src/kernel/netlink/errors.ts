/** What goes wrong between us and the kernel. Matched by class and code, never by text. */
import { constants } from 'node:os'
import { getSystemErrorMap } from 'node:util'

/** What a NetlinkError is made from. */
export interface NetlinkErrorFields {
  /** What was being done, for people: `delete rule priority 1202 …`. */
  readonly operation: string
  /** The errno's name ('EBUSY'), or 'TRUNCATED', 'TIMEOUT', 'ABORTED', 'MALFORMED', … when no errno tells it. */
  readonly code: string
  /** Positive, as in errno(3). */
  readonly errno?: number | undefined
  /** The kernel's own words (extended ack). */
  readonly kernelMessage?: string | undefined
  /** Bytes into the message where it went wrong: the request's when the kernel says so, else the answer's. */
  readonly offset?: number | undefined
  readonly cause?: unknown
}

/** An exchange that did not come to its end, a request that the kernel refused, an answer that makes no sense. */
export class NetlinkError extends Error {
  override readonly name = 'NetlinkError'
  readonly operation: string
  readonly code: string
  readonly errno: number | undefined
  readonly kernelMessage: string | undefined
  readonly offset: number | undefined

  constructor(fields: NetlinkErrorFields) {
    super(compose(fields), fields.cause === undefined ? undefined : { cause: fields.cause })
    this.operation = fields.operation
    this.code = fields.code
    this.errno = fields.errno
    this.kernelMessage = fields.kernelMessage
    this.offset = fields.offset
  }

  /** An error that carries an errno: the kernel's answer, or a system call's. */
  static fromErrno(
    operation: string,
    errno: number,
    details: Pick<NetlinkErrorFields, 'kernelMessage' | 'offset' | 'cause'> = {},
  ): NetlinkError {
    return new NetlinkError({ operation, code: errnoName(errno), errno, ...details })
  }
}

/** Bytes that are no well-formed netlink message, or not one of the object they were taken for. */
export class MalformedMessage extends Error {
  override readonly name = 'MalformedMessage'

  /** `offset`: bytes into the buffer that was being read. */
  constructor(
    readonly reason: string,
    readonly offset: number,
  ) {
    super(`${reason} at byte ${offset}`)
  }
}

/** 'EBUSY' for 16; 'errno 524' for a number that has no name here. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? `errno ${errno}`
}

/** Not the kernel's: other names of EOPNOTSUPP and EAGAIN. */
const SYNONYMS: readonly string[] = ['ENOTSUP', 'EWOULDBLOCK']

/** By errno, made once: a pass is told up to 253 times that there is no such link. */
const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(constants.errno).flatMap(([name, errno]) => (SYNONYMS.includes(name) ? [] : [[errno, name] as const])),
)

let descriptions: ReadonlyMap<number, [string, string]> | undefined

function describe(errno: number): string | undefined {
  descriptions ??= getSystemErrorMap()
  return descriptions.get(-errno)?.[1]
}

function compose({ operation, code, errno, kernelMessage, cause }: NetlinkErrorFields): string {
  const description = errno === undefined ? undefined : describe(errno)
  let text = `${operation}: ${code}`
  if (description !== undefined) text += ` (${description})`
  if (kernelMessage !== undefined) text += `: ${kernelMessage}`
  else if (cause instanceof Error) text += `: ${cause.message}`
  return text
}
