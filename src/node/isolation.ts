/**
 * What a tenant bridge carries besides its address: ONE description, read by whoever asserts it and by the sweep that
 * withdraws it, so that a rule cannot be added in a form that nobody knows how to remove. iptables rules are worded as
 * iptables-save prints them: most that are read back are the same word by word, and need not be taken apart.
 */

import type { NewRule } from '../kernel/rtnetlink/rule.js'
import {
  GENERATION_TAGS,
  GRANT_MARK,
  MESH_POOL,
  MESH_PRIORITIES,
  REPLY_MARK,
  SUBNET_PRIORITIES,
  WORKLOAD_PRIORITY,
} from './contract.js'
import type { Subnet } from './subnet.js'

const hex = (value: number): string => `0x${value.toString(16)}`
const GRANT = hex(GRANT_MARK)
const REPLY = hex(REPLY_MARK)

/** One iptables rule, as the words behind `-A CHAIN`, in the order and form that iptables-save prints. */
export interface TableRule {
  readonly table: 'raw' | 'mangle' | 'filter'
  readonly chain: string
  readonly words: readonly string[]
}

/** A rule with a generation's tag. `shared`: it names no bridge, and every tenant bridge asserts the same one. */
export interface TaggedRule extends TableRule {
  readonly tag: string
  readonly shared: boolean
}

/** The tagged rules of one tenant bridge, both generations of each. */
export function isolationRules(nodeBridge: string, bridge: string, subnet: Subnet): TaggedRule[] {
  const net = String(subnet)
  const unasked = ['-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED']
  const ungranted = ['-m', 'mark', '!', '--mark', `${GRANT}/${GRANT}`]
  const drop = ['-j', 'DROP']
  const reply = ['-j', 'MARK', '--set-xmark', `${REPLY}/${REPLY}`]
  const rules: [TableRule['table'], string, string[], string[]][] = [
    ['raw', 'PREROUTING', ['-i', bridge, '-m', 'rpfilter', '--invert'], drop],
    ['mangle', 'PREROUTING', ['-i', bridge, '-m', 'conntrack', '--ctstate', 'RELATED,ESTABLISHED'], reply],
    ['filter', 'FORWARD', ['-d', net, '-i', bridge, '!', '-o', bridge, ...ungranted], drop],
    ['filter', 'FORWARD', ['-s', net, '!', '-i', bridge, '-o', bridge, ...ungranted], drop],
    ['filter', 'FORWARD', ['-i', nodeBridge, '-o', bridge, ...ungranted], drop],
    ['filter', 'FORWARD', ['-d', MESH_POOL, '-i', bridge, ...unasked, ...ungranted], drop],
    ['filter', 'INPUT', ['-i', bridge, '!', '-p', 'icmp', ...unasked], drop],
  ]
  const own = rules.flatMap(([table, chain, matches, target]) =>
    GENERATION_TAGS.map((tag) => ({ table, chain, tag, shared: false, words: tagged(matches, tag, target) })),
  )
  return [...own, ...meshReplyRules(subnet)]
}

/**
 * The mark that lets the mesh's packets pass: it names no bridge, so the node holds one copy for all tenant bridges.
 * Without it no mesh client reaches any tenant's workload.
 */
export function meshReplyRules(subnet: Subnet): TaggedRule[] {
  const matches = ['-s', MESH_POOL, '-d', String(subnet)]
  const target = ['-j', 'MARK', '--set-xmark', `${REPLY}/${REPLY}`]
  return GENERATION_TAGS.map((tag) => ({
    table: 'mangle',
    chain: 'PREROUTING',
    tag,
    shared: true,
    words: tagged(matches, tag, target),
  }))
}

function tagged(matches: readonly string[], tag: string, target: readonly string[]): string[] {
  return [...matches, '-m', 'comment', '--comment', tag, ...target]
}

/** What lets a bridge's packets be forwarded at all. Untagged, on the node bridge too. */
export function acceptRules(bridge: string): TableRule[] {
  return ['-i', '-o'].map((direction) => ({
    table: 'filter',
    chain: 'FORWARD',
    words: [direction, bridge, '-j', 'ACCEPT'],
  }))
}

/** A policy rule that forbids: `iif <iif> to <destination>/<prefix> fwmark 0/<mask> prohibit`. */
export interface Prohibit {
  readonly priorities: readonly number[]
  readonly iif: string
  readonly destination: string
  readonly prefix: number
  readonly mask: number
}

/** The two prohibits of a tenant bridge, each in two generations. */
export function bridgeProhibits(bridge: string, subnet: Subnet): Prohibit[] {
  return [
    { priorities: SUBNET_PRIORITIES, iif: bridge, destination: subnet.address(0), prefix: 24, mask: GRANT_MARK },
    meshProhibit(bridge),
  ]
}

/** The one of them that does not name the subnet. */
function meshProhibit(bridge: string): Prohibit {
  const [destination = '', prefix] = MESH_POOL.split('/')
  return {
    priorities: MESH_PRIORITIES,
    iif: bridge,
    destination,
    prefix: Number(prefix),
    mask: GRANT_MARK | REPLY_MARK,
  }
}

/** What keeps the singleton tenant from a tenant's workload. */
export function workloadProhibit(nodeBridge: string, address: string): Prohibit {
  return { priorities: [WORKLOAD_PRIORITY], iif: nodeBridge, destination: address, prefix: 32, mask: GRANT_MARK }
}

/** A prohibit at one of its priorities. */
export function prohibitRule({ iif, destination, prefix, mask }: Prohibit, priority: number): NewRule {
  return { priority, action: 'prohibit', iif, destination, destinationPrefix: prefix, mask }
}

/** A prohibit at one of its priorities, as `ip rule` takes it. */
export function describeProhibit({ iif, destination, prefix, mask }: Prohibit, priority: number): string {
  return `priority ${priority} iif ${iif} to ${destination}/${prefix} fwmark 0/${hex(mask)} prohibit`
}

/** What makes the `/24`'s packets leave with the node's address: it names no bridge. */
export function natRule(subnet: Subnet): string[] {
  return ['-s', String(subnet), '!', '-d', String(subnet), '-j', 'MASQUERADE']
}
