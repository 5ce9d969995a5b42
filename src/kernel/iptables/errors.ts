import type { Ran } from '../host.js'
import type { Backend } from './backend.js'

export type IptablesErrorCode =
  /** The tool is not installed. */
  | 'MISSING'
  /** It ended with an error that it does not explain otherwise, or could not be asked at all. */
  | 'FAILED'
  /** A signal ended it: it crashed, or somebody killed it. */
  | 'KILLED'
  | 'TIMEOUT'
  | 'ABORTED'
  /** What it printed is cut short or not understood. */
  | 'MALFORMED'
  /** A table is there that it cannot read. */
  | 'INCOMPATIBLE'
  /** Privileges are missing. */
  | 'DENIED'
  /** Somebody else held the xtables lock for too long. */
  | 'LOCKED'
  /** It deletes other rules than the ones that are named. */
  | 'INEXACT'

export interface IptablesFailure {
  readonly code: IptablesErrorCode
  readonly backend: Backend
  /** The command as it was run, or the file that was read. */
  readonly tool: string
  /** The table that was asked for or that is meant, where it is one. */
  readonly table?: string | undefined
  /** What happened, in the tool's words where it has any; one line. */
  readonly reason: string
  /** The end of what the tool printed to stderr. */
  readonly stderr?: string
  /** The mend. */
  readonly hint?: string | undefined
  readonly cause?: unknown
}

/** iptables could not be read with certainty. The message is one line: the command, what it said, the mend. */
export class IptablesError extends Error {
  override readonly name = 'IptablesError'
  readonly code: IptablesErrorCode
  readonly backend: Backend
  readonly tool: string
  readonly table: string | undefined
  readonly reason: string
  readonly stderr: string
  readonly hint: string | undefined

  constructor({ code, backend, tool, table, reason, stderr = '', hint, cause }: IptablesFailure) {
    super(`${tool}: ${reason}${hint === undefined ? '' : `; ${hint}`}`, cause === undefined ? undefined : { cause })
    this.code = code
    this.backend = backend
    this.tool = tool
    this.table = table
    this.reason = reason
    this.stderr = stderr
    this.hint = hint
  }
}

/** How a run ended that did not end well; null for one with status 0. LOCKED and DENIED are known by the tools' words alone. */
export function failureCode(ran: Ran): IptablesErrorCode | null {
  if (ran.code === 'ENOENT') return 'MISSING'
  if (ran.code !== null) return ran.code === 'EACCES' || ran.code === 'EPERM' ? 'DENIED' : 'FAILED'
  if (ran.signal === 'timeout') return 'TIMEOUT'
  if (ran.signal === 'aborted') return 'ABORTED'
  if (ran.signal !== null) return 'KILLED'
  if (ran.status === 0) return null
  if (/holding the xtables lock/.test(ran.stderr)) return 'LOCKED'
  return /Permission denied|Operation not permitted|must be root/.test(ran.stderr) ? 'DENIED' : 'FAILED'
}

/** The lines of stderr that say something: the tools' pointers to their manuals and the remark on legacy tables do not. */
export function toldLines(stderr: string): string[] {
  const noise = /^(?:Try `|Error occurred at line|# Warning: |Look at manual page|\S+ v\S+ \(\w+\):$|$)/
  return stderr
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => !noise.test(line))
}

/** What became of a run, for people, on one line. */
export function describeRun(ran: Ran): string {
  const told = toldLines(ran.stderr).join('; ').slice(-400)
  if (ran.code !== null) return ran.code === 'ENOENT' ? 'not installed' : `could not be started: ${ran.code}`
  if (ran.signal === 'timeout') return 'did not end in time'
  if (ran.signal === 'aborted') return 'was given up'
  const end = ran.signal === null ? `ended with status ${ran.status}` : `ended by ${ran.signal}`
  return told === '' ? end : `${end}: ${told}`
}

/** The line of a batch, from 1, that iptables-restore names in its message; null when that is no command, or none is named. */
export function lineOf(stderr: string, batch: string): number | null {
  const line = Number(/\bline:? (\d+)/.exec(stderr)?.[1] ?? 0)
  return batch.split('\n')[line - 1]?.startsWith('-') ? line : null
}
