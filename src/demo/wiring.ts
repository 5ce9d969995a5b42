/**
 * Workloads as docs/node-state.md wires them, with plain `ip`, `tc` and `iptables` calls: only the demo uses it, on a node
 * of its own. The rules come from the descriptions that the sweep reads, so the two cannot drift apart.
 */
import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Backend } from '../kernel/iptables/backend.js'
import {
  GENERATION_TAGS,
  GRANT_FILTER_PREF,
  GRANT_MARK,
  grantChain,
  grantFilterHandle,
  identityChain,
  identityMark,
} from '../node/contract.js'
import { admitRules, type Identity, identityRule, jumpRules } from '../node/grants.js'
import { acceptRules, bridgeProhibits, isolationRules, type Prohibit, workloadProhibit } from '../node/isolation.js'
import type { ContainerNet } from '../node/net.js'
import type { Subnet } from '../node/subnet.js'
import { ToolFailure, type Tools } from './tools.js'

export interface Workload {
  readonly name: string
  readonly octet: number
  readonly tenant: string
  /** The one workload of another tenant that may reach it. */
  readonly admits?: Workload
}

export class Wiring {
  readonly #bridges = new Set<string>()
  readonly #iptables: string

  constructor(
    readonly tools: Tools,
    readonly net: ContainerNet,
    readonly subnet: Subnet,
    backend: Backend,
  ) {
    this.#iptables = `iptables-${backend}`
  }

  address({ octet }: Workload): string {
    return this.subnet.address(octet)
  }

  bridge({ tenant }: Workload): string {
    return this.net.tenantBridge(tenant)
  }

  identity({ tenant, name }: Workload): string {
    return `${tenant}/prod/${name}`
  }

  async deploy(workload: Workload): Promise<void> {
    const bridge = this.bridge(workload)
    if (!this.#bridges.has(bridge)) await this.#makeBridge(bridge)
    this.#bridges.add(bridge)
    await this.#makePair(workload, bridge)
    if (bridge !== this.net.bridge) {
      await this.#prohibit(workloadProhibit(this.net.bridge, this.address(workload)))
      await this.#ip('route', 'replace', `${this.address(workload)}/32`, 'dev', bridge)
    }
    await this.#makeChains(workload, bridge)
    if (workload.admits !== undefined) {
      await this.#letPass(workload, workload.admits)
      await this.#letPass(workload.admits, workload)
    }
  }

  /** Deletes the namespace, and waits until the kernel has taken the veth pair with it. */
  async stop(workload: Workload): Promise<void> {
    const { namespace, hostVeth } = this.#names(workload)
    await this.#ip('netns', 'delete', namespace)
    for (let tries = 0; tries < 500; tries++) {
      if (!(await this.tools.succeeds('ip', 'link', 'show', 'dev', hostVeth))) return
      await sleep(10)
    }
    throw new ToolFailure(`${hostVeth} is still there`)
  }

  /** A bridge with the name of a tenant's, which somebody uses for a link of his own. */
  async plugInStranger(bridge: string): Promise<void> {
    await this.#ip('link', 'add', 'name', bridge, 'type', 'bridge')
    await this.#ip('link', 'add', 'guest0', 'type', 'veth', 'peer', 'name', 'guest1')
    await this.#ip('link', 'set', 'guest0', 'master', bridge)
    for (const { chain, words } of acceptRules(bridge)) await this.#rule('filter', '-A', chain, words)
  }

  async #makeBridge(bridge: string): Promise<void> {
    const isTenants = bridge !== this.net.bridge
    await this.#ip('link', 'add', 'name', bridge, 'type', 'bridge')
    await this.#ip('addr', 'add', `${this.subnet.gateway}/${isTenants ? 32 : 24}`, 'dev', bridge)
    await this.#ip('link', 'set', bridge, 'up')
    await sysctl('ipv4/ip_forward', 1)
    if (isTenants) await this.#isolate(bridge)
    else {
      const outside = ['-s', `${this.subnet}`, '!', '-d', `${this.subnet}`]
      await this.#rule('nat', '-A', 'POSTROUTING', [...outside, '-j', 'MASQUERADE'])
    }
    for (const { chain, words } of acceptRules(bridge)) await this.#rule('filter', '-A', chain, words)
  }

  async #isolate(bridge: string): Promise<void> {
    await sysctl(`ipv6/conf/${bridge}/disable_ipv6`, 1).catch(ignoreAbsent)
    await sysctl('ipv4/conf/all/src_valid_mark', 1)
    await sysctl(`ipv4/conf/${bridge}/rp_filter`, 1)
    for (const prohibit of bridgeProhibits(bridge, this.subnet)) await this.#prohibit(prohibit)
    const [, generation] = GENERATION_TAGS
    for (const { table, chain, tag, shared, words } of isolationRules(this.net.bridge, bridge, this.subnet)) {
      if (tag !== generation) continue
      if (shared) await this.tools.succeeds(this.#iptables, '-w', '-t', table, '-D', chain, ...words)
      await this.#rule(table, '-I', chain, words)
    }
  }

