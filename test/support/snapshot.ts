/** What the plain tools said about a network namespace, in a form that can be compared with a later saying. */

/** Lines by section (`links`, `rules`, `ip nft`, …), in the order in which the tool printed them. */
export type Snapshot = ReadonlyMap<string, readonly string[]>

/** Reads what snapshot.sh printed, without what changes by itself: counters, dates, timers, carrier, ages. */
export function parseSnapshot(printed: string): Snapshot {
  const snapshot = new Map<string, string[]>()
  for (const part of `\n${printed}`.split('\n## ').slice(1)) {
    const [name = '', ...rest] = part.split('\n')
    const lines = name === 'links' ? linkLines(rest.join('\n')) : rest
    snapshot.set(
      name,
      lines.map((line) => settled(name, line)).filter((line) => line !== ''),
    )
  }
  return snapshot
}

/** What differs, one line each, `rules: - 1202: …` for what is gone and `+` for what came. Empty: the two are the same. */
export function difference(before: Snapshot, after: Snapshot): string[] {
  const found: string[] = []
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const old = before.get(name) ?? []
    const now = after.get(name) ?? []
    const gone = whole(name, without(old, now), now)
    const came = whole(name, without(now, old), old)
    found.push(...gone.map((line) => `${name}: - ${line}`), ...came.map((line) => `${name}: + ${line}`))
    // Rules are tried in their order, so the same lines in another order are another state.
    const moved = gone.length + came.length === 0 ? now.find((line, at) => line !== old[at]) : undefined
    if (moved !== undefined) found.push(`${name}: moved ${moved}`)
  }
  return found
}

/** A link that the other side does not have at all is one line, its name. */
function whole(section: string, found: readonly string[], other: readonly string[]): readonly string[] {
  if (section !== 'links') return found
  const nameOf = (line: string) => line.slice(0, line.indexOf(' '))
  const known = new Set(other.map(nameOf))
  return [...new Set(found.map((line) => (known.has(nameOf(line)) ? line : nameOf(line))))]
}

/** The lines of `from` that are not in `other`, copies counted. */
function without(from: readonly string[], other: readonly string[]): string[] {
  const left = new Map<string, number>()
  for (const line of other) left.set(line, (left.get(line) ?? 0) + 1)
  return from.filter((line) => {
    const copies = left.get(line) ?? 0
    if (copies > 0) left.set(line, copies - 1)
    return copies === 0
  })
}

/** One line per link and property, so that a difference names the property. */
function linkLines(json: string): string[] {
  const links = JSON.parse(json.trim() === '' ? '[]' : json) as { ifname: string }[]
  return links.flatMap((link) => properties(link).map((property) => `${link.ifname} ${property}`))
}

/** Set by the kernel some time after the change that caused it, or by the clock. */
const VOLATILE_PROPERTY = /(_timer|^operstate|^topology_change|\.state|_count|\.root_port|\.root_path_cost)$/

function properties(value: unknown, path = ''): string[] {
  if (VOLATILE_PROPERTY.test(path)) return []
  if (path === 'flags')
    return [`flags ${(value as string[]).filter((flag) => !/^(NO-CARRIER|LOWER_UP|M-DOWN)$/.test(flag)).join()}`]
  if (typeof value !== 'object' || value === null) return [`${path} ${String(value)}`]
  return Object.entries(value).flatMap(([key, inner]) => properties(inner, path === '' ? key : `${path}.${key}`))
}

function settled(section: string, line: string): string {
  const text = line.trimEnd()
  switch (section) {
    case 'routes':
    case 'IPv6 routes':
    case 'namespaces':
      return text
        .replace(/ (linkdown|dead)\b/g, '')
        .replace(/ expires \S+/, '')
        .trimEnd()
    case 'addresses':
    case 'IPv6 addresses':
      return text.replace(/ (valid|preferred)_lft \d+sec/g, '').replace(/ tentative\b/, '')
    case 'neighbours':
      return settledNeighbour(text)
    case 'qdiscs':
      return text.replace(/ refcnt \d+/, '')
    case 'nftables':
      return text.replace(/counter packets \d+ bytes \d+/, 'counter').replace(/ expires \S+/, '')
    default:
      if (!/^ip6? (nft|legacy)$/.test(section)) return text
      return /^# (Generated|Completed) /.test(text) ? '' : text.replace(/ \[\d+:\d+\]$/, '')
  }
}

/** A learned entry ages and is asked for anew by itself; one that an operator made says so and stays. */
function settledNeighbour(line: string): string {
  if (/ (PERMANENT|NOARP)$/.test(line)) return line
  if (/ (FAILED|INCOMPLETE)$/.test(line)) return ''
  return line.replace(/ [A-Z]+$/, ' learned')
}
