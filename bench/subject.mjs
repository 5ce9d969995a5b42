/**
 * The project in a process that goes on running, as an agent has it. Answers each line of its input, a question with a JSON
 * argument behind it, by a line of JSON; `stalls` in front of a question tells how late the event loop was meanwhile, and what for.
 */
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { ContainerNet, deploy, lockNodeState, reconcile, stop } from '../dist/index.js'
import { ask } from '../dist/kernel/netlink/ask.js'
import { allLinks } from '../dist/kernel/rtnetlink/link.js'
import { readLinks } from '../dist/node/links.js'
import { StallWatch } from './stalls.mjs'
import { tally } from './tally.mjs'

const net = new ContainerNet()
const lock = await lockNodeState(net)

/** Each does the work that is timed, and returns what tells, untimed, whether it was done right. */
const questions = {
  async links() {
    const [{ items, error, interrupted }] = await ask(lock.host, [allLinks()])
    if (error !== null || interrupted) throw error ?? new Error('interrupted')
    return () => tally(items)
  },
  async needs() {
    const { bridges, veths } = await readLinks(lock.host, net, {})
    return () => ({ bridges: bridges.length, veths: veths.length, ports: bridges.flatMap(({ ports }) => ports).length })
  },
  async idle() {
    const swept = await reconcile(net, lock)
    if (!swept.isEmpty) throw new Error(`there was something to do: ${JSON.stringify(swept)}`)
    return () => ({})
  },
  async sweep() {
    const { bridges, addresses, complete } = await reconcile(net, lock)
    if (!complete) throw new Error('the pass is incomplete')
    return () => ({ bridges: bridges.length, addresses: addresses.length })
  },
  async deploy(/** @type {unknown} */ description) {
    const { changes } = await deploy(net, lock, description)
    return () => ({ changes: changes.length })
  },
  async stop(/** @type {string} */ workload) {
    const { veth } = await stop(net, lock, workload)
    if (veth === null) throw new Error(`${workload} did not run`)
    return () => ({})
  },
  /** The most memory that this process has had, in KiB. */
  async memory() {
    const kib = Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1])
    return () => ({ kib })
  },
}

/**
 * @param {keyof typeof questions} question
 * @param {any} argument
 * @param {boolean} stalls
 */
async function answer(question, argument, stalls) {
  const watch = stalls ? new StallWatch() : undefined
  const start = performance.now()
  const result = await questions[question](argument)
  const ms = performance.now() - start
  const stalled = await watch?.end()
  return { ms, ...stalled, ...result() }
}

for await (const line of createInterface(process.stdin)) {
  const [, stalls, question, argument] = /^(stalls )?(\S+) ?(.*)$/.exec(line) ?? []
  const said = await answer(
    /** @type {keyof typeof questions} */ (question),
    argument ? JSON.parse(argument) : undefined,
    stalls !== undefined,
  ).catch((error) => ({ error: String(error?.stack ?? error) }))
  process.stdout.write(`${JSON.stringify(said)}\n`)
}
await lock.release()
