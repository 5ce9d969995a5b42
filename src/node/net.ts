/** Which part of a node is meant, and what can be derived from that without asking the kernel. */

import { type BackendChoice, isBackendChoice } from '../kernel/iptables/tools.js'
import { type Cidr, cidrContains, formatCidr, formatIpv4, parseCidr, parseIpv4 } from '../kernel/ipv4.js'
import {
  grantChain,
  hostVethName,
  identityChain,
  identityMark,
  isTenantDigits,
  isWorkloadOctet,
  MESH_POOL,
  namespaceName,
  peerVethName,
  tenantBridgePrefix,
  tenantDigits,
} from './contract.js'
import { UsageError } from './errors.js'
import { checkTime } from './numbers.js'
import { Subnet } from './subnet.js'

export interface ContainerNetOptions {
  /** The node bridge. Default `yah0`. */
  readonly bridge?: string | undefined
  /** The range that the fleet's `/24`s are cut from, canonical, prefix 8 to 24. Default `10.128.0.0/9`. */
  readonly range?: string | undefined
  /** The node's `/24`; recovered from the kernel when left out. */
  readonly subnet?: string | undefined
  /** The tenant that lives on the node bridge itself. Default `singleton`. */
  readonly singletonTenant?: string | undefined
  /** The network namespace, by name or absolute path; the caller's own when left out. */
  readonly netns?: string | undefined
  /** Which iptables back ends are looked at. Default `auto`: both where both hold tables. */
  readonly iptables?: BackendChoice | undefined
  /** Milliseconds that one question to the kernel, or one run of a tool, may take. Default 30,000. */
  readonly timeoutMs?: number | undefined
}

/** The names of one workload, as docs/node-state.md derives them. */
export interface WorkloadNames {
  readonly namespace: string
  readonly hostVeth: string
  readonly peerVeth: string
  readonly identityChain: string
  readonly grantChain: string
}

/** A node's container network: options that were checked, and names derived from them. Opens nothing. */
export class ContainerNet {
  readonly bridge: string
  readonly range: string
  /** What the caller says; null: ask the kernel. */
  readonly subnet: Subnet | null
  readonly singletonTenant: string
  readonly netns: string | undefined
  readonly iptables: BackendChoice
  readonly timeoutMs: number
  readonly #range: Cidr

