/**
 * Every name, number and form that other programs on the node rely on (docs/node-state.md). A different spelling is a
 * piece of state that nobody ever removes, so each stands here and nowhere else.
 */
import { hasWord, type Written } from '../kernel/iptables/rule.js'

/** The bit of a packet's mark that lets it pass between tenants. */
export const GRANT_MARK = 0x2000000
/** The bit of a packet's mark that says: a reply, or the mesh. */
export const REPLY_MARK = 0x1000000
/** The bits of a packet's mark that say who sent it. */
export const IDENTITY_MASK = 0xffff

export const MESH_POOL = '100.64.0.0/10'

export const WORKLOAD_PRIORITY = 1200
/** The first of each pair exists only while a deploy runs. */
export const SUBNET_PRIORITIES = [1201, 1202] as const
export const MESH_PRIORITIES = [1203, 1204] as const

/** Comments of the two generations of an isolation rule; the first exists only while a deploy runs. */
export const GENERATION_TAGS = ['yah-isolation-a', 'yah-isolation-b'] as const

/** Whether a generation's tag is among the words of a rule. Not yet that it is the rule's comment. */
export function hasTag(rule: Written): boolean {
  return GENERATION_TAGS.some((tag) => hasWord(rule, tag))
}

/** The pref of the tc filter that lets a granted pair's ARP requests through. */
export const GRANT_FILTER_PREF = 895

const FIRST_OCTET = 2
const LAST_OCTET = 254

/** A workload's last octet: 2 to 254. 1 is the gateway's. */
export function isWorkloadOctet(octet: number): boolean {
  return Number.isInteger(octet) && octet >= FIRST_OCTET && octet <= LAST_OCTET
}

export function workloadOctets(): number[] {
  return Array.from({ length: LAST_OCTET - FIRST_OCTET + 1 }, (_, i) => FIRST_OCTET + i)
}

export const hostVethName = (octet: number): string => `veth${octet}`
/** The peer's name before it moves into the workload's namespace, where it becomes eth0. */
export const peerVethName = (octet: number): string => `vethc${octet}`

/** The octet in a host veth's name; null for any other name: `veth07`, `veth1`, `veth255`, `vethc7`. */
export function hostVethOctet(name: string): number | null {
  if (!/^veth[1-9][0-9]{0,2}$/.test(name)) return null
  const octet = Number(name.slice('veth'.length))
  return isWorkloadOctet(octet) ? octet : null
}

export const identityChain = (address: string): string => `yah-id-${address}`
export const grantChain = (address: string): string => `yah-gr-${address}`

/** What a chain's name says, when it has the form of one of ours; the address is not checked. */
export function chainAddress(name: string): string | null {
  return /^yah-(?:id|gr)-./.test(name) ? name.slice('yah-id-'.length) : null
}

/** A tenant bridge's name begins with the first four characters of the node bridge's. */
export const tenantBridgePrefix = (nodeBridge: string): string => `${nodeBridge.slice(0, 4)}-`

const TENANT_DIGITS = '0123456789abcdefghijklmnopqrstuv'
const TENANT_LENGTH = 10

/** Ten base-32 digits of the tenant id's FNV-1a 64, folded to 50 bits. `acme` → `6jgfqfdnu6`. */
export function tenantDigits(tenant: string): string {
  const hash = fnv1a64(tenant)
  const folded = (hash >> 50n) ^ (hash & ((1n << 50n) - 1n))
  let digits = ''
  for (let i = TENANT_LENGTH - 1; i >= 0; i--) digits += TENANT_DIGITS[Number((folded >> BigInt(i * 5)) & 31n)]
  return digits
}

export function isTenantDigits(text: string): boolean {
  return /^[0-9a-v]{10}$/.test(text)
}

/** The mark that says who sent a packet: 1 to 65535. `globex/prod/billing` → 6249. */
export function identityMark(identity: string): number {
  return Number(fnv1a64(identity) % 65535n) + 1
}

/** The name of a workload's network namespace: at most 60 of `[A-Za-z0-9_-]`. */
export function namespaceName(workload: string): string {
  return workload.replace(/[^A-Za-z0-9_-]/gu, '-').slice(0, 60) || 'workload'
}

/** The handle of the filter for ARP requests from one address for the other, both of one `/24`. */
export const grantFilterHandle = (senderOctet: number, targetOctet: number): number => (senderOctet << 8) | targetOctet

function fnv1a64(text: string): bigint {
  let hash = 0xcbf29ce484222325n
  for (const byte of Buffer.from(text, 'utf8')) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return hash
}
