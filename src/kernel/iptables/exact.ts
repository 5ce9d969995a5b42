/**
 * Whether iptables-restore deletes the rule that it is told to. Upstream's 1.8.11 (nft) compares everything of a rule but the names of its
 * interfaces, and deletes the first that is like it, whosever that is. Versions do not tell: distributions have mended theirs.
 */
import type { CallOptions, ToolHost } from '../host.js'
import { type Backend, runTool } from './backend.js'
import { describeRun, failureCode, IptablesError, type IptablesErrorCode, lineOf } from './errors.js'
import { formatBatch } from './restore.js'

const CHAIN = 'netsweep-probe'

/** One rule and two deletions of others: whatever tool runs it, nothing takes effect. An exact one ends at the first of them. */
const PROBE = [
  ['-N', CHAIN],
  ['-A', CHAIN, '-i', 'netsweep-a', '-j', 'ACCEPT'],
  ['-D', CHAIN, '-i', 'netsweep-b', '-j', 'ACCEPT'],
  ['-D', CHAIN, '-s', '192.0.2.1', '-j', 'ACCEPT'],
]
/** Line 1 is the table. */
const FIRST_DELETION = 4

/** A batch in which an inexact tool could delete another rule than the one that is named. */
export function needsExact(batch: string): boolean {
  return /^-D .* -[io] /m.test(batch)
}

/** The tools that are known to be exact; asked once for each host. */
const exact = new WeakMap<ToolHost, Set<Backend>>()

/** `table`: one that is there already, since asking legacy for a table makes it. @throws IptablesError: INEXACT, or how the run ended. */
export async function assertExact(
  host: ToolHost,
  backend: Backend,
  table: string,
  options: CallOptions = {},
): Promise<void> {
  const known = exact.get(host) ?? new Set()
  if (known.has(backend)) return
  const input = formatBatch(table, PROBE)
  const { tool, ran } = await runTool(host, backend, 'restore', ['--noflush', '-w', '5'], { ...options, input })
  if (lineOf(ran.stderr, input) === FIRST_DELETION) {
    exact.set(host, known.add(backend))
    return
  }
  const fail = (code: IptablesErrorCode, reason: string, hint?: string): never => {
    throw new IptablesError({ code, backend, tool, table, reason, stderr: ran.stderr.slice(-2000), hint })
  }
  // What the tool says of another deletion, or of none, it says of every batch.
  if (lineOf(ran.stderr, input) === null) fail(failureCode(ran) ?? 'FAILED', describeRun(ran))
  fail(
    'INEXACT',
    'it deletes rules of another interface than the one it is told (as upstream’s iptables 1.8.11 does)',
    'install another version of the package `iptables`',
  )
}
