/** A failure as people and programs see it: one line, one object, one exit status. */
import { GuardError, ReadError, UsageError, WiringError } from '../node/errors.js'

export const DONE = 0
export const INCOMPLETE = 1
export const WRONG_CALL = 2
export const INCONCLUSIVE = 3
export const BUSY = 4

/** `error` of the object that a failed command prints with --json. */
export interface Failure {
  readonly code: string
  readonly message: string
  /** What to do about it; null when there is nothing to suggest. */
  readonly hint: string | null
}

export function failureOf(error: unknown): Failure {
  if (
    error instanceof UsageError ||
    error instanceof ReadError ||
    error instanceof GuardError ||
    error instanceof WiringError
  ) {
    return { code: error.code, message: oneLine(error.message), hint: error.hint ?? null }
  }
  const message = oneLine(error instanceof Error ? error.message : String(error))
  return { code: 'INTERNAL', message, hint: 'a defect of netsweep; --log-level debug tells where' }
}

/** `netsweep: object: reason; hint` */
export function failureLine({ message, hint }: Failure): string {
  return `netsweep: ${message}${hint === null ? '' : `; ${oneLine(hint)}`}\n`
}

/** Cancelled before anything was changed is inconclusive, whatever was waited for: 4 says that trying again later helps. */
export function exitStatus(error: unknown): number {
  if (error instanceof UsageError) return WRONG_CALL
  if (error instanceof WiringError) return INCOMPLETE
  return error instanceof GuardError && error.code === 'BUSY' ? BUSY : INCONCLUSIVE
}

function oneLine(text: string): string {
  return text.trim().replace(/\s*\n\s*/g, ' ')
}
