/**
 * How late the event loop is: a timer that is due every millisecond sees it. perf_hooks' monitorEventLoopDelay does that too, but
 * its histogram does not give back single values, from which the rest follows.
 */
import { readFileSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'

const EVERY_MS = 1

/** From one tick to the next, in ms since the process began. @typedef {{ from: number, to: number }} Span */

export class StallWatch {
  /** @type {Span[]} */
  #gaps = []
  /** @type {number[]} */
  #stood = []
  /** @type {Span[]} */
  #collections = []
  #last = performance.now()
  #lastStood = stood()
  #timer = setInterval(() => this.#tick(), EVERY_MS)
  #observer = new PerformanceObserver((list) => this.#collected(list.getEntries()))

  constructor() {
    this.#observer.observe({ entryTypes: ['gc'] })
  }

  #tick() {
    const [now, nowStood] = [performance.now(), stood()]
    this.#gaps.push({ from: this.#last, to: now })
    this.#stood.push(nowStood - this.#lastStood)
    this.#last = now
    this.#lastStood = nowStood
  }

  /** @param {readonly import('node:perf_hooks').PerformanceEntry[]} entries */
  #collected(entries) {
    for (const { startTime: from, duration } of entries) this.#collections.push({ from, to: from + duration })
  }

  /** Ends it. How late each tick was, in ms, how much of that is for want of a processor, and how much for the collection of garbage. */
  async end() {
    this.#tick()
    clearInterval(this.#timer)
    // The observer is told of the last collections only now.
    await setImmediate()
    this.#collected(this.#observer.takeRecords())
    this.#observer.disconnect()
    const late = latenesses(this.#gaps.map(({ from, to }) => to - from))
    return {
      late,
      unserved: late.map((ms, i) => Math.min(ms, this.#stood[i] ?? 0)),
      collecting: late.map((ms, i) => Math.min(ms, this.#collecting(this.#gaps[i]))),
    }
  }

  /** @param {Span | undefined} gap */
  #collecting(gap = { from: 0, to: 0 }) {
    const within = this.#collections.map(({ from, to }) => Math.min(to, gap.to) - Math.max(from, gap.from))
    return within.reduce((sum, ms) => sum + Math.max(0, ms), 0)
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