  async #makePair(workload: Workload, bridge: string): Promise<void> {
    const { namespace, hostVeth, peerVeth } = this.#names(workload)
    await this.#ip('netns', 'add', namespace)
    await this.#ip('link', 'add', hostVeth, 'type', 'veth', 'peer', 'name', peerVeth)
    await this.#ip('link', 'set', hostVeth, 'master', bridge, 'up')
    await this.#ip('link', 'set', peerVeth, 'netns', namespace)
    const inside = ['-n', namespace]
    await this.#ip(...inside, 'link', 'set', 'lo', 'up')
    await this.#ip(...inside, 'link', 'set', peerVeth, 'name', 'eth0')
    await this.#ip(...inside, 'addr', 'add', `${this.address(workload)}/24`, 'dev', 'eth0')
    await this.#ip(...inside, 'link', 'set', 'eth0', 'up')
    await this.#ip(...inside, 'route', 'add', 'default', 'via', this.subnet.gateway)
  }

  async #makeChains(workload: Workload, bridge: string): Promise<void> {
    const address = this.address(workload)
    const [identityJump = [], ...grantJumps] = jumpRules(address)
    await this.#rule('mangle', '-N', identityChain(address), [])
    await this.#rule(
      'mangle',
      '-A',
      identityChain(address),
      identityRule(address, this.#identity(workload), this.subnet),
    )
    await this.#rule('mangle', '-I', 'PREROUTING', identityJump)
    await this.#rule('mangle', '-N', grantChain(address), [])
    if (workload.admits === undefined) return

    const grant = `0x${GRANT_MARK.toString(16)}/0x${GRANT_MARK.toString(16)}`
    const replies = [
      '-i',
      bridge,
      '-s',
      address,
      '-m',
      'conntrack',
      '--ctdir',
      'REPLY',
      '-m',
      'connmark',
      '--mark',
      grant,
    ]
    const rules = [
      ...admitRules(address, this.#identity(workload.admits)),
      [...replies, '-j', 'MARK', '--set-xmark', grant],
    ]
    for (const words of rules) await this.#rule('mangle', '-A', grantChain(address), words)
    for (const words of grantJumps) await this.#rule('mangle', '-A', 'PREROUTING', words)
  }

  /** One side of a granted pair: its bridge answers for the other, where the kernel has the filters also by mark. */
  async #letPass(own: Workload, other: Workload): Promise<void> {
    const bridge = this.bridge(own)
    await sysctl(`ipv4/neigh/${bridge}/proxy_delay`, 0)
    await this.#ip('neigh', 'replace', 'proxy', this.address(other), 'dev', bridge)
    if (!(await this.tools.succeeds('tc', 'qdisc', 'replace', 'dev', bridge, 'clsact'))) return
    const handle = `0x${grantFilterHandle(own.octet, other.octet).toString(16)}`
    const place = ['dev', bridge, 'ingress', 'protocol', 'arp', 'pref', `${GRANT_FILTER_PREF}`, 'handle', handle]
    const match = ['flower', 'arp_op', 'request', 'arp_sip', this.address(own), 'arp_tip', this.address(other)]
    const mark = ['action', 'skbedit', 'mark', `${GRANT_MARK}/${GRANT_MARK}`]
    await this.tools.succeeds('tc', 'filter', 'replace', ...place, ...match, ...mark)
  }

  #identity(workload: Workload): Identity {
    return { bridge: this.bridge(workload), mark: identityMark(this.identity(workload)) }
  }

  #names(workload: Workload): ReturnType<ContainerNet['workloadNames']> {
    return this.net.workloadNames(workload.name, this.address(workload))
  }

  async #prohibit({ priorities, iif, destination, prefix, mask }: Prohibit): Promise<void> {
    const selector = ['iif', iif, 'to', `${destination}/${prefix}`, 'fwmark', `0/0x${mask.toString(16)}`]
    await this.#ip('rule', 'add', 'priority', `${priorities.at(-1)}`, ...selector, 'prohibit')
  }

  async #rule(table: string, command: string, chain: string, words: readonly string[]): Promise<void> {
    await this.tools.run(this.#iptables, '-w', '-t', table, command, chain, ...words)
  }

  async #ip(...args: string[]): Promise<void> {
    await this.tools.run('ip', ...args)
  }
}

async function sysctl(name: string, value: number): Promise<void> {
  await writeFile(`/proc/sys/net/${name}`, `${value}\n`)
}

/** A kernel without IPv6 has none to switch off. */
function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
