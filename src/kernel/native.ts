/**
 * The addon's contract: what JavaScript cannot do, as bytes and plain values. It knows nothing of workloads.
 * Nothing else in the project loads it.
 */
import { createRequire } from 'node:module'
import { packageFile } from './package.js'

/** How an exchange ended. `errno` is set for 'failed' alone: a system call on the socket itself failed. Else 0. */
export interface NativeExchange {
  /**
   * Every message that answers one of the requests, whole, in the order of arrival, NLMSG_ERROR and NLMSG_DONE
   * included. `nlmsg_seq` of each is the index of its request in the batch.
   */
  readonly bytes: Buffer
  /**
   * complete: every request was answered to its end. truncated: a datagram was larger than the buffer.
   * overrun: ENOBUFS, the kernel dropped answers. malformed: a datagram whose message lengths do not add up.
   * more: no end; `more` goes on.
   */
  readonly end: 'complete' | 'truncated' | 'overrun' | 'malformed' | 'timeout' | 'cancelled' | 'failed' | 'more'
  readonly errno: number
}

/** Of the dump with that index: the objects to keep, by an attribute of 32 bits behind a family header of `header` bytes. */
export interface NativeKeep {
  readonly request: number
  readonly header: number
  readonly attribute: number
  readonly values: readonly number[]
  /** Whether objects without that attribute are kept. */
  readonly without: boolean
}

/** An AF_NETLINK socket with a thread of its own. */
export interface NativeSocket {
  /** The port (nl_pid) that the kernel assigned. Another one after an exchange that did not end 'complete'. */
  readonly port: number
  /**
   * Sends the netlink messages in `requests`, which stand one behind the other, 4-byte aligned, and collects
   * the answers to all of them. The addon fills in sequence and port of each; a dump (NLM_F_DUMP) is sent alone
   * and read to its end before the next message goes out; others go out many in one send. A message that asks for no
   * acknowledgement (NLM_F_ACK) is answered by its first reply; a change must ask for one.
   * Calls queue up: one exchange at a time; `timeoutMs` counts from the call. Rejects only for a request that is not
   * well-formed, before anything is sent, or when closed. `key` is for `cancel`; 0 when left out. `keeps`: of what these dumps
   * list, the rest is left out of the answer. `part`: as soon as there are so many bytes of answers, they are handed over with
   * end 'more'; then `more` of that key, which no other exchange may have, goes on until there is another end. Who will not
   * call it must cancel.
   */
  exchange(
    requests: Buffer,
    timeoutMs: number,
    key?: number,
    keeps?: readonly NativeKeep[],
    part?: number,
  ): Promise<NativeExchange>
  /**
   * The next part, or the last. Meanwhile the socket has read on, some way. Rejects when nothing is to be had of that key, as
   * after the end.
   */
  more(key: number): Promise<NativeExchange>
  /** Ends the exchanges of that key that run or wait, with end 'cancelled'; without a key, all of them. */
  cancel(key?: number): void
  /** Cancels, and closes. Safe to call twice. */
  close(): void
}

/** A tc flower filter as RTM_NEWTFILTER describes it; the fields that the project's own kind uses. */
export interface NativeFilter {
  readonly index: number
  /** TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS) for ingress. */
  readonly parent: number
  readonly pref: number
  /** ETH_P_*, host byte order. */
  readonly protocol: number
  readonly handle: number
  readonly kind: string
  readonly chain: number
  /** ARP operation and its mask; null when not matched. */
  readonly arpOperation: { readonly value: number; readonly mask: number } | null
  /** IPv4, four bytes each. */
  readonly arpSender: { readonly value: Buffer; readonly mask: Buffer } | null
  readonly arpTarget: { readonly value: Buffer; readonly mask: Buffer } | null
  /** Flower keys besides these three and ETH_TYPE, by attribute number: a filter that has any is not ours. */
  readonly otherKeys: readonly number[]
  readonly actions: readonly NativeAction[]
}

export interface NativeAction {
  readonly kind: string
  /** Of a skbedit that edits the mark. */
  readonly mark: number | null
  readonly mask: number | null
  /** TC_ACT_*: what happens to the packet next; null when not told. */
  readonly control: number | null
  /** skbedit attributes besides mark and mask (queue, priority, ptype, …). */
  readonly otherEdits: readonly number[]
}

/** A program that is to be run to its end, in a session of its own and with the signals that a shell would give it. */
export interface NativeProgram {
  readonly path: string
  /** Without the program's own name. */
  readonly args: readonly string[]
  /** `NAME=value`: all that it gets. */
  readonly env: readonly string[]
  /** Null: /dev/null. */
  readonly input: Buffer | null
  /** The network namespace that it runs in; -1: the caller's own. */
  readonly netnsFd: number
  /** Those that it gets as its number 3 and so on. */
  readonly descriptors: readonly number[]
  /** Then it is killed (SIGKILL) with all that it started. */
  readonly timeoutMs: number
  /** What it prints is for `next`. */
  readonly inParts: boolean
}

export interface NativeProgramRun {
  /** Rejects for an argument that is wrong, and where a system call fails that is not the program's. */
  readonly ended: Promise<NativeEnd>
  /** The next of what it prints, some ten KiB at most, while it goes on; nothing when there is no more. One at a time. */
  next(): Promise<Buffer>
  /** Ends it early, with `killed` 'aborted'. */
  kill(): void
}

