/**
 * A process that only runs iptables-save, for comparison of how late its event loop is: once, and again until as many milliseconds
 * have passed as the line of input says.
 */
import { execFile } from 'node:child_process'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { StallWatch } from './stalls.mjs'

const run = promisify(execFile)

for await (const line of createInterface(process.stdin)) {
  const watch = new StallWatch()
  const start = performance.now()
  do await run('iptables-nft-save', [], { maxBuffer: 2 ** 30 })
  while (performance.now() - start < Number(line))
  const ms = performance.now() - start
  process.stdout.write(`${JSON.stringify({ ms, ...(await watch.end()) })}\n`)
}
