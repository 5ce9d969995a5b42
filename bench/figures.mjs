/**
 * The figures that the project is held to: what is compared to what, and what that must reach. A figure whose parts were not
 * measured in a run is not among that run's.
 */
import { SAVED_ONCE, SERVED, savedAsLongAs, WORKING } from './measurements/stalls.mjs'
import { median, ratios, summarize } from './statistics.mjs'

/** @typedef {import('./lab.mjs').Contest} Contest */
/** @typedef {NonNullable<Contest['along']>} Along */

/**
 * @typedef {object} Figure
 * @property {string} what
 * @property {string} to what it is compared to; '' for one that stands for itself
 * @property {string} it how much it is
 * @property {string} that how much the other one is
 * @property {import('./statistics.mjs').Summary} measured a ratio, or so many of `unit`
 * @property {string} unit '' for a ratio
 * @property {number | null} limit null: for information
 */

/** @param {Figure} figure */
export function isMet({ measured, limit }) {
  return limit === null ? null : measured.median <= limit
}

/** Three digits that mean something. @param {number} value */
export function digits(value) {
  if (value === 0) return '0'
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toFixed(Math.min(places, 4))
}

/**
 * @param {readonly Contest[]} contests
 * @returns {Figure[]}
 */
export function figures(contests) {
  const find = (/** @type {string} */ name, /** @type {Partial<Contest['size']>} */ size = {}) =>
    contests.find(
      (contest) =>
        contest.name === name &&
        contest.along === null &&
        Object.entries(size).every(([key, many]) => contest.size[/** @type {Along} */ (key)] === many),
    )
  const grown = (/** @type {Along} */ along) =>
    contests.filter((contest) => contest.name === 'idle' && contest.along === along)
  const [links, needs, idle, removal] = ['links', 'needs', 'idle', 'removal'].map((name) => find(name))
  const peers = Object.keys(links?.rounds ?? {}).filter((id) => id !== 'netsweep' && !id.startsWith('floor'))
  const all = 'every link listed and decoded'
  const some = 'what a pass needs to know of the links'
  const removing = 'one pass behind 100 stopped workloads'
  return [
    ...ratio(all, "the floor's dump_links", links, 'netsweep', ['floor dump_links'], 1.5),
    ...peers.flatMap((id) => ratio(all, id, links, 'netsweep', [id], 1)),
    ...ratio(some, "the floor's targeted", needs, 'netsweep', ['floor targeted'], 2),
    ...ratio(some, "the floor's dump_links", needs, 'netsweep', ['floor dump_links'], 1 / 5),
    ...ratio('an idle pass', 'targeted + iptables-save', idle, 'netsweep', ['floor targeted', 'iptables-save'], 1.5),
    ...ratio('an idle pass', "the oracle's sweep", idle, 'netsweep', ['oracle'], 1 / 20),
    ...ratio(removing, 'ip -batch deleting the bridges', removal, 'netsweep', ['ip -batch'], 1.3),
    ...ratio(removing, 'a C program deleting them', removal, 'netsweep', ['floor delete'], null),
    ...ratio(removing, "the oracle's sweep", removal, 'netsweep', ['oracle'], 1 / 40),
    ...ratio('deploy of one workload', "the oracle's deploy", find('deploy'), 'netsweep', ['oracle'], 1 / 10),
    ...ratio('stop and sweep of one workload', "the oracle's", find('stop and sweep'), 'netsweep', ['oracle'], 1 / 10),
    ...growth('links', 1000, grown('links'), "the floor's targeted", 'floor targeted'),
    ...growth('routes', 0, grown('routes'), 'a filtered route dump', 'floor dump_routes_of'),
    ...growth('routes', 0, grown('routes'), 'a dump of all routes', 'floor dump_routes', null),
    ...growth('rules', 0, grown('rules'), 'iptables-save', 'iptables-save'),
    ...stalls(contests),
    ...memory(contests),
    ...starts(contests),
  ]
}

/**
 * @param {string} what
 * @param {string} to
 * @param {Contest | undefined} contest
 * @param {string} entry
 * @param {readonly string[]} references what it is compared to: their sum
 * @param {number | null} limit
 * @returns {Figure[]}
 */
function ratio(what, to, contest, entry, references, limit) {
  const values = contest?.rounds[entry]
  const others = sum(contest, references)
  if (contest === undefined || values === undefined || others === undefined) return []
  return [compared(what, to, values, others, contest.unit, limit)]
}

/**
 * @param {Contest | undefined} contest
 * @param {readonly string[]} entries
 */
function sum(contest, entries) {
  const parts = entries.map((entry) => contest?.rounds[entry])
  if (parts.includes(undefined)) return undefined
  return /** @type {number[][]} */ (parts).reduce((total, part) => total.map((value, i) => value + (part[i] ?? 0)))
}

