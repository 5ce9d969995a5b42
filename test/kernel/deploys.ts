/** Deploys and stops on a test's node, by the project in this process and by the oracle, from one description of each. */
import { constants } from 'node:os'
import {
  type Deployed,
  type DeployOptions,
  deploy,
  lockNodeState,
  type Reconciled,
  reconcile,
  type Stopped,
  stop,
  stopAddress,
} from '../../src/index.js'
import type { Host, OpenNamespace } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import { ContainerNet, type ContainerNetOptions } from '../../src/node/net.js'
import { delegate, type RunCall, refuse } from '../support/fake-host.js'
import type { TestNode } from '../support/node.js'
import { isRead, isRestore } from './passes.js'

export const NODE_BRIDGE = 'yah0'
export const ACME = 'yah0-6jgfqfdnu6'
export const GLOBEX = 'yah0-91auqknbeu'

/** A workload as a library's caller describes it, without what is derived from the rest. */
export interface Spec {
  readonly workload: string
  readonly octet: number
  /** The singleton tenant when left out. */
  readonly tenant?: string
  readonly identity?: string
  readonly allow?: readonly string[]
  readonly mtu?: number
  /** The first three bytes of its address. */
  readonly base?: string
}

export const spec = (
  workload: string,
  octet: number,
  tenant?: string,
  more: Omit<Spec, 'workload' | 'octet' | 'tenant'> = {},
): Spec => ({ workload, octet, ...(tenant === undefined ? {} : { tenant }), ...more })

export const addressOf = ({ octet, base = '10.128.3' }: Pick<Spec, 'octet' | 'base'>): string => `${base}.${octet}`

export function description({ octet, base, ...rest }: Spec): object {
  return { ...rest, address: addressOf({ octet, ...(base === undefined ? {} : { base }) }) }
}

/** The node as a Host whose named namespaces are the node's own, below its /run and not ours. */
export async function nodeHost(node: TestNode): Promise<Host> {
  // A guest of scripts/vm.sh is slow, and several tests run at once.
  const host = await openHost({ netns: node.netnsPath, timeoutMs: 180_000 })
  const file = (name: string): string => `/proc/${node.pid}/root/run/netns/${name}`
  const named = async (how: 'add' | 'del', name: string): Promise<void> => {
    const { status, stderr } = await node.exec('ip', ['netns', how, name])
    if (status === 0) return
    throw Object.assign(new Error(stderr), { code: /No such file/.test(stderr) ? 'ENOENT' : 'EEXIST' })
  }
  return {
    ...delegate(host),
    createNamespace: (name) => named('add', name),
    deleteNamespace: (name) => named('del', name),
    // Below our /run, not the node's.
    deletePlaceholder: async () => false,
    openNamespace: (name) => host.openNamespace(file(name)),
  }
}

/** The project on a node, with a Host of the test's making between it and the kernel. */
export class Project implements Disposable {
  readonly net: ContainerNet

  private constructor(
    readonly host: Host,
    options: ContainerNetOptions,
  ) {
    this.net = new ContainerNet(options)
  }

  static async on(node: TestNode, options: ContainerNetOptions = {}): Promise<Project> {
    return new Project(await nodeHost(node), { iptables: node.backend, ...options })
  }

  [Symbol.dispose](): void {
    this.host.close()
  }

  async deploy(what: Spec | object, host = this.host, options: DeployOptions = {}): Promise<Deployed> {
    await using lock = await this.#lock(host)
    return await deploy(this.net, lock, 'octet' in what ? description(what as Spec) : what, options)
  }

  async stop(workload: string, host = this.host): Promise<Stopped> {
    await using lock = await this.#lock(host)
    return await stop(this.net, lock, workload)
  }

  async stopAddress(address: string, host = this.host): Promise<Stopped> {
    await using lock = await this.#lock(host)
    return await stopAddress(this.net, lock, address)
  }

  async sweep(host = this.host): Promise<Reconciled> {
    await using lock = await this.#lock(host)
    return await reconcile(this.net, lock)
  }

