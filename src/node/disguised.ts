/**
 * Rules that nft wrote and iptables prints as something simpler: it leaves out what looks into a set or a map, so that
 * somebody else's `iifname "yah0-…" ip saddr { … } accept` reads like the ACCEPT of one of our bridges.
 */
import type { Host } from '../kernel/host.js'
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import { expressionsIn } from '../kernel/nftables.js'
import { type ReadOptions, readLists } from './read.js'
import { RULE_PLACES } from './tables.js'

/** The expression that iptables-nft-save passes over. */
const LOOKUP = 'lookup'

/** Those of the rules in the chains that ours stand in. Of a chain that changed since it was saved, all. @throws ReadError */
export async function readDisguised(
  host: Host,
  { tables }: Save,
  options: Pick<ReadOptions, 'signal'>,
): Promise<ReadonlySet<SavedRule>> {
  const places = RULE_PLACES.map(([table, chain]) => ({
    request: expressionsIn(table, chain),
    rules: tables.get(table)?.chains.get(chain)?.rules ?? [],
  })).filter(({ rules }) => rules.length > 0)
  const chains = await readLists(
    host,
    places.map(({ request }) => request),
    { ...options, protocol: 'netfilter', empty: ['ENOENT'] },
  )
  const disguised = new Set<SavedRule>()
  places.forEach(({ rules }, place) => {
    const chain = chains[place] ?? []
    if (!chain.some((names) => names.includes(LOOKUP))) return
    // The rules are told apart by their place alone.
    const isSame = chain.length === rules.length
    rules.forEach((rule, i) => {
      if (!isSame || chain[i]?.includes(LOOKUP)) disguised.add(rule)
    })
  })
  return disguised
}
