/** What the grants of one address need on the bridges, so that the sides of a pair find each other by ARP. Pure. */
import type { Neighbour } from '../kernel/rtnetlink/neighbour.js'
import type { Filter } from '../kernel/tc.js'
import { admittedByAddress, type Conclusion, identitiesByAddress } from './conclude.js'
import {
  type ArpEntry,
  arpEntries,
  arpHandle,
  filterKey,
  type Identity,
  type Pair,
  pairsOf,
  proxyKey,
  wantedBy,
} from './grants.js'
import { bridgeNames } from './links.js'
import type { NodeView } from './view.js'

export interface ArpChanges {
  readonly proxiesGone: readonly Neighbour[]
  readonly filtersGone: readonly Filter[]
  /** What a pair of the address wants, there or not. */
  readonly wanted: readonly ArpEntry[]
}

/** Who an address is, and whom it admits. */
export interface Owner {
  readonly identity: Identity
  readonly admitted: readonly Identity[]
}

/**
 * What has to change on the bridges when an address gets that owner; null: none. Pairs go by the identity chains, whether
 * the other side runs or not: it may be on its way.
 */
export function arpChanges(view: NodeView, conclusion: Conclusion, address: string, owner: Owner | null): ArpChanges {
  const { own, subnet } = conclusion
  const bridges = bridgeNames(view.links)
  const before = pairs(conclusion, address, undefined).filter((pair) => names(pair, address))
  const after = pairs(conclusion, address, owner)
  const related = wantedBy(before, subnet).proxies
  const wanted = wantedBy(after, subnet)
  const proxiesGone = own.proxies.filter(({ object, mine }) => {
    const key = proxyKey(bridges.get(object.index) ?? '', mine)
    return (mine === address || related.has(key)) && !wanted.proxies.has(key)
  })
  const filtersGone = own.filters.filter(({ object, mine }) => {
    const isRelated = mine.sender === address || mine.target === address
    return isRelated && !wanted.filters.has(filterKey(bridges.get(object.index) ?? '', object.handle))
  })
  return {
    proxiesGone: proxiesGone.map(({ object }) => object),
    filtersGone: filtersGone.map(({ object }) => object),
    wanted: after.filter((pair) => names(pair, address)).flatMap(arpEntries),
  }
}

/** The entries whose proxy or filter is not there. */
export function missingEntries(view: NodeView, conclusion: Conclusion, wanted: readonly ArpEntry[]): ArpEntry[] {
  const bridges = bridgeNames(view.links)
  const { own, subnet } = conclusion
  const proxies = new Set(own.proxies.map(({ object, mine }) => proxyKey(bridges.get(object.index) ?? '', mine)))
  const filters = new Set(own.filters.map(({ object }) => filterKey(bridges.get(object.index) ?? '', object.handle)))
  return wanted.filter(
    (entry) =>
      !proxies.has(proxyKey(entry.bridge, entry.target)) ||
      !filters.has(filterKey(entry.bridge, arpHandle(entry, subnet))),
  )
}

/** All pairs, with the address's owner replaced; undefined: as its chains say. */
function pairs({ own }: Conclusion, address: string, owner: Owner | null | undefined): Pair[] {
  const identities = identitiesByAddress(own.tables)
  const admitted = admittedByAddress(own.tables)
  if (owner !== undefined) {
    identities.delete(address)
    admitted.delete(address)
  }
  if (owner) {
    identities.set(address, [owner.identity])
    admitted.set(address, owner.admitted)
  }
  return pairsOf(identities, admitted)
}

function names({ granting, peer }: Pair, address: string): boolean {
  return granting.address === address || peer.address === address
}
