/**
 * A kernel for tests: played by a callback, or a real one that fails where a test wants it to. All that a Host is
 * asked passes here, one request at a time, whether it was sent alone or in a batch.
 */
import type { ExchangeOptions, Host, Ran } from '../../src/kernel/host.js'
import {
  NLM_F_ACK_TLVS,
  NLM_F_CAPPED,
  NLM_F_DUMP_INTR,
  NLM_F_MULTI,
  NLMSG_DONE,
  NLMSG_ERROR,
  NLMSG_HDRLEN,
  NLMSGERR_ATTR_MSG,
  NLMSGERR_ATTR_OFFS,
} from '../../src/kernel/linux.js'
import { AttributeWriter } from '../../src/kernel/netlink/attribute.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import { writeMessage } from './messages.js'

/** Whole messages, each of them sent by the kernel. */
export type Answer = readonly Buffer[]

/** A Host whose kernel is the callback: asked with the requests of each exchange, it returns all answers. */
export function fakeHost(kernel: (requests: readonly Message[]) => Answer, rest: Partial<Host> = {}): Host {
  return {
    namespace: { device: 4, inode: 4026531840 },
    exchange: async (requests) => Buffer.concat(kernel([...readMessages(requests)])),
    bridgeNames: async () => null,
    bridgePorts: async (names) => names.map(() => ({ indexes: [] })),
    run: async (command) => {
      throw new Error(`the fake host cannot run ${command}`)
    },
    readFile: async (path) => {
      throw new Error(`the fake host cannot read ${path}`)
    },
    writeFile: async (path) => {
      throw new Error(`the fake host cannot write ${path}`)
    },
    namespaceNames: async () => new Map(),
    createNamespace: async () => {},
    deleteNamespace: async () => {},
    deletePlaceholder: async () => false,
    openNamespace: async () => null,
    scratchNamespace: async () => {
      throw new Error('the fake host makes no namespaces')
    },
    close() {},
    ...rest,
  }
}

// What a kernel answers.

/** One object. */
export function object(request: Message, type: number, payload: Buffer, flags = 0): Buffer {
  return writeMessage({ type, flags, payload, sequence: request.sequence, port: request.port })
}

/** A list to its end. Interrupted: the flag is on the message of that place, or on the closing one. */
export function list(
  request: Message,
  type: number,
  payloads: readonly Buffer[],
  { interruptedAt }: { interruptedAt?: number | 'end' } = {},
): Answer {
  const intr = (here: boolean) => (here ? NLM_F_MULTI | NLM_F_DUMP_INTR : NLM_F_MULTI)
  return [
    ...payloads.map((payload, i) => object(request, type, payload, intr(i === interruptedAt))),
    object(request, NLMSG_DONE, Buffer.alloc(4), intr(interruptedAt === 'end')),
  ]
}

/** The closing message of a list that ends in an error. `errno` is positive, as in os.constants.errno. */
export function endInError(request: Message, errno: number, text?: string): Buffer {
  const tlvs = text === undefined ? 0 : NLM_F_ACK_TLVS
  return object(request, NLMSG_DONE, Buffer.concat([errnoBytes(errno), extendedAck(text)]), NLM_F_MULTI | tlvs)
}

export function ack(request: Message): Buffer {
  return refuse(request, 0)
}

/** A refusal, with the kernel's words and the offset into the request when given. */
export function refuse(request: Message, errno: number, text?: string, offset?: number): Buffer {
  const tlvs = text === undefined ? 0 : NLM_F_ACK_TLVS
  const header = request.bytes.subarray(0, NLMSG_HDRLEN)
  const payload = Buffer.concat([errnoBytes(errno), header, extendedAck(text, offset)])
  return object(request, NLMSG_ERROR, payload, NLM_F_CAPPED | tlvs)
}

function errnoBytes(errno: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32LE(-errno)
  return bytes
}

