/** What a sweep may have changed in a snapshot, derived from the lines of the dump that were expected to go. */
import type { Backend } from '../../support/node.js'
import { difference, type Snapshot } from '../../support/snapshot.js'

export interface Changes {
  readonly gone: readonly string[]
  readonly came: readonly string[]
  readonly neighbours: readonly string[]
  /** Whose rules are those that the dump does not mark `legacy`. */
  readonly backend: Backend
}

/** The lines of `from` that are not in `other`, copies counted. */
export function minus(from: readonly string[], other: readonly string[]): string[] {
  const left = [...other]
  return from.filter((line) => {
    const at = left.indexOf(line)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

/**
 * The lines that go and those that come when `gone` is removed: a rule that stays and names a link that goes is shown
 * with `[detached]` from then on.
 */
export function changes(dump: readonly string[], gone: readonly string[]): Pick<Changes, 'gone' | 'came'> {
  const links = goneLinks(gone)
  const named = minus(dump, gone).filter(
    (line) => line.startsWith('rule ') && links.some((name) => `${line} `.includes(` iif ${name} `)),
  )
  return {
    gone: [...gone, ...named],
    came: named.map((line) => line.replace(/ iif (\S+)/, ' iif $1 [detached]')),
  }
}

function goneLinks(gone: readonly string[]): string[] {
  return gone.flatMap((line) => /^link (\S+):$/.exec(line)?.[1] ?? [])
}

/** What changed beyond the expected, what did not although it was expected to, and what lost its place. */
export function unexplained(before: Snapshot, after: Snapshot, changes: Changes): string[] {
  const links = goneLinks(changes.gone)
  // Where iptables-save cannot print every table, the dump, which asks table by table, and nft have to do.
  const isPartial = before.get('ip nft')?.some((line) => line.startsWith('# iptables-nft-save ended')) === true
  const isCompared = (line: string): boolean => !line.startsWith('nftables: ') && !(isPartial && /^ip nft: /.test(line))
  const expected = [
    ...changes.gone.map((line) => inSnapshot(line, '-', changes.backend)),
    ...changes.came.map((line) => inSnapshot(line, '+', changes.backend)),
    ...changes.neighbours.map((line) => `neighbours: - ${line}`),
  ]
  const found = difference(before, after).filter((line) => !isLinksOwn(line, links))
  return [
    ...minus(found, expected).filter(isCompared),
    // An address goes with its link, and the snapshot prints it in more words than the dump.
    ...minus(expected, found)
      .filter((line) => isCompared(line) && !line.startsWith('addresses: '))
      .map((line) => `not there: ${line}`),
    ...nftablesUnexplained(before, after, changes),
    ...moved(before, after),
  ]
}

const TABLE = /^(legacy )?(raw|mangle|nat|filter) /

function inSnapshot(line: string, sign: '-' | '+', backend: Backend): string {
  const [, legacy, table] = TABLE.exec(line) ?? []
  if (table !== undefined) {
    const section = legacy === undefined ? backend : 'legacy'
    return `ip ${section}: ${sign} ${line.replace(TABLE, '')}`
  }
  const [, kind = '', rest = ''] = /^(\S+) (.*)$/.exec(line) ?? []
  switch (kind) {
    case 'link':
      return `links: ${sign} ${rest.replace(/:$/, '')}`
    case 'addr':
      return `addresses: ${sign} ${rest}`
    case 'proxy':
      return `proxies: ${sign} ${rest}`
    default:
      return `${kind}s: ${sign} ${rest}`
  }
}

/** What the kernel takes along with a link: addresses, its routes in the tables that the dump does not show, switches. */
function isLinksOwn(line: string, links: readonly string[]): boolean {
  return links.some(
    (name) =>
      (line.startsWith('addresses: - ') && line.includes(` ${name} `)) ||
      (line.startsWith('routes: - ') && line.includes(` dev ${name} table local `)) ||
      (/^(neighbours|qdiscs|IPv6 routes|IPv6 addresses): - /.test(line) && `${line} `.includes(` dev ${name} `)) ||
      (line.startsWith('sysctls: - ') && line.includes(`/${name}/`)),
  )
}

/** `nft list ruleset` spells rules in its own way, so they are counted: each rule of iptables-nft has one counter. */
function nftablesUnexplained(before: Snapshot, after: Snapshot, { gone, backend }: Changes): string[] {
  const changed = difference(before, after).filter((line) => line.startsWith('nftables: '))
  const isRule = (line: string): boolean => /\bcounter\b/.test(line)
  const count = (lines: readonly string[]): number =>
    backend === 'legacy' ? 0 : lines.filter((line) => /^(raw|mangle|nat|filter) -A /.test(line)).length
  const removed = changed.filter((line) => line.startsWith('nftables: - '))
  const rest = changed.filter((line) => !isRule(line) && !/^nftables: - \t(chain yah-(id|gr)-\S+ \{|\})$/.test(line))
  if (removed.filter(isRule).length !== count(gone)) rest.push(`nftables: ${removed.length} lines gone`)
  return rest
}

/** Rules are tried in their order: what stays has to stay in its place. */
function moved(before: Snapshot, after: Snapshot): string[] {
  return ['rules', 'ip nft', 'ip legacy', 'nftables'].flatMap((section) => {
    const old = before.get(section) ?? []
    let at = 0
    return (after.get(section) ?? []).flatMap((line) => {
      const found = old.indexOf(line, at)
      if (found < 0) return old.includes(line) ? [`${section}: moved ${line}`] : []
      at = found + 1
      return []
    })
  })
}
