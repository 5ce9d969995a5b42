/** Work in turns: deciding on a full node takes a while, and whoever embeds this has other things to do meanwhile. */
import { setImmediate } from 'node:timers/promises'

/** It can be set down wherever it yields. */
export type Work<T> = Generator<void, T, void>

/** Milliseconds until others have a turn. */
const TURN_MS = 0.1

/** For work that comes in parts. They may follow each other without the event loop having a look at anything else. */
export class Turns {
  #worked = 0

  async take(part: () => void): Promise<void> {
    const began = performance.now()
    part()
    this.#worked += performance.now() - began
    if (this.#worked < TURN_MS) return
    await setImmediate()
    this.#worked = 0
  }
}

export async function inTurns<T>(work: Work<T>): Promise<T> {
  await setImmediate()
  for (let began = performance.now(); ; ) {
    const { done, value } = work.next()
    if (done) return value
    if (performance.now() - began < TURN_MS) continue
    await setImmediate()
    began = performance.now()
  }
}

export function atOnce<T>(work: Work<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}
