/** One place's prober.py, as a test calls it. */
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { TestNode } from '../support/node.js'
import { Talker } from './talker.js'

export type Kind = 'tcp' | 'udp' | 'icmp' | 'arp'

export interface Probe {
  readonly kind: Kind
  readonly dst: string
  /** Says who asks, to whom it is asked. */
  readonly port: number
  /** Seconds. */
  readonly wait: number
  /** SO_MARK */
  readonly mark?: number
  /** The own port, of a UDP probe. */
  readonly bind?: number
}

export interface Forged {
  readonly kind: Exclude<Kind, 'arp'>
  readonly src: string
  readonly dst: string
  readonly port: number
  /** The link address that it is sent to. */
  readonly mac: string
}

export interface Stream {
  readonly name: string
  readonly dst: string
  /** Seconds between two packets. */
  readonly every: number
}

/** The system's own Python first: a version manager's shim in front of it takes longer than all the rest. */
export const PYTHON_PATH = `/usr/bin:/bin:/usr/sbin:/sbin:${process.env.PATH ?? ''}`
const SCRIPT = fileURLToPath(new URL('./prober.py', import.meta.url))

export class Prober {
  private constructor(readonly talker: Talker) {}

  /** In the named namespace, on that link of it; without one: on the node itself. */
  static async start(node: TestNode, name: string, inside?: { namespace: string; link: string }): Promise<Prober> {
    const python = ['python3', '-B', SCRIPT, name, ...(inside === undefined ? [] : [inside.link])]
    const enter = inside === undefined ? [] : ['nsenter', `--net=/run/netns/${inside.namespace}`, '--']
    const [command = '', ...args] = [...enter, ...python]
    const talker = new Talker(await node.start(command, args, { env: { PATH: PYTHON_PATH } }), `prober ${name}`)
    await talker.ready()
    return new Prober(talker)
  }

  /** Resolves when it holds no namespace any more. */
  async end(): Promise<void> {
    const { process } = this.talker
    if (process.exitCode !== null || process.signalCode !== null) return
    const exit = once(process, 'exit')
    process.stdin.end()
    await exit
  }

  /** What each was answered: `NAME hears ADDRESS`, or `yes`; '' for nothing, `!ERRNO` when the kernel gave up. */
  async probe(probes: readonly Probe[]): Promise<string[]> {
    return (await this.talker.ask('probe', probes)) as string[]
  }

  async forge(packets: readonly Forged[]): Promise<void> {
    await this.talker.ask('forge', packets)
  }

  /** The probes that came here since this was last asked, as `KIND PORT`, and streams by their name: how many. */
  async heard(): Promise<Record<string, number>> {
    return (await this.talker.ask('heard')) as Record<string, number>
  }

  async stream(streams: readonly Stream[]): Promise<void> {
    await this.talker.ask('stream', streams)
  }

  /** Ends the streams; how many packets each of them sent, by its name. */
  async sent(): Promise<Record<string, number>> {
    return (await this.talker.ask('sent')) as Record<string, number>
  }

  /** On the node: counts, from now on, the packets of any of these senders to any of these receivers that leave by a link. */
  async watch(senders: readonly string[], receivers: readonly string[]): Promise<void> {
    await this.talker.ask('watch', senders, receivers)
  }

  /** Ends the watch. `missed`: packets that the kernel had no room for. */
  async seen(): Promise<{ readonly seen: Record<string, number>; readonly missed: number }> {
    const [seen, missed] = (await this.talker.ask('seen')) as [Record<string, number>, number]
    return { seen, missed }
  }
}
