/** The frame of a peer in Node.js: a line of input is a round of listing all links. */
import { createInterface } from 'node:readline'
import { tally } from '../tally.mjs'

/** @param {() => Promise<Parameters<typeof tally>[0]>} list */
export async function serve(list) {
  for await (const _ of createInterface(process.stdin)) {
    const start = performance.now()
    const links = await list()
    const ms = performance.now() - start
    process.stdout.write(`${JSON.stringify({ ms, ...tally(links) })}\n`)
  }
  process.exit()
}
