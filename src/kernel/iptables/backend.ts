/** The two back ends of iptables, and how their tools are called. */
import type { Ran, RunOptions, ToolHost } from '../host.js'
import { failureCode } from './errors.js'

export type Backend = 'nft' | 'legacy'
export type BackendChoice = 'auto' | Backend

export function isBackendChoice(text: string): text is BackendChoice {
  return text === 'auto' || text === 'nft' || text === 'legacy'
}

export interface ToolRun {
  /** The name under which the tool was run. */
  readonly tool: string
  readonly ran: Ran
}

/**
 * Runs `iptables-nft-save` and the like. Where that name is not installed, `iptables-save` stands in for it when its
 * version says that it is of the same back end.
 */
export async function runTool(
  host: ToolHost,
  backend: Backend,
  kind: 'save' | 'restore',
  args: readonly string[],
  options: RunOptions = {},
): Promise<ToolRun> {
  const tool = `iptables-${backend}-${kind}`
  const ran = await host.run(tool, args, options)
  if (ran.code !== 'ENOENT') return { tool, ran }
  const plain = `iptables-${kind}`
  const { signal, timeoutMs } = options
  const version = await host.run(plain, ['--version'], { signal, timeoutMs })
  const ended = failureCode(version)
  // Given up or too slow is not the same as not there.
  if (ended === 'ABORTED' || ended === 'TIMEOUT') return { tool: plain, ran: version }
  if (ended !== null || backendOf(version.stdout) !== backend) return { tool, ran }
  return { tool: plain, ran: await host.run(plain, args, options) }
}

/** `iptables-save v1.8.9 (nf_tables)`. Before 1.8 there was legacy alone, and no word about it. */
function backendOf(version: string): Backend | null {
  if (version.includes('(nf_tables)')) return 'nft'
  return version.includes('(legacy)') || /^iptables\S* v1\.[0-7]\b/.test(version) ? 'legacy' : null
}
