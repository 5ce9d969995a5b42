/**
 * Deletes links that must still be what they were when they were read: the same name, the same kind, no port. The kernel asks
 * for no more than an index, so each is looked at just before.
 */
import type { CallOptions, Host } from '../kernel/host.js'
import { ask } from '../kernel/netlink/ask.js'
import { changeLink, deleteGroup, deleteLink, type Link, linkByIndex } from '../kernel/rtnetlink/link.js'
import { readPorts } from './links.js'
import { freshly, readLists } from './read.js'

/** What became of one: `kept` says why it stays. */
export interface Deleted {
  readonly outcome: 'removed' | 'gone' | 'kept' | 'failed'
  readonly kept: string | null
  readonly error: unknown
}

interface Doomed {
  readonly link: Link
  readonly object: string
}

/**
 * How many go in one step. The kernel then waits once for all who still read them, and not once for each, which is half of the
 * time; but as long as it works on them, some 20 ms for each, nobody else on the node can change a link.
 */
const AT_ONCE = 8

/** People number their groups from 1; a number at random from here to its double is nobody's. */
const FIRST_GROUP = 2 ** 30

export async function deleteLinks<D extends Doomed>(
  host: Host,
  doomed: readonly D[],
  options: CallOptions,
): Promise<ReadonlyMap<D, Deleted>> {
  const results = new Map<D, Deleted>()
  for (let first = 0; first < doomed.length; first += AT_ONCE)
    await deleteSome(host, doomed.slice(first, first + AT_ONCE), results, options)
  return results
}

/** What goes wrong with several is tried with each: one that cannot even be looked at does not keep the others. */
async function deleteSome<D extends Doomed>(
  host: Host,
  some: readonly D[],
  results: Map<D, Deleted>,
  options: CallOptions,
): Promise<void> {
  try {
    const going = await stillThemselves(host, some, results, options)
    const [only] = going
    if (going.length === 1 && only !== undefined) results.set(only, await deleteOne(host, only, options))
    else if (going.length > 1) await deleteTogether(host, going, results, options)
  } catch (error) {
    const [only, ...more] = some
    if (only !== undefined && more.length === 0) results.set(only, { outcome: 'failed', kept: null, error })
  }
  if (some.length > 1) for (const each of some) if (!results.has(each)) await deleteSome(host, [each], results, options)
}

/** Already gone is what was wanted. */
export const GONE_CODES: ReadonlySet<string> = new Set(['ENOENT', 'ESRCH', 'ENODEV', 'EADDRNOTAVAIL'])

const REMOVED: Deleted = { outcome: 'removed', kept: null, error: null }
const GONE: Deleted = { outcome: 'gone', kept: null, error: null }
const kept = (reason: string): Deleted => ({ outcome: 'kept', kept: reason, error: null })

/** Those that may go; what becomes of the others is in `results`. */
async function stillThemselves<D extends Doomed>(
  host: Host,
  doomed: readonly D[],
  results: Map<D, Deleted>,
  options: CallOptions,
): Promise<D[]> {
  const found = await readLists(
    host,
    doomed.map(({ link }) => linkByIndex(link.index)),
    { ...options, absent: ['ENODEV'] },
  )
  const same = doomed.filter((each, i) => {
    const now = found[i]?.[0]
    if (now === undefined) results.set(each, GONE)
    else if (now.name !== each.link.name || now.kind !== each.link.kind)
      results.set(each, kept(`it is ${now.kind} ${now.name} now`))
    return !results.has(each)
  })
  const links = same.map(({ link }) => link)
  const ports = await freshly(() => readPorts(host, links, options), options.signal)
  return same.filter((each, i) => {
    const port = ports[i]?.[0]
    if (port !== undefined) results.set(each, kept(`port ${port.name} came meanwhile`))
    return port === undefined
  })
}

/** Puts them into a group of links that nobody else knows, and deletes the group. What is left has no result. */
async function deleteTogether<D extends Doomed>(
  host: Host,
  doomed: readonly D[],
  results: Map<D, Deleted>,
  options: CallOptions,
): Promise<void> {
  const group = FIRST_GROUP + Math.floor(Math.random() * FIRST_GROUP)
  const replies = await ask(
    host,
    [
      ...doomed.map(({ link, object }) => changeLink(link.index, { group }, `group ${object}`)),
      deleteGroup(group, `delete ${doomed.map(({ object }) => object).join(', ')}`),
    ],
    options,
  )
  const isDeleted = replies.at(-1)?.error === null
  for (const [i, each] of doomed.entries()) {
    const error = replies[i]?.error ?? null
    if (error !== null && GONE_CODES.has(error.code)) results.set(each, GONE)
    else if (error === null && isDeleted) results.set(each, REMOVED)
  }
}

async function deleteOne(host: Host, { link, object }: Doomed, options: CallOptions): Promise<Deleted> {
  const [{ error }] = await ask(host, [deleteLink(link.index, `delete ${object}`)], options)
  if (error === null) return REMOVED
  return GONE_CODES.has(error.code) ? GONE : { outcome: 'failed', kept: null, error }
}