  /** Throws UsageError for a value that cannot be meant. */
  constructor(options: ContainerNetOptions = {}) {
    this.bridge = checkBridge(options.bridge ?? 'yah0')
    this.#range = checkRange(options.range ?? '10.128.0.0/9')
    this.range = formatCidr(this.#range)
    this.subnet = options.subnet === undefined ? null : checkSubnet(options.subnet, this.#range)
    this.singletonTenant = checkNotEmpty('--singleton-tenant', options.singletonTenant ?? 'singleton')
    this.netns = options.netns === undefined ? undefined : checkNotEmpty('--netns', options.netns)
    this.iptables = checkBackend(options.iptables ?? 'auto')
    this.timeoutMs = checkTimeout(options.timeoutMs ?? 30_000)
  }

  /** The bridge that a tenant's workloads hang on: the node bridge for the singleton tenant. */
  tenantBridge(tenant: string): string {
    return tenant === this.singletonTenant ? this.bridge : tenantBridgePrefix(this.bridge) + tenantDigits(tenant)
  }

  /** Whether a link's name has exactly the form of one of this node's tenant bridges. */
  isTenantBridge(name: string): boolean {
    const prefix = tenantBridgePrefix(this.bridge)
    return name.startsWith(prefix) && isTenantDigits(name.slice(prefix.length))
  }

  inRange(address: string): boolean {
    const number = parseIpv4(address)
    return number !== null && cidrContains(this.#range, number)
  }

  /** The `/24` that an address of the range lies in; null for one outside. */
  subnetOf(address: string): Subnet | null {
    return this.inRange(address) ? Subnet.containing(address) : null
  }

  /** The `/24` of the node with that mesh address; null when it is not of the mesh pool. `100.64.0.3` → `10.128.3.0/24`. */
  subnetForMesh(meshAddress: string): Subnet | null {
    const number = parseIpv4(meshAddress)
    const pool = parseCidr(MESH_POOL)
    if (number === null || pool === null || !cidrContains(pool, number)) return null
    const subnets = 2 ** (24 - this.#range.prefix)
    return Subnet.containing(formatIpv4(this.#range.base + ((number - pool.base) % subnets) * 256))
  }

  /** A workload's address from the node's mesh address and the workload's octet; null when either cannot be one's. */
  workloadAddress(meshAddress: string, octet: number): string | null {
    return isWorkloadOctet(octet) ? (this.subnetForMesh(meshAddress)?.address(octet) ?? null) : null
  }

  /** The names of the workload with that name and address. Throws UsageError for an address that no workload has. */
  workloadNames(workload: string, address: string): WorkloadNames {
    const octet = this.subnetOf(address)?.workloadOctet(address)
    if (octet === undefined || octet === null)
      throw new UsageError('address', `${address} is no workload's in ${this.range}`)
    return {
      namespace: namespaceName(workload),
      hostVeth: hostVethName(octet),
      peerVeth: peerVethName(octet),
      identityChain: identityChain(address),
      grantChain: grantChain(address),
    }
  }

  /** The mark of `<tenant>/<namespace>/<name>`: 1 to 65535. */
  identityMark(identity: string): number {
    return identityMark(identity)
  }
}

const MAX_LINK_NAME = 15

function checkBridge(name: string): string {
  const bad = (reason: string): never => {
    throw new UsageError(
      '--bridge',
      `${JSON.stringify(name)} ${reason}`,
      `name the node bridge, as \`ip link\` shows it`,
    )
  }
  if (name === '' || name.length > MAX_LINK_NAME) bad(`is no link name: 1 to ${MAX_LINK_NAME} bytes`)
  // The kernel's own rule (dev_valid_name), and printable ASCII besides: the name goes into rules and reports.
  if (!/^[\x21-\x7e]+$/.test(name) || /[/:]/.test(name) || name === '.' || name === '..') bad('is no link name')
  if (/^[-!]/.test(name)) bad('begins as an option or a negation does')
  if (name.endsWith('+')) bad('ends in "+": iptables would match every link that begins so')
  const digits = /^.{1,4}-(.*)$/.exec(name)?.[1]
  if (digits !== undefined && isTenantDigits(digits)) bad('has the form of a tenant bridge')
  return name
}

function checkRange(text: string): Cidr {
  const range = parseCidr(text)
  if (range === null || range.prefix < 8 || range.prefix > 24)
    throw new UsageError(
      '--range',
      `${JSON.stringify(text)} is no canonical IPv4 network of prefix 8 to 24`,
      'write it as 10.128.0.0/9',
    )
  return range
}

function checkSubnet(text: string, range: Cidr): Subnet {
  const subnet = parseCidr(text)
  if (subnet === null || subnet.prefix !== 24 || !cidrContains(range, subnet.base))
    throw new UsageError(
      '--subnet',
      `${JSON.stringify(text)} is no /24 inside ${formatCidr(range)}`,
      'write it as 10.128.3.0/24',
    )
  return Subnet.containing(formatIpv4(subnet.base))
}

function checkNotEmpty(option: string, text: string): string {
  if (text === '') throw new UsageError(option, 'is empty')
  if (text.includes('\0')) throw new UsageError(option, 'holds a null byte')
  return text
}

function checkBackend(text: string): BackendChoice {
  if (!isBackendChoice(text)) throw new UsageError('--iptables', `${JSON.stringify(text)} is none of auto, nft, legacy`)
  return text
}

function checkTimeout(timeoutMs: number): number {
  checkTime('--timeout', timeoutMs)
  if (timeoutMs === 0) throw new UsageError('--timeout', '0 s is no time to wait')
  return timeoutMs
}
