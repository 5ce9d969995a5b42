/**
 * Identities, grants, and the pairs that follow from them: what a granted pair's two bridges carry. The rules are
 * described once, worded as iptables-save prints them, for whoever writes them and for the sweep that recognises them.
 */

import { addTo } from '../kernel/groups.js'
import { isOneOf } from '../kernel/iptables/rule.js'
import type { Chain } from '../kernel/iptables/save.js'
import { GRANT_MARK, grantChain, grantFilterHandle, IDENTITY_MASK, identityChain } from './contract.js'
import type { Subnet } from './subnet.js'

const GRANT = `0x${GRANT_MARK.toString(16)}/0x${GRANT_MARK.toString(16)}`
const identity = (mark: number): string => `0x${mark.toString(16)}/0x${IDENTITY_MASK.toString(16)}`

/** Who a packet comes from: the bridge it enters by, and the mark that its sender's identity chain sets. */
export interface Identity {
  readonly bridge: string
  readonly mark: number
}

/** The one rule of an identity chain, as the words behind `-A CHAIN`. */
export function identityRule(address: string, { bridge, mark }: Identity, subnet: Subnet): string[] {
  return ['-s', `${address}/32`, '-d', String(subnet), '-i', bridge, '-j', 'MARK', '--set-xmark', identity(mark)]
}

/** The rules that admit one peer to an address. */
export function admitRules(address: string, peer: Identity): string[][] {
  const matches = ['-d', `${address}/32`, '-i', peer.bridge, '-m', 'mark', '--mark', identity(peer.mark)]
  return ['MARK', 'CONNMARK'].map((target) => [...matches, '-j', target, '--set-xmark', GRANT])
}

/** The rule that lets an address answer those it admits; it stands behind theirs. */
export function replyRule(address: string, bridge: string): string[] {
  const connection = ['-m', 'conntrack', '--ctdir', 'REPLY', '-m', 'connmark', '--mark', GRANT]
  return ['-s', `${address}/32`, '-i', bridge, ...connection, '-j', 'MARK', '--set-xmark', GRANT]
}

/** The jumps to an address's chains, in mangle PREROUTING. */
export function jumpRules(address: string): string[][] {
  return [
    ['-s', `${address}/32`, '-j', identityChain(address)],
    ['-d', `${address}/32`, '-j', grantChain(address)],
    ['-s', `${address}/32`, '-j', grantChain(address)],
  ]
}

/** The identities that a chain gives its address; [] when none of its rules is understood. */
export function identitiesOf(chain: Chain, address: string, subnet: Subnet): Identity[] {
  return peersIn(chain, '--set-xmark', (peer) => [identityRule(address, peer, subnet)])
}

/** The peers that a grant chain admits to its address. */
export function admittedBy(chain: Chain, address: string): Identity[] {
  return peersIn(chain, '--mark', (peer) => admitRules(address, peer))
}

/** Takes bridge and mark out of each rule, and believes them when the rule that they give is that rule. */
function peersIn(chain: Chain, markOption: string, expected: (peer: Identity) => string[][]): Identity[] {
  const peers: Identity[] = []
  for (const rule of chain.rules) {
    const { words } = rule
    const bridge = words[words.indexOf('-i') + 1]
    const mark = Number(words[words.indexOf(markOption) + 1]?.split('/')[0])
    if (bridge === undefined || !Number.isInteger(mark)) continue
    const isKnown = peers.some((peer) => peer.bridge === bridge && peer.mark === mark)
    if (!isKnown && isOneOf(expected({ bridge, mark }), rule)) peers.push({ bridge, mark })
  }
  return peers
}

/** One side of a pair: an address, and the bridge that its identity names. */
export interface PairSide {
  readonly address: string
  readonly bridge: string
}

/** `granting` admits `peer`; they are on different bridges. */
export interface Pair {
  readonly granting: PairSide
  readonly peer: PairSide
}

/** Every pair of an admitting address and one that has the identity it admits. */
export function pairsOf(
  identities: ReadonlyMap<string, readonly Identity[]>,
  admitted: ReadonlyMap<string, readonly Identity[]>,
): Pair[] {
  const holders = new Map<string, PairSide[]>()
  for (const [address, ids] of identities) {
    for (const { bridge, mark } of ids) {
      const key = `${bridge} ${mark}`
      addTo(holders, key, { address, bridge })
    }
  }
  const pairs: Pair[] = []
  for (const [address, peers] of admitted) {
    for (const { bridge: own } of identities.get(address) ?? []) {
      for (const { bridge, mark } of peers) {
        if (bridge === own) continue
        for (const peer of holders.get(`${bridge} ${mark}`) ?? []) {
          if (peer.address !== address) pairs.push({ granting: { address, bridge: own }, peer })
        }
      }
    }
  }
  return pairs
}

/**
 * What one bridge carries for a pair: a proxy neighbour entry for `target`, which lives on another bridge, and a filter
 * that lets ARP requests for it through from `sender`, which lives on this one.
 */
export interface ArpEntry {
  readonly bridge: string
  readonly sender: string
  readonly target: string
}

/** Each side of a pair takes the other for a neighbour on its own link. */
export function arpEntries({ granting, peer }: Pair): ArpEntry[] {
  return [
    { bridge: granting.bridge, sender: granting.address, target: peer.address },
    { bridge: peer.bridge, sender: peer.address, target: granting.address },
  ]
}

/** Names a proxy entry by what tells it from others, and a filter likewise. */
export const proxyKey = (bridge: string, target: string): string => `${bridge} ${target}`
export const filterKey = (bridge: string, handle: number): string => `${bridge} ${handle}`

/** The keys of the proxy entries and filters that pairs want. */
export function wantedBy(pairs: readonly Pair[], subnet: Subnet): { proxies: Set<string>; filters: Set<string> } {
  const entries = pairs.flatMap(arpEntries)
  return {
    proxies: new Set(entries.map(({ bridge, target }) => proxyKey(bridge, target))),
    filters: new Set(entries.map((entry) => filterKey(entry.bridge, arpHandle(entry, subnet)))),
  }
}

/** The handle of an entry's filter. */
export function arpHandle({ sender, target }: ArpEntry, subnet: Subnet): number {
  return grantFilterHandle(subnet.workloadOctet(sender) ?? 0, subnet.workloadOctet(target) ?? 0)
}
