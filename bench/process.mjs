/** Processes: run to their end, or kept to be asked. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

/** @typedef {{ command: string, args?: readonly string[], env?: NodeJS.ProcessEnv, cwd?: string }} Call */

/**
 * Runs it and returns what it printed. Rejects, with what it said, unless it ends with status 0.
 *
 * @param {Call} call
 * @param {string} [input]
 */
export async function run({ command, args = [], env = process.env, cwd }, input = '') {
  const child = spawn(command, [...args], { env, cwd, stdio: ['pipe', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  // Who ends without reading its input has said so by its status.
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  const [status] = await ended
  if (status !== 0) throw new Error(`${[command, ...args].join(' ')}\nended with ${status}\n${stderr}${stdout}`)
  return stdout
}

/** A program that answers each line of its input by a line of JSON. The answer says `ms`: how long it took, by its own clock. */
export class Program {
  #child
  #lines
  #said = ''
  #name

  /**
   * @param {string} name for messages
   * @param {Call} call
   */
  constructor(name, { command, args = [], env = process.env, cwd }) {
    this.#name = name
    this.#child = spawn(command, [...args], { env, cwd, stdio: ['pipe', 'pipe', 'pipe'] })
    this.#child.stdin.on('error', () => {})
    this.#child.stderr.setEncoding('utf8').on('data', (said) => {
      this.#said = (this.#said + said).slice(-2000)
    })
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]()
  }

  /**
   * @param {string} [question]
   * @returns {Promise<any>}
   */
  async ask(question = '') {
    this.#child.stdin.write(`${question}\n`)
    const { value, done } = await this.#lines.next()
    if (done) {
      await new Promise((resolve) => setTimeout(resolve, 50))
      throw new Error(`${this.#name} ended where it should answer ${question}:\n${this.#said}`)
    }
    const answer = JSON.parse(value)
    if (answer.error !== undefined) throw new Error(`${this.#name}: ${question}: ${answer.error}`)
    if ((answer.status ?? 0) !== 0) throw new Error(`${this.#name} ended with status ${answer.status}:\n${this.#said}`)
    return answer
  }

  async end() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, 'exit')
    this.#child.stdin.end()
    await exit
  }
}