export interface NativeEnd {
  /** When it could not be started: why; nothing else is told then. Else 0. */
  readonly errno: number
  /** Null when a signal ended it, or when somebody else in this process has waited for it. */
  readonly status: number | null
  /** By number; 0 when it ended by itself. */
  readonly signal: number
  /** Why it was killed here, if it was: what somebody else still holds its output open for is not waited for. */
  readonly killed: 'timeout' | 'aborted' | null
  readonly stdout: Buffer
  readonly stderr: Buffer
}

export interface NativePorts {
  readonly indexes: readonly number[]
  readonly errno: number
}

/**
 * Where a system call fails, the Error has two fields besides: `errno`, positive as in errno(3), and `syscall`, the call and
 * what it was for (`setns`, `mount /run/netns/x`).
 */
export interface Native {
  /** Constants of the headers that the addon was compiled with, by name: the test of `linux.ts` compares. */
  readonly constants: Readonly<Record<string, number>>

  /**
   * Opens a netlink socket (`protocol`: NETLINK_ROUTE, …) in the network namespace behind `netnsFd`, or in the
   * caller's own when that is -1. The kernel options GET_STRICT_CHK, EXT_ACK and CAP_ACK are on; the receive buffer is forced
   * where privileges allow it.
   */
  openSocket(protocol: number, netnsFd: number): Promise<NativeSocket>

  /**
   * Opens a network namespace and returns a descriptor (close-on-exec): by name (below /run/netns of the mount
   * namespace of PID 1, where the caller has its own and may enter that one), by absolute path, or null: the caller's own.
   * Rejects when what is there is no network namespace; ENOENT for a placeholder: an empty file below /run/netns that
   * nothing is mounted on, as a process leaves that was killed while it made a namespace.
   */
  openNamespace(nameOrPath: string | null): Promise<number>
  /** Closes that descriptor. fs.closeSync does too, but warns in a worker thread, where Node knows only what it opened. */
  closeNamespace(fd: number): void
  /** Makes a network namespace without a name and returns a descriptor: it is gone when that is closed. */
  scratchNamespace(): Promise<number>
  /**
   * Makes a network namespace with its loopback as the kernel makes it, and binds it to /run/netns/<name>. EEXIST when the
   * name is taken; a placeholder is taken over. EAGAIN when somebody else has kept /run/netns locked for five seconds.
   */
  createNamespace(name: string): Promise<void>
  /**
   * Unmounts and removes /run/netns/<name>. ENOENT when there is none; rejects when what is there is no network namespace.
   * The namespace lives on while somebody holds it.
   */
  deleteNamespace(name: string): Promise<void>
  /** Removes a placeholder, and nothing else. False when there is none. */
  deletePlaceholder(name: string): Promise<boolean>
  /** The names below /run/netns, sorted; [] when the folder is not there. */
  listNamespaces(): Promise<string[]>
  /** Reads or writes a file as seen from that namespace: /proc/sys/net/…, /proc/thread-self/net/…. -1: the caller's own. */
  readFileIn(netnsFd: number, path: string): Promise<Buffer>
  writeFileIn(netnsFd: number, path: string, text: string): Promise<void>

  /**
   * Starts a program and waits for its end on a thread of its own: Node's own way copies the tables of this process's memory
   * and waits for the program's beginning, during which nothing else goes on. Never throws.
   */
  startProgram(program: NativeProgram): NativeProgramRun

  /**
   * All bridges. Null where they are not to be had like this: the bridge module is not loaded, or there are as many as `room`, which
   * is up to 2047, or more. -1: of the caller's own namespace.
   */
  bridgeNames(
    netnsFd: number,
    room: number,
  ): Promise<readonly { readonly index: number; readonly name: string }[] | null>
  /**
   * The indexes of the ports of each bridge of these names, as the bridge lists them. `errno`, 0 when it answered: ENODEV when
   * there is no link of that name, EOPNOTSUPP when it is no bridge. -1: the caller's own namespace.
   */
  bridgePorts(netnsFd: number, names: readonly string[]): Promise<readonly NativePorts[]>

  /** flock(fd, LOCK_EX | LOCK_NB). False when somebody else holds it. */
  tryLock(fd: number): boolean

  // tc requests, as netlink messages for `exchange`, and the answers to them.
  /** RTM_GETTFILTER dump of the ingress of clsact, of that pref and protocol (0: any). */
  encodeFilterDump(index: number, pref: number, protocol: number): Buffer
  /** `message`: one whole RTM_NEWTFILTER. Null for the entry of handle 0 that every dump begins with. Throws when malformed. */
  decodeFilter(message: Buffer): NativeFilter | null
  /** Replaces (creates) an ARP flower filter at the ingress of clsact: operation request, sender, target; action skbedit mark/mask, pipe. */
  encodeFilterReplace(filter: {
    index: number
    pref: number
    handle: number
    sender: Buffer
    target: Buffer
    mark: number
    mask: number
  }): Buffer
  encodeFilterDelete(filter: { index: number; pref: number; protocol: number; handle: number; kind: string }): Buffer
  encodeClsactReplace(index: number): Buffer
}

/** The addon is not there, or is none for this Node.js. */
export class AddonError extends Error {
  override readonly name = 'AddonError'
  readonly hint = 'compile it: npm rebuild netsweep; in a checkout: npm run build:native'
}

let loaded: Native | undefined

/** The addon, loaded at the first call: importing this module opens nothing. @throws AddonError */
export function native(): Native {
  if (loaded === undefined) {
    const require = createRequire(import.meta.url)
    const load = require('node-gyp-build') as (root: string) => Native
    try {
      loaded = load(packageFile('.'))
    } catch (cause) {
      throw new AddonError(`cannot be loaded: ${(cause as Error).message.trim()}`, { cause })
    }
  }
  return loaded
}
