/** A process that takes one JSON line after the other, and answers each with one. */
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import type { Process } from '../support/process.js'

export class Talker {
  readonly #lines: AsyncIterator<string>
  readonly #complaint: Promise<string>
  #last: Promise<unknown> = Promise.resolve()

  constructor(
    readonly process: Process,
    readonly what: string,
  ) {
    this.#lines = createInterface(process.stdout)[Symbol.asyncIterator]()
    this.#complaint = text(process.stderr)
    // It may die before it has read everything; then it is the answer that is missed.
    process.stdin.on('error', () => {})
  }

  /** The first line, which says that it is ready. */
  ready(): Promise<unknown> {
    return this.#enqueue(() => this.#answer())
  }

  ask(...command: readonly unknown[]): Promise<unknown> {
    return this.#enqueue(() => {
      this.process.stdin.write(`${JSON.stringify(command)}\n`)
      return this.#answer()
    })
  }

  #enqueue(call: () => Promise<unknown>): Promise<unknown> {
    const answer = this.#last.then(call)
    this.#last = answer.catch(() => {})
    return answer
  }

  async #answer(): Promise<unknown> {
    const { value, done } = await this.#lines.next()
    if (done) throw new Error(`${this.what} ended: ${await this.#complaint}`)
    return JSON.parse(value)
  }
}
