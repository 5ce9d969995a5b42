/** Writes of deploy and stop, one after the other: each succeeds, or throws what failed. It remembers what it did. */
import type { Host } from '../kernel/host.js'
import { formatBatch } from '../kernel/iptables/restore.js'
import { applyBatch, type Backend } from '../kernel/iptables/tools.js'
import { ask } from '../kernel/netlink/ask.js'
import { NetlinkError } from '../kernel/netlink/errors.js'
import type { Request } from '../kernel/netlink/request.js'
import { writeSysctl } from '../kernel/sysctl.js'
import type { Commands } from './desired-tables.js'
import { WiringError } from './errors.js'
import type { Notice } from './plan.js'
import { SYSTEM_HINT } from './privilege.js'

export class Writer {
  /** What was changed, in order, in a person's words. */
  readonly done: string[] = []
  /** What stays on purpose, or went with it. */
  readonly notices: Notice[] = []

  constructor(
    readonly host: Host,
    readonly signal?: AbortSignal,
  ) {}

  /** One exchange. `fine`: errnos by name that mean that it is as it should be already. */
  async requests(requests: readonly Request<never>[], fine: readonly string[] = [], host = this.host): Promise<void> {
    if (requests.length === 0) return
    try {
      const replies = await ask(host, requests, { signal: this.signal })
      replies.forEach(({ error }, i) => {
        if (error === null) this.done.push(requests[i]?.what ?? '')
        else if (!fine.includes(error.code)) throw error
      })
    } catch (error) {
      if (!(error instanceof NetlinkError)) throw error
      throw new WiringError({ object: error.operation, code: error.code, reason: error.message, cause: error })
    }
  }

  /** One run of iptables-restore, in which each table is one atomic batch. */
  async batches(backend: Backend, tables: ReadonlyMap<string, Commands>): Promise<void> {
    const todo = [...tables].filter(([, commands]) => commands.length > 0)
    if (todo.length === 0) return
    const text = todo.map(([table, commands]) => formatBatch(table, commands)).join('')
    const result = await applyBatch(this.host, backend, text, { signal: this.signal })
    const object = `iptables ${todo.map(([table]) => table).join(', ')} (${backend})`
    if (!result.ok) throw new WiringError({ object, code: result.kind.toUpperCase(), reason: result.message })
    this.done.push(`change ${object}`)
  }

  /** `mayLack`: a kernel without it has nothing to be set. */
  async sysctl(path: readonly string[], value: string, mayLack = false): Promise<void> {
    try {
      if (await writeSysctl(this.host, path, value)) this.done.push(`set ${path.join('.')}=${value}`)
    } catch (cause) {
      const { code = 'FAILED', message } = cause as NodeJS.ErrnoException
      if (mayLack && code === 'ENOENT') return
      throw new WiringError({ object: `sysctl ${path.join('.')}`, code, reason: message, cause })
    }
  }

  /** A change that the addon makes; false: there was nothing to change. */
  async change(what: string, change: () => Promise<unknown>): Promise<void> {
    try {
      if ((await change()) !== false) this.done.push(what)
    } catch (cause) {
      const { code = 'FAILED', message } = cause as NodeJS.ErrnoException
      throw new WiringError({
        object: what,
        code,
        reason: message,
        hint: hintFor(cause as NodeJS.ErrnoException),
        cause,
      })
    }
  }
}

/** What to do about a refusal that is no refusal of the thing itself. */
function hintFor({ code, syscall }: NodeJS.ErrnoException): string | undefined {
  if (syscall?.startsWith('flock /run/netns')) return 'try again; `fuser -v /run/netns` says who has it open'
  return code === 'EPERM' || code === 'EACCES' ? SYSTEM_HINT : undefined
}
