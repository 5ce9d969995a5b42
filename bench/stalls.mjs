/**
 * How late the event loop is: a timer that is due every millisecond sees it. perf_hooks' monitorEventLoopDelay does that too, but
 * its histogram does not give back single values, from which the rest follows.
 */
import { readFileSync } from 'node:fs'

const EVERY_MS = 1

export class StallWatch {
  /** @type {number[]} */
  #gaps = []
  /** @type {number[]} */
  #stood = []
  #last = performance.now()
  #lastStood = stood()
  #timer = setInterval(() => this.#tick(), EVERY_MS)

  #tick() {
    const [now, nowStood] = [performance.now(), stood()]
    this.#gaps.push(now - this.#last)
    this.#stood.push(nowStood - this.#lastStood)
    this.#last = now
    this.#lastStood = nowStood
  }

  /** Ends it. How late each tick was, in ms, and how much of that is for want of a processor. */
  end() {
    this.#tick()
    clearInterval(this.#timer)
    const late = latenesses(this.#gaps)
    return { late, unserved: late.map((ms, i) => Math.min(ms, this.#stood[i] ?? 0)) }
  }
}

/** For how long this process's main thread could have run and others did, in ms since it began. 0 where the kernel does not tell. */
function stood() {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
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