  #lock(host: Host) {
    return lockNodeState(this.net, { host: { ...delegate(host), close() {} } })
  }
}

const { EPERM } = constants.errno

/** The same by the oracle. */
export function oracleArgs({ workload, tenant, identity, allow = [], ...rest }: Spec): string[] {
  return [
    ...['deploy', '--workload', workload, '--addr', addressOf(rest)],
    ...(tenant === undefined ? [] : ['--tenant', tenant]),
    ...(identity === undefined ? [] : ['--identity', identity]),
    ...allow.flatMap((peer) => ['--allow', peer]),
  ]
}

/** One change of the machine, before it is made: one netlink request, one run of iptables-restore, one file, one namespace. */
export type Write =
  | { readonly kind: 'request'; readonly request: Message; readonly inside: boolean }
  | { readonly kind: 'restore'; readonly run: RunCall }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'namespace'; readonly what: string }

/**
 * The host, which calls `hook` before each single change that is asked of it, also inside of namespaces. A batch of
 * requests goes out one by one. What the hook answers `refuse` to fails. `alive`: asked before everything; it throws once the process is to be dead.
 */
export function onWrites(host: Host, hook: (write: Write) => Promise<unknown>, alive = (): void => {}): Host {
  const isRefused = async (write: Write): Promise<boolean> => (await hook(write)) === 'refuse'
  const denied = (): Error => Object.assign(new Error('refused by the test'), { code: 'EPERM' })
  const wrap = (inner: Host, inside: boolean): Host => ({
    ...delegate(inner),
    async exchange(batch, options) {
      alive()
      const requests = [...readMessages(batch)]
      if (requests.every(isRead)) return inner.exchange(batch, options)
      const answers: Buffer[] = []
      for (const request of requests) {
        const refused = !isRead(request) && (await isRefused({ kind: 'request', request, inside }))
        answers.push(
          refused ? refuse(request, EPERM, 'refused by the test') : await inner.exchange(request.bytes, options),
        )
        const answer = answers.at(-1)
        for (const each of answer === undefined ? [] : readMessages(answer)) numbered(each, request.sequence)
      }
      return Buffer.concat(answers)
    },
    async run(command, args, options) {
      alive()
      const input = options?.input
      const run = { command, args, ...(input === undefined ? {} : { input }) }
      if (isRestore(run) && (await isRefused({ kind: 'restore', run })))
        return { status: 4, signal: null, code: null, stdout: '', stderr: 'refused by the test' }
      return inner.run(command, args, options)
    },
    async readFile(path) {
      alive()
      return inner.readFile(path)
    },
    async writeFile(path, text) {
      alive()
      if (await isRefused({ kind: 'file', path })) throw denied()
      return inner.writeFile(path, text)
    },
    async createNamespace(name) {
      alive()
      if (await isRefused({ kind: 'namespace', what: `add ${name}` })) throw denied()
      return inner.createNamespace(name)
    },
    async deleteNamespace(name) {
      alive()
      if (await isRefused({ kind: 'namespace', what: `delete ${name}` })) throw denied()
      return inner.deleteNamespace(name)
    },
    async openNamespace(name): Promise<OpenNamespace | null> {
      alive()
      const opened = await inner.openNamespace(name)
      return opened === null ? null : { ...opened, host: wrap(opened.host, true) }
    },
    async scratchNamespace() {
      alive()
      return inner.scratchNamespace()
    },
  })
  return wrap(host, false)
}

/** nlmsg_seq, in the answer's own bytes: it is the request's place in its batch. */
function numbered({ bytes }: Message, sequence: number): void {
  bytes.writeUInt32LE(sequence, 8)
}

/** What a person would call a write. */
export function nameOfWrite(write: Write): string {
  switch (write.kind) {
    case 'request':
      return `request ${write.request.type}${write.inside ? ' inside' : ''}`
    case 'restore':
      return `${write.run.command} ${(write.run.input ?? '').match(/^\*\S+/gm)?.join(' ')}`
    case 'file':
      return write.path
    case 'namespace':
      return `namespace ${write.what}`
  }
}
