/** What a caller can be told, by class and code. A failure's message is one line: the object, the reason; `hint` is the mend. */

/** A bad option or argument: nothing was read. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly code = 'USAGE'

  constructor(
    /** The option as the command spells it: `--bridge`. */
    readonly option: string,
    readonly reason: string,
    readonly hint?: string,
  ) {
    super(`${option}: ${reason}`)
  }
}

export type ReadErrorCode =
  /** Concurrent changes interrupted every try. */
  | 'INTERRUPTED'
  /** The kernel or a tool refused, failed, was cut short, or answered what is not understood. */
  | 'FAILED'
  /** The caller lacks CAP_NET_ADMIN. */
  | 'PRIVILEGE'
  /** The bridges carry gateways of two different /24s. */
  | 'TWO_SUBNETS'
  /** More would be removed than the caller allows. */
  | 'BRAKE'
  | 'TIMEOUT'
  | 'ABORTED'

/** The node could not be read with certainty, so nothing was changed. */
export class ReadError extends Error {
  override readonly name = 'ReadError'
  readonly code: ReadErrorCode
  /** Which read: `links of kind bridge`, `iptables-nft-save`. */
  readonly read: string
  readonly hint: string | undefined

  constructor(fields: {
    read: string
    code: ReadErrorCode
    reason: string
    hint?: string | undefined
    cause?: unknown
  }) {
    super(`${fields.read}: ${fields.reason}`, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.read = fields.read
    this.code = fields.code
    this.hint = fields.hint
  }
}

export type GuardErrorCode =
  /** Somebody else held the lock for the whole time allowed. */
  | 'BUSY'
  | 'ABORTED'
  /** The lock's folder or file is not there, not ours, or open to others. */
  | 'UNUSABLE'
  /** A lock that was released already, or that guards another network namespace. */
  | 'NOT_HELD'

/** The node-state lock could not be had, or does not guard what it was used for. Nothing was changed. */
export class GuardError extends Error {
  override readonly name = 'GuardError'

  constructor(
    readonly code: GuardErrorCode,
    message: string,
    readonly hint?: string,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause })
  }
}

/** A deploy or a stop that began and could not be finished. A deploy was undone as far as it could be. */
export class WiringError extends Error {
  override readonly name = 'WiringError'
  /** The errno's name, or the kind of failure of the tool. */
  readonly code: string
  /** What failed: `make veth9`. */
  readonly object: string
  readonly hint: string | undefined

  constructor(fields: {
    object: string
    code: string
    reason: string
    hint?: string | undefined
    cause?: unknown
  }) {
    super(`${fields.object}: ${fields.reason}`, fields.cause === undefined ? undefined : { cause: fields.cause })
    this.object = fields.object
    this.code = fields.code
    this.hint = fields.hint
  }
}
