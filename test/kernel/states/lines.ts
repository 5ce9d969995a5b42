/**
 * What each piece of node state looks like in the oracle's dump: the text that ip and iptables-save print for what
 * docs/node-state.md describes, written out here so that nothing of the project decides what is expected of it.
 */
export const NODE = 'yah0'
export const ACME = 'yah0-6jgfqfdnu6'
export const GLOBEX = 'yah0-91auqknbeu'
export const INITECH = 'yah0-as5kg51euo'
/** Of the form of a tenant bridge, and no tenant's of these states. */
export const NOBODY = 'yah0-vvvvvvvvvv'

/** A workload of the states: where it is wired, and the mark of its identity. */
export interface Wired {
  readonly octet: number
  readonly bridge: string
  readonly mark: string
}

/** The workloads that `build.ts` can deploy, by their names there. The marks are FNV-1a 64 of the identity, mod 65535, plus 1. */
export const ACCT: Wired = { octet: 2, bridge: NODE, mark: '0x6b00' }
export const API: Wired = { octet: 7, bridge: ACME, mark: '0x2909' }
export const WEB: Wired = { octet: 8, bridge: ACME, mark: '0x12aa' }
export const BILLING: Wired = { octet: 9, bridge: GLOBEX, mark: '0x1869' }
export const MAIL: Wired = { octet: 12, bridge: INITECH, mark: '0xf7ac' }

export interface Place {
  /** The first three bytes of the `/24`. */
  readonly base?: string
  readonly node?: string
  /** Generation of the tagged rules. */
  readonly tag?: 'a' | 'b'
  /** The interface that rules name does not exist: `ip rule` says so. */
  readonly detached?: boolean
}

export const address = (octet: number, base = '10.128.3'): string => `${base}.${octet}`

/** A tenant bridge with everything that it carries in one generation. */
export function tenantBridge(bridge: string, place: Place = {}): string[] {
  return [...bridgeLink(bridge, place), ...isolation(bridge, place), ...accepts(bridge)]
}

export function bridgeLink(bridge: string, { base = '10.128.3' }: Place = {}): string[] {
  return [`link ${bridge}:`, `addr ${bridge} ${base}.1/32`]
}

/** What keeps a tenant bridge apart: prohibits and tagged rules. */
export function isolation(bridge: string, place: Place = {}): string[] {
  return [...prohibits(bridge, place), ...taggedRules(bridge, place)]
}

export function prohibits(bridge: string, { base = '10.128.3', tag = 'b', detached = false }: Place = {}): string[] {
  const iif = `iif ${bridge}${detached ? ' [detached]' : ''} prohibit`
  const [subnet, mesh] = tag === 'a' ? [1201, 1203] : [1202, 1204]
  return [
    `rule ${subnet}:\tfrom all to ${base}.0/24 fwmark 0/0x2000000 ${iif}`,
    `rule ${mesh}:\tfrom all to 100.64.0.0/10 fwmark 0/0x3000000 ${iif}`,
  ]
}

/** The seven that name the bridge. */
export function taggedRules(bridge: string, { base = '10.128.3', node = NODE, tag = 'b' }: Place = {}): string[] {
  const net = `${base}.0/24`
  const drop = `-m comment --comment yah-isolation-${tag} -j DROP`
  const unasked = '-m conntrack ! --ctstate RELATED,ESTABLISHED'
  const ungranted = '-m mark ! --mark 0x2000000/0x2000000'
  return [
    `raw -A PREROUTING -i ${bridge} -m rpfilter --invert ${drop}`,
    `mangle -A PREROUTING -i ${bridge} -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment yah-isolation-${tag} -j MARK --set-xmark 0x1000000/0x1000000`,
    `filter -A FORWARD -d ${net} -i ${bridge} ! -o ${bridge} ${ungranted} ${drop}`,
    `filter -A FORWARD -s ${net} ! -i ${bridge} -o ${bridge} ${ungranted} ${drop}`,
    `filter -A FORWARD -i ${node} -o ${bridge} ${ungranted} ${drop}`,
    `filter -A FORWARD -d 100.64.0.0/10 -i ${bridge} ${unasked} ${ungranted} ${drop}`,
    `filter -A INPUT -i ${bridge} ! -p icmp ${unasked} ${drop}`,
  ]
}

