/**
 * One of those that are compared. A round returns what it measured; what has to be done before it, and what has to be
 * checked behind it, is not measured.
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {() => Promise<any>} round
 * @property {() => Promise<void>} [before]
 * @property {() => Promise<void>} [after]
 * @property {number} [rounds] at most so many, for what takes the better part of a minute
 * @property {number} [warmUps] rounds that do not count: engines compile, caches fill. Default 1; no more once they took
 *   WARM_ENOUGH_MS, which is longer than an engine needs.
 */

/** Of programs whose engine compiles what it finds to be used often, as that of an agent that runs for days has. */
export const WARM_UPS = 50
const WARM_ENOUGH_MS = 3000

/**
 * Takes them in turns, each round in the other direction, so that a machine that is busy for a while slows all of them down, and
 * nobody always comes after the same neighbour.
 *
 * @param {readonly Entry[]} entries
 * @param {number} rounds
 * @returns {Promise<Record<string, any[]>>} what each round of each returned
 */
export async function alternate(entries, rounds) {
  /** @type {Record<string, any[]>} */
  const taken = Object.fromEntries(entries.map(({ id }) => [id, []]))
  for (const entry of entries) await warmUp(entry)
  for (let round = 0; round < rounds; round++) {
    const turn = round % 2 === 0 ? entries : [...entries].reverse()
    for (const entry of turn) {
      if (round < (entry.rounds ?? rounds)) taken[entry.id]?.push(await once(entry))
    }
  }
  return taken
}

/** @param {Entry} entry */
async function warmUp(entry) {
  const start = performance.now()
  for (let i = 0; i < (entry.warmUps ?? 1) && performance.now() - start < WARM_ENOUGH_MS; i++) await once(entry)
}

/** @param {Entry} entry */
async function once({ before, round, after }) {
  await before?.()
  const measured = await round()
  await after?.()
  return measured
}
