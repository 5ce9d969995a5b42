/**
 * The figures that the project is held to: what each is a ratio of, and what it must reach. A figure whose parts were not
 * measured in a run is not in its table.
 */
import { ratios, summarize } from './statistics.mjs'

/** @typedef {import('./lab.mjs').Contest} Contest */

/**
 * @typedef {object} Figure
 * @property {string} what
 * @property {string} to what it is compared to
 * @property {import('./statistics.mjs').Summary} ratio
 * @property {number | null} limit null: for information
 * @property {number[]} medians of both, in the unit of the contest
 * @property {'ms' | 'KiB'} unit
 */

/**
 * @param {string} what
 * @param {string} to
 * @param {Contest | undefined} contest
 * @param {string} entry
 * @param {readonly string[]} references what it is compared to: their sum
 * @param {number | null} limit
 * @returns {Figure[]}
 */
function figure(what, to, contest, entry, references, limit) {
  const values = contest?.rounds[entry]
  const parts = references.map((reference) => contest?.rounds[reference])
  if (contest === undefined || values === undefined || parts.includes(undefined)) return []
  const sums = /** @type {number[][]} */ (parts).reduce((sum, part) => sum.map((value, i) => value + (part[i] ?? 0)))
  return [
    {
      what,
      to,
      ratio: summarize(ratios(values, sums)),
      limit,
      medians: [summarize(values).median, summarize(sums).median],
      unit: contest.unit,
    },
  ]
}

/**
 * @param {readonly Contest[]} contests
 * @returns {Figure[]}
 */
export function figures(contests) {
  const find = (/** @type {string} */ name) =>
    contests.find((contest) => contest.name === name && contest.size.links === 10_000)
  const links = find('links')
  const needs = find('needs')
  const idle = find('idle')
  const removal = find('removal')
  const peers = Object.keys(links?.rounds ?? {}).filter((id) => id !== 'netsweep' && !id.startsWith('floor'))
  return [
    ...figure('every link listed and decoded', 'dump_links of the floor', links, 'netsweep', ['floor dump_links'], 1.5),
    ...peers.flatMap((id) => figure('every link listed and decoded', id, links, 'netsweep', [id], 1)),
    ...figure('what a pass needs to know of the links', 'targeted', needs, 'netsweep', ['floor targeted'], 2),
    ...figure('what a pass needs to know of the links', 'dump_links', needs, 'netsweep', ['floor dump_links'], 1 / 5),
    ...figure('an idle pass', 'targeted + iptables-save', idle, 'netsweep', ['floor targeted', 'iptables-save'], 1.5),
    ...figure('an idle pass', "the oracle's sweep", idle, 'netsweep', ['oracle'], 1 / 20),
    ...figure('a pass that removes all', 'ip -batch deleting the bridges', removal, 'netsweep', ['ip -batch'], 1.3),
    ...figure('a pass that removes all', 'floor.c deleting the bridges', removal, 'netsweep', ['floor delete'], null),
    ...figure('a pass that removes all', "the oracle's sweep", removal, 'netsweep', ['oracle'], 1 / 40),
    ...figure('deploy of one workload', "the oracle's deploy", find('deploy'), 'netsweep', ['oracle'], 1 / 10),
    ...figure('stop and sweep of one workload', "the oracle's", find('stop and sweep'), 'netsweep', ['oracle'], 1 / 10),
  ]
}

/** @param {Figure} figure */
export function isMet({ ratio, limit }) {
  return limit === null ? null : ratio.median <= limit
}
