/** How late the event loop of a process is while it does each of the things that are measured. */
import { WARM_UPS } from '../alternate.mjs'
import { waits } from '../stalls.mjs'
import { quantile } from '../statistics.mjs'
import { describe } from '../workloads.mjs'

/**
 * How long it took, and of each tick, in ms.
 *
 * @typedef {{ ms: number, late: number[], unserved: number[], collecting: number[] }} Watched
 */

/** The longest stall, less what the process waited for a processor: that is the machine's, and not its own. */
export const SERVED = 'longest stall with a processor'
/** And less the collection of garbage: what is left is the work of the program. */
export const WORKING = 'longest stall at work'

export const SAVED_ONCE = 'iptables-save once'

/** A process that only runs iptables-save, for as long as that one took: the longer one looks, the longer is the longest stall. */
export function savedAsLongAs(/** @type {string} */ id) {
  return `iptables-save as long as ${id}`
}

const QUESTIONS = /** @type {const} */ (['links', 'needs', 'idle'])

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function stalls(lab, size) {
  const node = await lab.node(size)
  const subject = node.subject()
  const newcomer = describe('newcomer', 250, 'tenant0')
  await compareStalls(lab, node, [
    ...QUESTIONS.map((question) => ({
      id: question,
      warmUps: WARM_UPS,
      round: () => subject.ask(`stalls ${question}`),
    })),
    {
      id: 'deploy, stop and sweep',
      rounds: lab.rounds,
      warmUps: WARM_UPS,
      async round() {
        const deployed = await subject.ask(`stalls deploy ${JSON.stringify(newcomer)}`)
        const stopped = await subject.ask(`stalls stop ${JSON.stringify(newcomer.workload)}`)
        const swept = await subject.ask('stalls sweep')
        const all = [deployed, stopped, swept]
        const ms = deployed.ms + stopped.ms + swept.ms
        const joined = (/** @type {'late' | 'unserved' | 'collecting'} */ what) =>
          all.flatMap((watched) => watched[what])
        return { ms, late: joined('late'), unserved: joined('unserved'), collecting: joined('collecting') }
      },
    },
  ])
}

/**
 * An idle pass alone.
 *
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function idleStalls(lab, size) {
  const node = await lab.node(size)
  const subject = node.subject()
  await compareStalls(lab, node, [{ id: 'idle', warmUps: WARM_UPS, round: () => subject.ask('stalls idle') }])
}

/**
 * Beside a process that only runs iptables-save. Kept are the longest of each round, and what 99 % of all rounds' ticks stay below.
 *
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Node} node
 * @param {readonly import('../alternate.mjs').Entry[]} entries
 */
export async function compareStalls(lab, node, entries) {
  const saveOnly = node.start(process.execPath, ['save-only.mjs'])
  const all = [
    ...entries.flatMap((entry) => withSaves(entry, saveOnly)),
    { id: SAVED_ONCE, warmUps: WARM_UPS, round: () => saveOnly.ask('0') },
  ]
  const taken = await lab.compare('longest stall', node, all, {
    // What is asked takes tens of milliseconds, in which a tick is due once each: few for telling where 99 % of them are.
    rounds: lab.manyRounds,
    value: ({ late }) => Math.max(...late),
  })
  await node.quiet()
  const longest = (/** @type {(watched: Watched, i: number) => number} */ less) =>
    Object.fromEntries(
      Object.entries(taken).map(([id, rounds]) => [
        id,
        rounds.map((/** @type {Watched} */ watched) => Math.max(...watched.late.map((ms, i) => ms - less(watched, i)))),
      ]),
    )
  lab.record(
    SERVED,
    node,
    'ms',
    longest(({ unserved }, i) => unserved[i] ?? 0),
  )
  lab.record(
    WORKING,
    node,
    'ms',
    longest(({ late, unserved, collecting }, i) => Math.min(late[i] ?? 0, (unserved[i] ?? 0) + (collecting[i] ?? 0))),
  )
  const pooled = Object.entries(taken).map(
    ([id, rounds]) => /** @type {const} */ ([id, rounds.flatMap(({ late }) => late)]),
  )
  const below = (/** @type {(late: number[]) => number[]} */ of) =>
    Object.fromEntries(pooled.map(([id, late]) => [id, [quantile(of(late), 0.99)]]))
  lab.record(
    '99 % of stalls below',
    node,
    'ms',
    below((late) => late),
  )
  lab.record('99 % of waits below', node, 'ms', below(waits))
}

/**
 * The entry, and behind it one that runs iptables-save for as long as its round before took.
 *
 * @param {import('../alternate.mjs').Entry} entry
 * @param {import('../process.mjs').Program} saveOnly
 * @returns {import('../alternate.mjs').Entry[]}
 */
function withSaves(entry, saveOnly) {
  let took = 0
  const round = async () => {
    const watched = await entry.round()
    took = watched.ms
    return watched
  }
  const saves = { id: savedAsLongAs(entry.id), warmUps: WARM_UPS, round: () => saveOnly.ask(String(took)) }
  return [{ ...entry, round }, entry.rounds === undefined ? saves : { ...saves, rounds: entry.rounds }]
}
