/** Runs the plain tools, and reads back with them what the kernel holds. */
import { findTool, runTool } from '../kernel/tool.js'

const TIMEOUT_MS = 30_000

/** A tool that the demo builds on did not do what it was told. */
export class ToolFailure extends Error {
  override readonly name = 'ToolFailure'
}

export class Tools {
  constructor(readonly signal: AbortSignal) {}

  /** The tool's stdout. @throws ToolFailure */
  async run(command: string, ...args: readonly string[]): Promise<string> {
    const { status, stdout, stderr } = await this.#start(command, args)
    if (status !== 0) throw new ToolFailure(`${[command, ...args].join(' ')}: ${stderr.trim() || `status ${status}`}`)
    return stdout
  }

  #start(command: string, args: readonly string[]): ReturnType<typeof runTool> {
    const path = findTool(command)
    if (path === undefined) throw new ToolFailure(`${command}: not found`)
    return runTool(path, args, { timeoutMs: TIMEOUT_MS, signal: this.signal })
  }

  /** What `ip`, `tc` and iptables-save say of this network namespace, without what changes by itself; sorted. */
  async state(iptables: string): Promise<string[]> {
    const links = JSON.parse(await this.run('ip', '-j', 'address', 'show')) as LinkWithAddresses[]
    const lists = [
      ['route', (await this.run('ip', '-4', 'route', 'show', 'table', 'all')).replaceAll(' linkdown', '')],
      ['rule', await this.run('ip', '-4', 'rule', 'show')],
      ['proxy', await this.run('ip', '-4', 'neigh', 'show', 'proxy')],
      ['iptables', (await this.run(`${iptables}-save`)).replace(/^#.*$| \[\d+:\d+\]$/gm, '')],
    ] as const
    const filters: string[] = []
    for (const { ifname } of links) filters.push(await this.run('tc', 'filter', 'show', 'dev', ifname, 'ingress'))
    return [
      ...links.map(({ ifname, master }) => `link ${ifname}${master === undefined ? '' : ` on ${master}`}`),
      ...links.flatMap(({ ifname, addr_info }) =>
        addr_info
          .filter(({ family }) => family === 'inet')
          .map(({ local, prefixlen }) => `address ${local}/${prefixlen} on ${ifname}`),
      ),
      ...[...lists, ['filter', filters.join('\n')] as const].flatMap(([kind, text]) =>
        text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [`${kind} ${line.trim()}`])),
      ),
    ].sort()
  }
}

/** As `ip -j address show` prints it. */
interface LinkWithAddresses {
  readonly ifname: string
  readonly master?: string
  readonly addr_info: readonly { readonly family: string; readonly local: string; readonly prefixlen: number }[]
}

/** What is in one state and not in the other: `- rule …` went, `+ rule …` came. Empty: they are the same. */
export function stateDifference(before: readonly string[], after: readonly string[]): string[] {
  const without = (lines: readonly string[], other: readonly string[]): string[] => {
    const left = [...other]
    return lines.filter((line) => {
      const at = left.indexOf(line)
      if (at >= 0) left.splice(at, 1)
      return at < 0
    })
  }
  return [...without(before, after).map((line) => `- ${line}`), ...without(after, before).map((line) => `+ ${line}`)]
}