function extendedAck(text?: string, offset?: number): Buffer {
  const attributes = new AttributeWriter()
  if (text !== undefined) attributes.string(NLMSGERR_ATTR_MSG, text)
  if (offset !== undefined) attributes.u32(NLMSGERR_ATTR_OFFS, offset)
  return attributes.finish()
}

// What can go wrong with one call. `forward` makes the call as it was meant: what happens before and after it is
// the fault's own business, so a fault can also be somebody else's change at the worst moment.

export type Fault<Call, Result> = (call: Call, forward: () => Promise<Result>) => Promise<Result>
export type ExchangeFault = Fault<Message, Answer>

/** The kernel never sees the request: it is refused. */
export function refused(errno: number, text?: string): ExchangeFault {
  return async (request) => [refuse(request, errno, text)]
}

/** The last message of the answer is missing. */
export const cutShort: ExchangeFault = async (_request, forward) => (await forward()).slice(0, -1)

/** The closing message says that the list changed meanwhile. */
export const interrupted: ExchangeFault = async (_request, forward) => {
  const answer = await forward()
  const last = Buffer.from(answer.at(-1) ?? [])
  last.writeUInt16LE(last.readUInt16LE(6) | NLM_F_DUMP_INTR, 6)
  return [...answer.slice(0, -1), last]
}

/** The list is all there, and its closing message carries an error. */
export function closingError(errno: number, text?: string): ExchangeFault {
  return async (request, forward) => [...(await forward()).slice(0, -1), endInError(request, errno, text)]
}

/** The call rejects, before anything was asked. For an exchange: the whole batch from here on. */
export function rejected(error: Error): <R>(call: unknown, forward: () => Promise<R>) => Promise<R> {
  return async () => {
    throw error
  }
}

/** The call was made, and its answer is lost. */
export function lost(error: Error): <R>(call: unknown, forward: () => Promise<R>) => Promise<R> {
  return async (_call, forward) => {
    await forward()
    throw error
  }
}

/** Which calls of those that match: the nth, counted from 1; all when left out. */
export interface Nth {
  readonly nth?: number
}

export interface RunCall {
  readonly command: string
  readonly args: readonly string[]
  readonly input?: string | undefined
}

/** The host, with a fault in the requests of that type (or that the predicate picks). Nest for several faults. */
export function failExchange(
  host: Host,
  which: Nth & { readonly of: number | ((request: Message) => boolean) },
  fault: ExchangeFault,
): Host {
  const { of } = which
  const hit = counter(which, (request: Message) => (typeof of === 'number' ? request.type === of : of(request)))
  return { ...delegate(host), exchange: (bytes, options) => exchangeWithFault(host, bytes, options, hit, fault) }
}

/** The host, with a fault in the runs of that tool (or that the predicate picks). */
export function failRun(
  host: Host,
  which: Nth & { readonly of: string | ((call: RunCall) => boolean) },
  fault: Fault<RunCall, Ran>,
): Host {
  const { of } = which
  const hit = counter(which, (call: RunCall) => (typeof of === 'string' ? call.command === of : of(call)))
  return {
    ...delegate(host),
    run(command, args, options) {
      const call = runCall(command, args, options)
      const forward = () => host.run(command, args, options)
      return hit(call) ? fault(call, forward) : forward()
    },
  }
}

/** The host, with a fault in the reads of that file (or that the predicate picks). */
export function failReadFile(
  host: Host,
  which: Nth & { readonly of: string | ((path: string) => boolean) },
  fault: Fault<string, string>,
): Host {
  const { of } = which
  const hit = counter(which, (path: string) => (typeof of === 'string' ? path === of : of(path)))
  return {
    ...delegate(host),
    readFile: (path) => (hit(path) ? fault(path, () => host.readFile(path)) : host.readFile(path)),
  }
}

export interface WriteCall {
  readonly path: string
  readonly text: string
}

