/**
 * How long an event would have waited for the event loop.
 *
 * A timer that is due every millisecond sees how late it is. perf_hooks' monitorEventLoopDelay does that too, but counts a
 * stall of 50 ms as one late tick among many in time, when everything that came in those 50 ms had to wait: so here each of the
 * ticks that a stall has swallowed counts, the first with the whole of it, the last with nearly nothing.
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

  /** Ends it; the lateness, in ms, of every tick that was due. */
  end() {
    this.#tick()
    clearInterval(this.#timer)
    return latenesses(this.#gaps)
  }
}

/** @param {readonly number[]} gaps between one tick and the next */
export function latenesses(gaps) {
  return gaps.flatMap((gap) => {
    const late = Math.max(0, gap - EVERY_MS)
    return Array.from({ length: Math.floor(late / EVERY_MS) + 1 }, (_, i) => late - i * EVERY_MS)
  })
}
