/**
 * Everything that is asked of the machine passes here, reads and writes alike: bytes to the kernel, a tool run,
 * a file read. So a test can stand in for the kernel, or fail any one call, in one place.
 */

/** A network namespace's identity: fstat(2) of its file. The same pair is the same namespace. */
export interface NamespaceId {
  readonly device: number
  readonly inode: number
}

export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  /** Milliseconds; the host's own default when left out. */
  readonly timeoutMs?: number | undefined
}

export interface ExchangeOptions extends CallOptions {
  /** Which part of the kernel is asked: rtnetlink, unless netfilter is named. */
  readonly protocol?: 'route' | 'netfilter' | undefined
  /** What the answers to some of the dumps may leave out. A host may as well return everything. */
  readonly keep?: readonly KeepOf[] | undefined
  /** Gets a long answer in parts, whole messages, as they come; what is returned is the rest. A host may as well return everything. */
  readonly take?: ((part: Buffer) => void) | undefined
}

/**
 * Of all that a dump lists, what is wanted: objects whose attribute, 32 bits behind a family header of `header` bytes, has
 * one of `values`, and those that have no such attribute when `without` says so. For what the kernel cannot filter: the
 * rest would only be carried to JavaScript to be dropped there.
 */
export interface Keep {
  readonly header: number
  readonly attribute: number
  readonly values: readonly number[]
  readonly without: boolean
}

/** `request`: the index of the dump in its batch. */
export type KeepOf = Keep & { readonly request: number }

/** The ports of one bridge, by index; or, with `code`, why they are not known: the errno's name. */
export type BridgePorts = { readonly indexes: readonly number[] } | { readonly code: string }

export interface RunOptions extends CallOptions {
  readonly input?: string | undefined
  /** Gets what the tool prints in parts, as they come; `stdout` is the rest. A host may as well return everything. */
  readonly take?: ((part: string) => void) | undefined
}

/** How a process ended. Never an exception: a tool that is not there has `code` 'ENOENT'. */
export interface Ran {
  /** Exit status; null when it did not exit by itself or could not be started. */
  readonly status: number | null
  /** The signal that ended it; 'timeout' and 'aborted' when we did it. */
  readonly signal: string | null
  /** The error code (ENOENT, EACCES) when it could not be started. */
  readonly code: string | null
  readonly stdout: string
  readonly stderr: string
}

/** The inside of a named network namespace. */
export interface OpenNamespace {
  readonly host: Host
  /** Keeps the namespace open, for requests that name one by descriptor; the host closes it. */
  readonly descriptor: number
}

export interface Host {
  readonly namespace: NamespaceId
  /**
   * Sends a batch of netlink requests, all of one protocol, and returns all that answers them; `nlmsg_seq` of an answer is the
   * index of its request. Rejects with NetlinkError when the exchange itself did not come to its end
   * (codes 'TRUNCATED', 'ENOBUFS', 'TIMEOUT', 'ABORTED', or the errno's name). Errors that the kernel answers
   * with are answers.
   */
  exchange(requests: Buffer, options?: ExchangeOptions): Promise<Buffer>
  /**
   * The names of all bridges, by index and in its order, asked of the bridge module: rtnetlink takes thrice as long to find them
   * among many links. Null where the module does not tell.
   */
  bridgeNames(): Promise<ReadonlyMap<number, string> | null>
  /**
   * The ports of each bridge of these names, asked of the bridge itself: rtnetlink would walk all links of the node for
   * each. ENODEV: no link has that name now; EOPNOTSUPP: it is no bridge, or a kernel that does not tell.
   */
  bridgePorts(names: readonly string[]): Promise<readonly BridgePorts[]>
  /** Runs a tool in the host's network namespace. The name is looked up in PATH, and nowhere else. */
  run(command: string, args: readonly string[], options?: RunOptions): Promise<Ran>
  /** Reads a file as seen from the network namespace (/proc/thread-self/net/…). Rejects with Node's own error codes. */
  readFile(path: string): Promise<string>
  /**
   * Writes to a file that is there, in one write: a sysctl, below /proc/sys/net as seen from the network namespace.
   * Rejects with Node's own error codes.
   */
  writeFile(path: string, text: string): Promise<void>
  /**
   * The names below /run/netns of the network namespaces that this one has given an id, by that id: what
   * `Link.peerNamespace` refers to. Of two names of one namespace, the first.
   */
  namespaceNames(options?: CallOptions): Promise<ReadonlyMap<number, string>>
  /** Makes a network namespace of that name, on a placeholder too. Rejects with `code` EEXIST when the name is taken. */
  createNamespace(name: string): Promise<void>
  /** Removes the name. Rejects with `code` ENOENT when there is none; the namespace lives on while somebody holds it. */
  deleteNamespace(name: string): Promise<void>
  /**
   * Removes the empty file that is left at that name by whoever was killed while he made a namespace: nothing is mounted on
   * it. False when there is none such.
   */
  deletePlaceholder(name: string): Promise<boolean>
  /**
   * Opens the network namespace of that name, its calls limited like this host's. Null when there is none. Rejects without a
   * `code` when what bears the name is no network namespace.
   */
  openNamespace(name: string): Promise<OpenNamespace | null>
  /** Makes a network namespace of no name, to try things in: it is gone when its host is closed. */
  scratchNamespace(): Promise<OpenNamespace>
  /**
   * From now on every tool inherits this descriptor, that of a locked file: one that outlives us, since we were killed, goes on
   * holding the lock until it has ended too. Null ends it.
   */
  lend?(descriptor: number | null): void
  close(): void
}

/** The part of a host that running tools needs. */
export type ToolHost = Pick<Host, 'run' | 'readFile'>
