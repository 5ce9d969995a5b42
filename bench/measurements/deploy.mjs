/** One workload comes and goes, of a tenant that has others already, on the node as it is. */
import { assertSame } from '../expected.mjs'
import { ORACLE } from '../paths.mjs'
import { deployArguments, describe } from '../workloads.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function deploy(lab, size) {
  const node = await lab.node(size)
  const newcomer = describe('newcomer', 250, 'tenant0')
  const empty = await node.dump()
  const subject = node.subject()
  const oracles = {
    deploy: node.timed('bash', [ORACLE, ...deployArguments(newcomer)]),
    stop: node.timed('bash', [ORACLE, 'stop', newcomer.workload]),
    sweep: node.timed('bash', [ORACLE, 'sweep']),
  }
  // The state behind each of them, by the oracle's first round: everybody's must be that.
  let wired = ''
  const check = async (/** @type {string} */ what, /** @type {boolean} */ isWired) => {
    const dump = await node.dump()
    if (isWired && wired === '') wired = dump
    assertSame(what, dump, isWired ? wired : empty)
  }
  const checked = {
    netsweep: {
      async deploy() {
        const { ms } = await subject.ask(`deploy ${JSON.stringify(newcomer)}`)
        await check("netsweep's deploy", true)
        return ms
      },
      async stop() {
        const { ms } = await subject.ask(`stop ${JSON.stringify(newcomer.workload)}`)
        const swept = await subject.ask('sweep')
        await check("netsweep's stop and sweep", false)
        return ms + swept.ms
      },
    },
    oracle: {
      async deploy() {
        const { ms } = await oracles.deploy.ask()
        await check("the oracle's deploy", true)
        return ms
      },
      async stop() {
        const { ms } = await oracles.stop.ask()
        // Else its sweep would find the workload alive.
        await node.gone('veth250')
        const swept = await oracles.sweep.ask()
        await check("the oracle's stop and sweep", false)
        return ms + swept.ms
      },
    },
  }
  const entry = (/** @type {'oracle' | 'netsweep'} */ id) => ({
    id,
    async round() {
      return { deploy: await checked[id].deploy(), stop: await checked[id].stop() }
    },
  })
  const taken = await lab.compare('deploy', node, [entry('oracle'), entry('netsweep')], {
    value: (taken) => taken.deploy,
  })
  await node.quiet()
  const stops = Object.entries(taken).map(([id, rounds]) => [id, rounds.map(({ stop }) => stop)])
  lab.record('stop and sweep', node, 'ms', Object.fromEntries(stops))
}
