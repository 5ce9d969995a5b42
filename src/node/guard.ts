/**
 * The node-state guard: one pass, or one deploy, at a time. Inside a process it is a fair queue; between processes it
 * is flock(2) on a file named after the network namespace, which dies with its holder and which a script can take too.
 */
import { constants } from 'node:fs'
import { type FileHandle, lstat, mkdir, open } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Host, NamespaceId } from '../kernel/host.js'
import { openHost } from '../kernel/linux-host.js'
import { AddonError, native } from '../kernel/native.js'
import { GuardError, ReadError, UsageError } from './errors.js'
import type { ContainerNet } from './net.js'
import { checkTime } from './numbers.js'
import { checkPrivilege, PRIVILEGE_HINT, SYSTEM_HINT } from './privilege.js'

const LOCK_FOLDER = '/run/netsweep'
/** How often a lock that another process holds is tried again. flock(2) itself could not be cancelled. */
const RETRY_MS = 20

export interface LockOptions {
  /** Milliseconds to wait for whoever holds it. Default 10,000. */
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
  /** Stands in for the machine; the lock is taken for its namespace. Closed with the lock, like one of our own. */
  readonly host?: Host | undefined
}

/**
 * Takes the node-state lock of the network namespace that `net` means. `await using` gives it back.
 *
 * @throws GuardError BUSY when somebody else held it for too long, UNUSABLE when its file cannot be had.
 * @throws ReadError PRIVILEGE without CAP_NET_ADMIN, UsageError for a bad time or a namespace that is not there.
 */
export async function lockNodeState(net: ContainerNet, options: LockOptions = {}): Promise<NodeStateLock> {
  let { host } = options
  try {
    checkTime('--lock-timeout', options.timeoutMs)
    host ??= await openNode(net)
    return await NodeStateLock.take(host, net.netns, options)
  } catch (error) {
    host?.close()
    throw error
  }
}

/** Opens the machine as seen from the network namespace that `net` means, for reading. The caller closes it. */
export async function openNode(net: ContainerNet): Promise<Host> {
  await checkPrivilege()
  try {
    return await openHost({ netns: net.netns, timeoutMs: net.timeoutMs })
  } catch (error) {
    throw cannotOpen(net.netns, error as NodeJS.ErrnoException)
  }
}

function cannotOpen(netns: string | undefined, error: NodeJS.ErrnoException): ReadError | UsageError {
  if (error instanceof AddonError)
    return new ReadError({
      read: 'the addon',
      code: 'FAILED',
      reason: error.message,
      hint: error.hint,
      cause: error,
    })
  const denied = error.code === 'EPERM' || error.code === 'EACCES'
  if (netns !== undefined && !denied) {
    return new UsageError(
      '--netns',
      `${JSON.stringify(netns)} cannot be opened: ${error.message}`,
      '`ip netns list` shows the names',
    )
  }
  return new ReadError({
    read: netns === undefined ? 'the network namespace' : `network namespace ${netns}`,
    code: denied ? 'PRIVILEGE' : 'FAILED',
    reason: error.message,
    hint: denied ? (netns === undefined ? PRIVILEGE_HINT : SYSTEM_HINT) : undefined,
    cause: error,
  })
}

export class NodeStateLock implements AsyncDisposable {
  #file: FileHandle | null = null
  #leave: (() => void) | null = null
  readonly #timeoutMs: number

  private constructor(
    /** The machine, as seen from the namespace that the lock guards. */
    readonly host: Host,
    readonly netns: string | undefined,
    timeoutMs: number,
  ) {
    this.#timeoutMs = timeoutMs
  }

  static async take(
    host: Host,
    netns: string | undefined,
    { timeoutMs = 10_000, signal }: LockOptions,
  ): Promise<NodeStateLock> {
    const lock = new NodeStateLock(host, netns, timeoutMs)
    await lock.#acquire(signal)
    return lock
  }

  get held(): boolean {
    return this.#file !== null
  }

  /** The descriptor of the locked file, for a child that is to go on holding it. */
  get descriptor(): number {
    return this.#must().fd
  }

  /** Throws unless the lock is held, and for that network namespace: whoever reads and then writes asks first. */
  assertGuards(net: ContainerNet): void {
    this.#must()
    if (net.netns !== this.netns) {
      const named = (netns: string | undefined): string => netns ?? "the caller's own network namespace"
      throw new GuardError('NOT_HELD', `the lock is for ${named(this.netns)}, not for ${named(net.netns)}`)
    }
  }

