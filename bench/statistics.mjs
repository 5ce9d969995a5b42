/**
 * The value below which that share of the values lies, interpolated between neighbours.
 *
 * @param {readonly number[]} values
 * @param {number} share 0 to 1
 */
export function quantile(values, share) {
  if (values.length === 0) throw new Error('a quantile of nothing')
  const sorted = [...values].sort((a, b) => a - b)
  const at = (sorted.length - 1) * share
  const below = Math.floor(at)
  const lower = /** @type {number} */ (sorted[below])
  const upper = sorted[below + 1] ?? lower
  return lower + (upper - lower) * (at - below)
}

/** @param {readonly number[]} values */
export const median = (values) => quantile(values, 0.5)

/**
 * Median and quartiles: what a run says, and how far it can be trusted.
 *
 * @typedef {{ median: number, low: number, high: number, rounds: number }} Summary
 * @param {readonly number[]} values
 * @returns {Summary}
 */
export function summarize(values) {
  return {
    median: median(values),
    low: quantile(values, 0.25),
    high: quantile(values, 0.75),
    rounds: values.length,
  }
}

/**
 * Round by round, since a round's neighbours ran on the same machine in the same second: what slowed one down slowed down
 * the other.
 *
 * @param {readonly number[]} values
 * @param {readonly number[]} references
 */
export function ratios(values, references) {
  const rounds = Math.min(values.length, references.length)
  return values.slice(0, rounds).map((value, i) => value / /** @type {number} */ (references[i]))
}
