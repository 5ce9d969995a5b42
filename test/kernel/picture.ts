/**
 * What a node's dump does not show and a workload needs all the same: link states, sysctls, clsact, the order of rules, the
 * insides of namespaces. Asked of the plain tools.
 */
import type { ContainerNet } from '../../src/node/net.js'
import { lines, type TestNode } from '../support/node.js'

/** One line for each thing; errors of a setting that a link does not have end it. */
const ASK = `
say() { while read -r line; do echo "$1 $line"; done; }
cat /proc/sys/net/ipv4/ip_forward | say ip_forward
cat /proc/sys/net/ipv4/conf/all/src_valid_mark | say src_valid_mark
ip -d -j link show | say links
for name in $(ip -o link show type bridge | awk -F'[:@ ]+' '{print $2}'); do
  cat "/proc/sys/net/ipv4/conf/$name/rp_filter" | say "$name rp_filter"
  cat "/proc/sys/net/ipv6/conf/$name/disable_ipv6" | say "$name disable_ipv6"
  cat "/proc/sys/net/ipv4/neigh/$name/proxy_delay" | say "$name proxy_delay"
  tc qdisc show dev "$name" | awk '$2 == "clsact" || $2 == "ingress" {print $2}' | say "$name qdisc"
done
for name in $(ls /run/netns 2>/dev/null); do
  ip -n "$name" -d -j link show | say "in $name links"
  ip -n "$name" -4 -o addr show | awk '{print $2, $4}' | say "in $name addr"
  ip -n "$name" -4 route show | sed 's/ linkdown//; s/ *$//' | say "in $name route"
done`

export interface Picture {
  readonly settings: readonly string[]
  /** Chains in which a rule stands where it does not work; empty when all is well. */
  readonly misplaced: readonly string[]
}

export async function picture(node: TestNode, net: ContainerNet): Promise<Picture> {
  const settings = lines(await node.run(ASK)).flatMap((line) => {
    const [, where, json] = /^((?:in \S+ )?links) (.*)$/.exec(line) ?? []
    return json === undefined ? [line] : (JSON.parse(json) as Shown[]).map((link) => `${where} ${stateOf(link)}`)
  })
  return { settings: settings.sort(), misplaced: await misplacedRules(node, net) }
}

interface Shown {
  readonly ifname: string
  readonly flags: readonly string[]
  readonly mtu: number
  readonly master?: string
  readonly linkinfo?: { readonly info_kind?: string }
}

function stateOf({ ifname, flags, mtu, master, linkinfo }: Shown): string {
  const kind = linkinfo?.info_kind ?? 'no kind'
  return `${ifname}: ${kind}, ${flags.includes('UP') ? 'up' : 'down'}, mtu ${mtu}, master ${master ?? 'none'}`
}

/** Drops behind an ACCEPT of the same chain, and identity jumps behind a jump to a grant chain. */
async function misplacedRules(node: TestNode, net: ContainerNet): Promise<string[]> {
  const rules = async (table: string, chain: string) =>
    lines(await node.run(`"$IPTABLES-save" -t ${table}`)).filter((line) => line.startsWith(`-A ${chain} `))
  const own = `(${net.bridge}|${net.bridge.slice(0, 4)}-[0-9a-v]{10})`
  const accept = new RegExp(`^-A FORWARD -[io] ${own} -j ACCEPT$`)
  return [
    ...behind(await rules('filter', 'FORWARD'), /--comment "?yah-isolation-[ab]"? -j DROP$/, accept),
    ...behind(await rules('mangle', 'PREROUTING'), / -j yah-id-/, / -j yah-gr-/),
  ]
}

function behind(rules: readonly string[], first: RegExp, second: RegExp): string[] {
  const from = rules.findIndex((rule) => second.test(rule))
  return from === -1 ? [] : rules.slice(from).filter((rule) => first.test(rule))
}