/** The host, with a fault in the writes of that file (or that the predicate picks). */
export function failWriteFile(
  host: Host,
  which: Nth & { readonly of: string | ((call: WriteCall) => boolean) },
  fault: Fault<WriteCall, void>,
): Host {
  const { of } = which
  const hit = counter(which, (call: WriteCall) => (typeof of === 'string' ? call.path === of : of(call)))
  return {
    ...delegate(host),
    writeFile(path, text) {
      const call = { path, text }
      const forward = () => host.writeFile(path, text)
      return hit(call) ? fault(call, forward) : forward()
    },
  }
}

/** Everything that was asked, in order. */
export type Call = Message | RunCall | { readonly path: string } | WriteCall

/** The host, which writes down in `calls` what it is asked. */
export function recording(host: Host, calls: Call[]): Host {
  return {
    ...delegate(host),
    exchange(batch, options) {
      calls.push(...readMessages(batch))
      return host.exchange(batch, options)
    },
    run(command, args, options) {
      calls.push(runCall(command, args, options))
      return host.run(command, args, options)
    },
    readFile(path) {
      calls.push({ path })
      return host.readFile(path)
    },
    writeFile(path, text) {
      calls.push({ path, text })
      return host.writeFile(path, text)
    },
  }
}

function runCall(
  command: string,
  args: readonly string[],
  options: { readonly input?: string | undefined } = {},
): RunCall {
  return { command, args, ...(options.input === undefined ? {} : { input: options.input }) }
}

/** A host of its own that does what that one does: to be spread, with a call of another kind in it. */
export function delegate(host: Host): Host {
  return {
    namespace: host.namespace,
    exchange: (requests, options) => host.exchange(requests, options),
    bridgeNames: () => host.bridgeNames(),
    bridgePorts: (names) => host.bridgePorts(names),
    run: (command, args, options) => host.run(command, args, options),
    readFile: (path) => host.readFile(path),
    writeFile: (path, text) => host.writeFile(path, text),
    namespaceNames: (options) => host.namespaceNames(options),
    createNamespace: (name) => host.createNamespace(name),
    deleteNamespace: (name) => host.deleteNamespace(name),
    deletePlaceholder: (name) => host.deletePlaceholder(name),
    openNamespace: (name) => host.openNamespace(name),
    scratchNamespace: () => host.scratchNamespace(),
    lend: (descriptor) => host.lend?.(descriptor),
    close: () => host.close(),
  }
}

function counter<C>({ nth }: Nth, matches: (call: C) => boolean): (call: C) => boolean {
  let seen = 0
  return (call) => matches(call) && (nth === undefined || ++seen === nth)
}

/** The batch in its order: what the fault does not concern goes out together, what it does goes through it alone. */
async function exchangeWithFault(
  host: Host,
  batch: Buffer,
  options: ExchangeOptions | undefined,
  hit: (request: Message) => boolean,
  fault: ExchangeFault,
): Promise<Buffer> {
  const answers: Buffer[] = []
  let waiting: Message[] = []
  const flush = async () => {
    answers.push(...(await exchange(host, waiting, options)))
    waiting = []
  }
  for (const request of readMessages(batch)) {
    if (!hit(request)) {
      waiting.push(request)
      continue
    }
    await flush()
    answers.push(...(await fault(request, () => exchange(host, [request], options))))
  }
  await flush()
  return Buffer.concat(answers)
}

/** The answers carry the numbers of the requests in the batch that they were taken from. */
async function exchange(
  host: Host,
  requests: readonly Message[],
  options: ExchangeOptions | undefined,
): Promise<Answer> {
  if (requests.length === 0) return []
  // What may be left out is told by the numbers of the batch; nothing need be.
  const answers = await host.exchange(Buffer.concat(requests.map(renumbered)), { ...options, keep: undefined })
  return [...readMessages(answers)].map(({ type, flags, sequence, port, bytes, payload }) =>
    writeMessage({
      type,
      flags,
      payload: bytes.subarray(payload),
      sequence: requests[sequence]?.sequence ?? sequence,
      port,
    }),
  )
}

function renumbered({ type, flags, bytes, payload }: Message, sequence: number): Buffer {
  return writeMessage({ type, flags, payload: bytes.subarray(payload), sequence })
}
