/** What the plain tools say of a node at one moment, in the middle of a deploy. */
import { lines, type TestNode } from '../support/node.js'

export interface Moment {
  /** Names of the bridges that are up. */
  readonly up: readonly string[]
  /** As `ip rule` prints them. */
  readonly rules: readonly string[]
  /** As iptables-save prints them, each behind the name of its table: `filter -A FORWARD …`. */
  readonly tables: readonly string[]
  readonly routes: readonly string[]
  readonly connections: readonly string[]
  /** The host veth that was asked after. */
  readonly veth: { readonly index: number; readonly up: boolean } | null
}

export async function momentOf(node: TestNode, veth: string): Promise<Moment> {
  const said = lines(
    await node.run(`
      ip -o link show up type bridge | awk -F'[: ]+' '{print "up", $2}'
      ip -4 rule show | sed 's/^/rules /'
      for table in raw mangle filter; do "$IPTABLES-save" -t $table | grep -E '^(-A|:yah)' | sed "s/^/tables $table /" || :; done
      ip -4 route show | sed 's/^/routes /'
      conntrack -L 2>/dev/null | sed 's/^/connections /'
      ip -o link show dev ${veth} 2>/dev/null | sed 's/^/veth /' || :`),
  )
  const of = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1))
  const [link] = of('veth')
  return {
    up: of('up'),
    rules: of('rules'),
    tables: of('tables'),
    routes: of('routes'),
    connections: of('connections'),
    veth: link === undefined ? null : { index: Number.parseInt(link, 10), up: /[<,]UP[,>]/.test(link) },
  }
}

/** The prohibits and rules that keep a tenant's bridge apart, and that it lacks: of either generation each. */
export function lacks({ rules, tables }: Moment, bridge: string): string[] {
  const net = '10\\.128\\.3\\.0/24'
  const mesh = '100\\.64\\.0\\.0/10'
  const ungranted = '-m mark ! --mark 0x2000000/0x2000000'
  const unasked = '-m conntrack ! --ctstate RELATED,ESTABLISHED'
  const tag = '-m comment --comment "?yah-isolation-[ab]"?'
  const reply = '-j MARK --set-xmark 0x1000000/0x1000000'
  const wanted = [
    `raw -A PREROUTING -i ${bridge} -m rpfilter --invert ${tag} -j DROP`,
    `mangle -A PREROUTING -i ${bridge} -m conntrack --ctstate RELATED,ESTABLISHED ${tag} ${reply}`,
    `mangle -A PREROUTING -s ${mesh} -d ${net} ${tag} ${reply}`,
    `filter -A FORWARD -d ${net} -i ${bridge} ! -o ${bridge} ${ungranted} ${tag} -j DROP`,
    `filter -A FORWARD -s ${net} ! -i ${bridge} -o ${bridge} ${ungranted} ${tag} -j DROP`,
    `filter -A FORWARD -i yah0 -o ${bridge} ${ungranted} ${tag} -j DROP`,
    `filter -A FORWARD -d ${mesh} -i ${bridge} ${unasked} ${ungranted} ${tag} -j DROP`,
    `filter -A INPUT -i ${bridge} ! -p icmp ${unasked} ${tag} -j DROP`,
  ]
  const prohibits = [
    `^120[12]:\\sfrom all to ${net} fwmark 0/0x2000000 iif ${bridge} (\\[detached\\] )?prohibit$`,
    `^120[34]:\\sfrom all to ${mesh} fwmark 0/0x3000000 iif ${bridge} (\\[detached\\] )?prohibit$`,
  ]
  return [
    ...wanted.filter((rule) => !tables.some((line) => new RegExp(`^${rule}$`).test(line))),
    ...prohibits.filter((rule) => !rules.some((line) => new RegExp(rule).test(line))),
  ]
}
