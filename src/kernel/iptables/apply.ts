/** Writing iptables: one batch, and how it ended. */
import type { CallOptions, Ran, ToolHost } from '../host.js'
import { type Backend, runTool } from './backend.js'
import { describeRun, failureCode, IptablesError, type IptablesErrorCode, lineOf, toldLines } from './errors.js'
import { assertExact, needsExact } from './exact.js'

export type FailureKind =
  /** A rule or a chain that it names is gone: read again, plan again. */
  | 'stale'
  /** A chain cannot go: it has rules, or somebody jumps to it. */
  | 'busy'
  /** Somebody else held the xtables lock for the whole wait. */
  | 'locked'
  /** Privileges are missing. */
  | 'denied'
  /** The tool is not installed. */
  | 'missing'
  /** It was ended from outside, ran out of time, or was given up: whether the batch took effect is not known. */
  | 'killed'
  | 'timeout'
  | 'aborted'
  /** It would delete other rules than the ones that are named: nothing was tried. */
  | 'inexact'
  /** Anything else. Legacy names a line and no reason: stale and busy are here too. */
  | 'other'

export type ApplyResult =
  | { readonly ok: true }
  | {
      readonly ok: false
      readonly kind: FailureKind
      /** Exit status; null when it did not exit by itself. */
      readonly status: number | null
      /** One line, in the tool's own words where it has any. */
      readonly message: string
      /** Line of the batch, from 1, with the command that failed; null when the tool names none. */
      readonly line: number | null
    }

export interface ApplyOptions extends CallOptions {
  /** Seconds to wait for the xtables lock, which legacy takes. Default 5; below `timeoutMs`. */
  readonly waitSeconds?: number | undefined
}

/**
 * Runs a batch of formatBatch. Whatever it does not name stays (`--noflush`). When it fails nothing of it took effect, but for
 * the kinds that say otherwise.
 */
export async function applyBatch(
  host: ToolHost,
  backend: Backend,
  batch: string,
  options: ApplyOptions = {},
): Promise<ApplyResult> {
  const { waitSeconds = 5, ...limits } = options
  if (needsExact(batch)) {
    try {
      await assertExact(host, backend, tableOf(batch), limits)
    } catch (error) {
      if (!(error instanceof IptablesError)) throw error
      const { code, tool, reason } = error
      return { ok: false, kind: KINDS[code] ?? 'other', status: null, message: `${tool}: ${reason}`, line: null }
    }
  }
  // The nft tool has no lock; it takes the option and does nothing with it.
  const args = ['--noflush', '-w', String(waitSeconds)]
  const { tool, ran } = await runTool(host, backend, 'restore', args, { ...limits, input: batch })
  const code = failureCode(ran)
  if (code === null) return { ok: true }
  const kind = kindOf(code, ran.stderr)
  return { ok: false, kind, status: ran.status, message: messageOf(tool, ran), line: lineOf(ran.stderr, batch) }
}

const KINDS: Readonly<Partial<Record<IptablesErrorCode, FailureKind>>> = {
  MISSING: 'missing',
  KILLED: 'killed',
  TIMEOUT: 'timeout',
  ABORTED: 'aborted',
  DENIED: 'denied',
  LOCKED: 'locked',
  INEXACT: 'inexact',
}

/** What iptables 1.8 says where something is gone: the rule; the chain it stands in; the chain it jumps to, by nft and by legacy. */
const STALE =
  /does a matching rule exist|No chain\/target\/match by that name|Chain '.*' does not exist|_(?:DEL|FLUSH) failed \(No such file|Couldn't load target/
const BUSY = /_DEL failed \((?:Device or resource busy|Directory not empty)/

function kindOf(code: IptablesErrorCode, stderr: string): FailureKind {
  const kind = KINDS[code]
  if (kind !== undefined) return kind
  // A chain that is held counts before one that is gone: trying again does not help.
  if (BUSY.test(stderr)) return 'busy'
  return STALE.test(stderr) ? 'stale' : 'other'
}

function messageOf(tool: string, ran: Ran): string {
  const told = toldLines(ran.stderr)
  const said = told.find((line) => /\bline \d/.test(line)) ?? told.at(-1)
  return said === undefined || ran.status === null ? `${tool} ${describeRun(ran)}` : said
}

/** The first of the batch's tables. */
function tableOf(batch: string): string {
  return /^\*(\w+)$/m.exec(batch)?.[1] ?? 'filter'
}