/**
 * @param {string} what
 * @param {string} to
 * @param {readonly number[]} values
 * @param {readonly number[]} others
 * @param {string} unit of both
 * @param {number | null} limit
 * @returns {Figure}
 */
function compared(what, to, values, others, unit, limit) {
  const [it, that] = [values, others].map((list) => `${digits(summarize(list).median)} ${unit}`)
  return { what, to, it: it ?? '', that: that ?? '', measured: summarize(ratios(values, others)), unit: '', limit }
}

/**
 * What so many more of others' add, against what they add to the one question that cannot be avoided.
 *
 * @param {Along} along
 * @param {number} least
 * @param {readonly Contest[]} contests
 * @param {string} to
 * @param {string} reference
 * @param {number | null} [limit]
 * @returns {Figure[]}
 */
function growth(along, least, contests, to, reference, limit = 1) {
  const first = contests.find(({ size }) => size[along] === least)
  const last = contests.at(-1)
  if (first === undefined || last === undefined || first === last) return []
  if (first.rounds[reference] === undefined) return []
  const added = (/** @type {string} */ entry) =>
    (last.rounds[entry] ?? []).map((value) => value - median(first.rounds[entry] ?? []))
  const what = `what an idle pass grows by from ${count(least)} to ${count(last.size[along])} other ${along}`
  return [compared(what, to, added('netsweep'), added(reference), 'ms', limit)]
}

const count = new Intl.NumberFormat('en').format

/** @param {Contest} contest */
function beside({ size: { links, routes, rules } }) {
  const others = Object.entries({ links, routes, rules }).filter(([, many]) => many > 0)
  return `beside ${others.map(([what, many]) => `${count(many)} ${what}`).join(', ')}`
}

/**
 * @param {readonly Contest[]} contests
 * @returns {Figure[]}
 */
function stalls(contests) {
  return contests.flatMap((contest) => {
    const entries = Object.keys(contest.rounds).filter((id) => savedAsLongAs(id) in contest.rounds)
    if (contest.name === '99 % of stalls below')
      return entries.map((id) => {
        const [value, that] = [id, savedAsLongAs(id)].map((who) => contest.rounds[who]?.[0] ?? Number.NaN)
        const what = `99 % of the event loop's stalls: ${id}, ${beside(contest)}`
        const measured = summarize([value ?? Number.NaN])
        return {
          what,
          to: AS_LONG,
          it: `${digits(value ?? Number.NaN)} ms`,
          that: `${digits(that ?? Number.NaN)} ms`,
          measured,
          unit: 'ms',
          limit: 5,
        }
      })
    const longest = LONGEST[contest.name]
    if (longest === undefined) return []
    const { what, limit } = longest
    return entries.flatMap((id) => {
      const which = `${what}: ${id}, ${beside(contest)}`
      const once = limit === null ? [] : ratio(which, SAVED_ONCE, contest, id, [SAVED_ONCE], null)
      return [...ratio(which, AS_LONG, contest, id, [savedAsLongAs(id)], limit), ...once]
    })
  })
}

const AS_LONG = 'iptables-save for as long'

/** @type {Record<string, { what: string, limit: number | null }>} */
const LONGEST = {
  'longest stall': { what: 'the longest stall', limit: 2 },
  [SERVED]: { what: 'the same without waits for a processor', limit: null },
  [WORKING]: { what: 'the same without the collection of garbage either', limit: null },
}

const MB = 1e6 / 1024

/**
 * @param {readonly Contest[]} contests
 * @returns {Figure[]}
 */
function memory(contests) {
  return contests
    .filter(({ name }) => name === 'memory')
    .map((contest) => {
      const [idle = [], passes = [], text = []] = Object.values(contest.rounds)
      const above = passes.map((kib, i) => (kib - (idle[i] ?? Number.NaN) - (text[i] ?? Number.NaN)) / MB)
      const [it, that] = [passes, idle].map((list) => `${digits(summarize(list).median / MB)} MB`)
      const what = `memory of a process that sweeps, iptables-save's text apart, ${beside(contest)}`
      const to = 'that of an idle one: the difference'
      return { what, to, it: it ?? '', that: that ?? '', measured: summarize(above), unit: 'MB', limit: 20 }
    })
}

/**
 * @param {readonly Contest[]} contests
 * @returns {Figure[]}
 */
function starts(contests) {
  return contests
    .filter(({ name }) => name === 'start')
    .flatMap((contest) => {
      const { workloads } = contest.size
      const where = workloads === 0 ? 'on a node without a bridge' : `with ${workloads} live workloads`
      const what = `netsweep sweep as a process, ${where}`
      return [
        ...ratio(what, 'node -e 0', contest, 'netsweep sweep', ['node -e 0'], workloads === 0 ? 2.5 : 3),
        ...ratio(what, "the oracle's sweep", contest, 'netsweep sweep', ['oracle'], null),
      ]
    })
}