  /** Lets others have the lock for so long, then takes it again. */
  async pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
    checkTime('milliseconds', milliseconds)
    await this.#release()
    await sleep(milliseconds, undefined, { signal }).catch(() => {
      throw new GuardError('ABORTED', 'cancelled while the node was left to settle')
    })
    await this.#acquire(signal)
  }

  async release(): Promise<void> {
    await this.#release()
    this.host.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  #must(): FileHandle {
    if (this.#file === null) throw new GuardError('NOT_HELD', 'the node-state lock was released already')
    return this.#file
  }

  async #acquire(signal: AbortSignal | undefined): Promise<void> {
    const key = lockName(this.host.namespace)
    const deadline = Date.now() + this.#timeoutMs
    const busy = (): GuardError =>
      signal?.aborted
        ? new GuardError('ABORTED', 'cancelled while waiting for the node-state lock')
        : new GuardError(
            'BUSY',
            `somebody else held ${LOCK_FOLDER}/${key} for ${this.#timeoutMs / 1000} s`,
            `try again, or wait longer with --lock-timeout; \`fuser ${LOCK_FOLDER}/${key}\` says who holds it`,
          )
    if (signal?.aborted) throw busy()
    const leave = await enqueue(key, this.#timeoutMs, signal)
    if (leave === null) throw busy()
    let file: FileHandle | undefined
    try {
      for (;;) {
        file = await openLockFile(key)
        while (!native().tryLock(file.fd)) {
          if (signal?.aborted || Date.now() >= deadline) throw busy()
          await sleep(RETRY_MS)
        }
        if ((await file.stat()).nlink > 0) break
        // Somebody removed the file: whoever comes next would lock another one of that name.
        await file.close()
      }
      this.#file = file
      this.#leave = leave
      this.host.lend?.(file.fd)
    } catch (error) {
      await file?.close()
      leave()
      throw error
    }
  }

  async #release(): Promise<void> {
    const file = this.#file
    this.#file = null
    if (file !== null) this.host.lend?.(null)
    await file?.close()
    this.#leave?.()
    this.#leave = null
  }
}

const lockName = ({ device, inode }: NamespaceId): string => `${device}-${inode}.lock`

async function openLockFile(name: string): Promise<FileHandle> {
  const path = `${LOCK_FOLDER}/${name}`
  try {
    await mkdir(LOCK_FOLDER, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    const folder = await lstat(LOCK_FOLDER)
    // In a folder that others can write to, somebody could hold the lock for ever, or swap the file under a holder.
    if (
      !folder.isDirectory() ||
      (folder.uid !== 0 && folder.uid !== process.geteuid?.()) ||
      (folder.mode & 0o077) !== 0
    )
      throw new GuardError(
        'UNUSABLE',
        `${LOCK_FOLDER} is not a folder of root's with mode 0700`,
        `look who made it, then: rm -r ${LOCK_FOLDER}`,
      )
    return await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600)
  } catch (error) {
    if (error instanceof GuardError) throw error
    const { code, message } = error as NodeJS.ErrnoException
    const hint =
      code === 'EROFS' ? '/run has to be writable' : `run as root, or: install -d -m 0700 -o "$USER" ${LOCK_FOLDER}`
    throw new GuardError('UNUSABLE', `${path}: ${message}`, hint, error)
  }
}

/**
 * Who waits in this process, by lock, the holder first. Module state, since two callers that know nothing of each other
 * have to meet somewhere; flock(2) alone would let them in at random.
 */
const queues = new Map<string, Promise<void>>()

/**
 * Waits for its turn; returns what lets the next one in. Null, and the next one is let in, when the time is up or `signal`
 * fires first. By a timer of its own: what AbortSignal.any() makes of AbortSignal.timeout() may be collected, and never fires.
 */
async function enqueue(key: string, timeoutMs: number, signal: AbortSignal | undefined): Promise<(() => void) | null> {
  const before = queues.get(key) ?? Promise.resolve()
  const own = deferred()
  const last = before.then(() => own.promise)
  queues.set(key, last)
  const leave = (): void => {
    own.resolve()
    void last.then(() => {
      if (queues.get(key) === last) queues.delete(key)
    })
  }
  const givenUp = deferred()
  const timer = setTimeout(givenUp.resolve, timeoutMs)
  signal?.addEventListener('abort', givenUp.resolve)
  try {
    const isTurn = await Promise.race([before.then(() => true), givenUp.promise.then(() => false)])
    if (isTurn) return leave
    leave()
    return null
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', givenUp.resolve)
  }
}

/** A promise, and what resolves it. */
function deferred(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}
