/**
 * The numbers that a caller passes. NaN, as `Number(undefined)` is, compares as false with everything: no brake, no
 * settling, no end of waiting. So each is checked before anything is read.
 */
import { UsageError } from './errors.js'

/** What timers can wait for: of anything longer Node.js makes a millisecond. */
export const LONGEST_MS = 2 ** 31 - 1

/** Milliseconds; undefined is left to the default. @throws UsageError */
export function checkTime(option: string, milliseconds: number | undefined): void {
  if (milliseconds === undefined || isNumberUpTo(LONGEST_MS, milliseconds)) return
  throw new UsageError(option, `${said(milliseconds)} is no number of milliseconds from 0 to ${LONGEST_MS}`)
}

/** A number of things; undefined is left to the default. @throws UsageError */
export function checkCount(option: string, count: number | undefined): void {
  if (count === undefined || (isNumberUpTo(Number.MAX_SAFE_INTEGER, count) && Number.isInteger(count))) return
  throw new UsageError(option, `${said(count)} is no whole number from 0`)
}

/** JavaScript passes what it likes: a text would be compared as a number, and added as a text. */
function isNumberUpTo(most: number, value: unknown): boolean {
  return typeof value === 'number' && value >= 0 && value <= most
}

function said(value: unknown): string {
  return typeof value === 'string' ? JSON.stringify(value) : String(value)
}