/** The eighth: it names no bridge. */
export function meshMark({ base = '10.128.3', tag = 'b' }: Place = {}): string {
  return `mangle -A PREROUTING -s 100.64.0.0/10 -d ${base}.0/24 -m comment --comment yah-isolation-${tag} -j MARK --set-xmark 0x1000000/0x1000000`
}

export function accepts(bridge: string): string[] {
  return ['-i', '-o'].map((direction) => `filter -A FORWARD ${direction} ${bridge} -j ACCEPT`)
}

/** Everything outside its namespace that a workload leaves behind, grants apart. */
export function workload(wired: Wired, place: Place = {}): string[] {
  const { octet, bridge } = wired
  const { node = NODE, base } = place
  const isolated = bridge === node ? [] : [hostRoute(octet, bridge, base), workloadProhibit(octet, place)]
  return [...isolated, ...identity(wired, place), chain('gr', octet, base)]
}

export function hostRoute(octet: number, bridge: string, base?: string): string {
  return `route ${address(octet, base)} dev ${bridge} scope link`
}

export function workloadProhibit(octet: number, { base, node = NODE, detached = false }: Place = {}): string {
  return `rule 1200:\tfrom all to ${address(octet, base)} fwmark 0/0x2000000 iif ${node}${detached ? ' [detached]' : ''} prohibit`
}

/** The identity chain, its rule, and the jump to it. */
export function identity({ octet, bridge, mark }: Wired, { base }: Place = {}): string[] {
  const addr = address(octet, base)
  const net = `${base ?? '10.128.3'}.0/24`
  return [
    chain('id', octet, base),
    `mangle -A yah-id-${addr} -s ${addr}/32 -d ${net} -i ${bridge} -j MARK --set-xmark ${mark}/0xffff`,
    `mangle -A PREROUTING -s ${addr}/32 -j yah-id-${addr}`,
  ]
}

export function chain(kind: 'id' | 'gr', octet: number, base?: string): string {
  return `mangle :yah-${kind}-${address(octet, base)} -`
}

/** What a grant chain and the jumps to it hold besides the chain, when these peers are admitted. */
export function grants({ octet, bridge }: Wired, peers: readonly Wired[]): string[] {
  const addr = address(octet)
  return [
    ...peers.flatMap((peer) =>
      ['MARK', 'CONNMARK'].map(
        (target) =>
          `mangle -A yah-gr-${addr} -d ${addr}/32 -i ${peer.bridge} -m mark --mark ${peer.mark}/0xffff -j ${target} --set-xmark 0x2000000/0x2000000`,
      ),
    ),
    `mangle -A yah-gr-${addr} -s ${addr}/32 -i ${bridge} -m conntrack --ctdir REPLY -m connmark --mark 0x2000000/0x2000000 -j MARK --set-xmark 0x2000000/0x2000000`,
    `mangle -A PREROUTING -d ${addr}/32 -j yah-gr-${addr}`,
    `mangle -A PREROUTING -s ${addr}/32 -j yah-gr-${addr}`,
  ]
}

/** The two proxy entries of a granted pair: each stands on the other's bridge. */
export function pairProxies(one: Wired, other: Wired): string[] {
  return [proxy(one.octet, other.bridge), proxy(other.octet, one.bridge)]
}

export function proxy(octet: number, bridge: string): string {
  return `proxy ${address(octet)} dev ${bridge} proxy`
}

export function times(copies: number, lines: readonly string[]): string[] {
  return Array.from({ length: copies }, () => lines).flat()
}
