/** The machine itself, as a Host: netlink through the addon, tools as processes. */
import { fstatSync, readFileSync } from 'node:fs'
import type {
  BridgePorts,
  CallOptions,
  ExchangeOptions,
  Host,
  NamespaceId,
  OpenNamespace,
  Ran,
  RunOptions,
} from './host.js'
import { NETLINK_NETFILTER, NETLINK_ROUTE } from './linux.js'
import { type NativeExchange, type NativeSocket, native } from './native.js'
import { ask } from './netlink/ask.js'
import { errnoName, NetlinkError } from './netlink/errors.js'
import { namespaceId } from './rtnetlink/namespace-id.js'
import { findTool, notStarted, runTool } from './tool.js'
import { Turns } from './turns.js'

const DEFAULT_TIMEOUT_MS = 30_000

/** Bytes of an answer that are read in one go, while the kernel goes on: some thirty links, a fraction of a millisecond. */
const PART = 32 * 1024

/** The most that the bridge module takes room for. */
const MOST_BRIDGES = 2047

export interface HostOptions {
  /** Name or absolute path of a network namespace; the process's own when left out. */
  readonly netns?: string | undefined
  /** For every call that names none: 30 s unless told otherwise. */
  readonly timeoutMs?: number | undefined
}

/**
 * Opens a network namespace for everything that is done there.
 *
 * @throws an Error with `code` (ENOENT, EPERM, …) and `syscall` when a system call refuses, without when what is there
 *   is no network namespace.
 */
export async function openHost(options: HostOptions = {}): Promise<Host> {
  return (await openLinuxHost(options)).host
}

async function openLinuxHost(options: HostOptions): Promise<OpenNamespace> {
  return hostOf(await coded(native().openNamespace(options.netns ?? null)), options)
}

/** Takes over the descriptor. */
async function hostOf(descriptor: number, options: HostOptions): Promise<OpenNamespace> {
  try {
    const namespace = identify(descriptor)
    const isOwn = isSame(namespace, await ownNamespace())
    const socket = await coded(native().openSocket(NETLINK_ROUTE, isOwn ? CALLERS_OWN : descriptor))
    const host = new LinuxHost(namespace, descriptor, isOwn, socket, options.timeoutMs ?? DEFAULT_TIMEOUT_MS)
    return { host, descriptor }
  } catch (error) {
    native().closeNamespace(descriptor)
    throw error
  }
}

/** Of a name below /run/netns: gone meanwhile, or a file of another kind, or one that is kept from us. */
const NO_NAMESPACE: ReadonlySet<string> = new Set(['ENOENT', 'EACCES', 'ELOOP', 'ENXIO'])

/**
 * Where the addon has nothing to enter. To enter a network namespace takes CAP_SYS_ADMIN, even the one that one is in:
 * who has CAP_NET_ADMIN alone works in his own.
 */
const CALLERS_OWN = -1

class LinuxHost implements Host {
  #exchanges = 0
  #isClosed = false
  #lent: number | null = null
  #netfilter: Promise<NativeSocket> | undefined

  constructor(
    readonly namespace: NamespaceId,
    readonly descriptor: number,
    readonly isOwn: boolean,
    readonly socket: NativeSocket,
    readonly timeoutMs: number,
  ) {}

