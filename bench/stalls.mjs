/**
 * How late the event loop is: a timer that is due every millisecond sees it. perf_hooks' monitorEventLoopDelay does that too, but
 * its histogram does not give back single values, from which the rest follows.
 */
const EVERY_MS = 1

export class StallWatch {
  /** @type {number[]} */
  #gaps = []
  #last = performance.now()
  #timer = setInterval(() => this.#tick(), EVERY_MS)

  #tick() {
    const now = performance.now()
    this.#gaps.push(now - this.#last)
    this.#last = now
  }

  /** Ends it; how late each tick was, in ms. */
  end() {
    this.#tick()
    clearInterval(this.#timer)
    return latenesses(this.#gaps)
  }
}

/** @param {readonly number[]} gaps between one tick and the next */
export function latenesses(gaps) {
  return gaps.map((gap) => Math.max(0, gap - EVERY_MS))
}

/**
 * How long an event that comes at any moment has to wait: each of the ticks that a stall has swallowed counts, the first with the
 * whole of it, the last with nearly nothing.
 *
 * @param {readonly number[]} late
 */
export function waits(late) {
  return late.flatMap((ms) => Array.from({ length: Math.floor(ms / EVERY_MS) + 1 }, (_, i) => ms - i * EVERY_MS))
}