  async exchange(requests: Buffer, options: ExchangeOptions = {}): Promise<Buffer> {
    const { signal, timeoutMs = this.timeoutMs, protocol, keep, take } = options
    this.#assertOpen()
    const socket = protocol === 'netfilter' ? await this.#openNetfilter() : this.socket
    if (signal?.aborted) throw aborted(signal)

    // Never 0: that one is everybody's who names no key.
    const key = (this.#exchanges++ % 0xffffffff) + 1
    const cancel = (): void => socket.cancel(key)
    signal?.addEventListener('abort', cancel, { once: true })
    let isOver = false
    const turns = new Turns()
    try {
      let exchanged = await socket.exchange(requests, timeoutMs, key, keep, take === undefined ? 0 : PART)
      while (exchanged.end === 'more') {
        const { bytes } = exchanged
        await turns.take(() => take?.(bytes))
        if (signal?.aborted) throw aborted(signal)
        exchanged = await socket.more(key)
      }
      isOver = true
      return bytesOf(exchanged, signal)
    } finally {
      if (!isOver) cancel()
      signal?.removeEventListener('abort', cancel)
    }
  }

  async bridgeNames(): Promise<ReadonlyMap<number, string> | null> {
    this.#assertOpen()
    const found = await coded(native().bridgeNames(this.#entered, MOST_BRIDGES))
    if (found === null) return null
    // In the order in which rtnetlink lists them.
    return new Map(found.map(({ index, name }) => [index, name] as const).sort(([one], [other]) => one - other))
  }

  async bridgePorts(names: readonly string[]): Promise<readonly BridgePorts[]> {
    this.#assertOpen()
    if (names.length === 0) return []
    const found = await coded(native().bridgePorts(this.#entered, names))
    return found.map(({ indexes, errno }) => (errno === 0 ? { indexes } : { code: errnoName(errno) }))
  }

  async run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const { timeoutMs = this.timeoutMs, signal, input, take } = options
    this.#assertOpen()
    const path = findTool(command)
    if (path === undefined) return notStarted('ENOENT', `${command}: no program of that name`)
    const descriptors = this.#lent === null ? [] : [this.#lent]
    return runTool(path, args, { timeoutMs, signal, input, take, descriptors, netnsFd: this.#entered })
  }

  async readFile(path: string): Promise<string> {
    this.#assertOpen()
    // Nothing to enter, and procfs answers from memory: quicker than a thread is made.
    if (this.isOwn) return readFileSync(path, 'utf8')
    return (await coded(native().readFileIn(this.#entered, path))).toString()
  }

  async writeFile(path: string, text: string): Promise<void> {
    this.#assertOpen()
    await coded(native().writeFileIn(this.#entered, path, text))
  }

  async namespaceNames(options: CallOptions = {}): Promise<ReadonlyMap<number, string>> {
    this.#assertOpen()
    const names = new Map<number, string>()
    for (const name of await coded(native().listNamespaces())) {
      const id = await this.#idOf(name, options)
      if (id >= 0 && !names.has(id)) names.set(id, name)
    }
    return names
  }

  async createNamespace(name: string): Promise<void> {
    await coded(native().createNamespace(name))
  }

  async deleteNamespace(name: string): Promise<void> {
    await coded(native().deleteNamespace(name))
  }

  async deletePlaceholder(name: string): Promise<boolean> {
    return coded(native().deletePlaceholder(name))
  }

  async openNamespace(name: string): Promise<OpenNamespace | null> {
    try {
      return await openLinuxHost({ netns: name, timeoutMs: this.timeoutMs })
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }

  async scratchNamespace(): Promise<OpenNamespace> {
    return hostOf(await coded(native().scratchNamespace()), { timeoutMs: this.timeoutMs })
  }

  lend(descriptor: number | null): void {
    this.#lent = descriptor
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.socket.close()
    this.#netfilter?.then((socket) => socket.close()).catch(() => undefined)
    native().closeNamespace(this.descriptor)
  }

  /** The socket for netfilter, opened at the first question to it: most hosts are never asked one. */
  #openNetfilter(): Promise<NativeSocket> {
    this.#netfilter ??= native()
      .openSocket(NETLINK_NETFILTER, this.#entered)
      .catch((cause: unknown) => {
        this.#netfilter = undefined
        const errno = errnoOf(cause)
        throw errno === undefined ? cause : NetlinkError.fromErrno('open netfilter socket', errno, { cause })
      })
    return this.#netfilter
  }

  /** -1 when this namespace has given it none, and for a name that leads to no namespace that we may see. */
  async #idOf(name: string, options: CallOptions): Promise<number> {
    const descriptor = await coded(native().openNamespace(name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === undefined || NO_NAMESPACE.has(error.code)) return null
      throw error
    })
    if (descriptor === null) return -1
    try {
      const [{ items, error }] = await ask(this, [namespaceId(descriptor)], options)
      if (error !== null) throw error
      return items[0] ?? -1
    } finally {
      native().closeNamespace(descriptor)
    }
  }

  get #entered(): number {
    return this.isOwn ? CALLERS_OWN : this.descriptor
  }

  /** The descriptor's number may be another file's by now. */
  #assertOpen(): void {
    if (this.#isClosed) throw new Error('the host is closed')
  }
}

/** What came back, when it is everything; else the reason as an error. */
function bytesOf(exchanged: NativeExchange, signal: AbortSignal | undefined): Buffer {
  const operation = 'netlink exchange'
  switch (exchanged.end) {
    case 'complete':
      return exchanged.bytes
    case 'cancelled':
      throw aborted(signal)
    case 'failed':
      throw NetlinkError.fromErrno(operation, exchanged.errno)
    case 'overrun':
      throw new NetlinkError({ operation, code: 'ENOBUFS' })
    default:
      throw new NetlinkError({ operation, code: exchanged.end.toUpperCase() })
  }
}

function aborted(signal: AbortSignal | undefined): NetlinkError {
  return new NetlinkError({ operation: 'netlink exchange', code: 'ABORTED', cause: signal?.reason })
}

async function ownNamespace(): Promise<NamespaceId> {
  const descriptor = await coded(native().openNamespace(null))
  try {
    return identify(descriptor)
  } finally {
    native().closeNamespace(descriptor)
  }
}

function identify(descriptor: number): NamespaceId {
  const { dev, ino } = fstatSync(descriptor)
  return { device: dev, inode: ino }
}

function isSame(one: NamespaceId, other: NamespaceId): boolean {
  return one.device === other.device && one.inode === other.inode
}

/** Gives an error of the addon's the `code` that Node's own errors have. */
async function coded<T>(call: Promise<T>): Promise<T> {
  try {
    return await call
  } catch (error) {
    const errno = errnoOf(error)
    if (errno !== undefined) Object.assign(error as Error, { code: errnoName(errno) })
    throw error
  }
}

/** Of a system call of the addon's that failed; undefined for any other error. */
function errnoOf(error: unknown): number | undefined {
  return error instanceof Error && 'errno' in error && typeof error.errno === 'number' ? error.errno : undefined
}
