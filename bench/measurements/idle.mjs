/** A pass with nothing to do: what an agent pays again and again, on a node that others have filled. */
import { WARM_UPS } from '../alternate.mjs'
import { assertSame } from '../expected.mjs'
import { ORACLE } from '../paths.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 * @param {{ withOracle: boolean }} options
 */
export async function idle(lab, size, { withOracle }) {
  const node = await lab.node(size)
  const before = await node.dump()
  const subject = node.subject()
  const floor = node.floor()
  const save = node.timed('iptables-nft-save')
  const oracle = node.timed('bash', [ORACLE, 'sweep'])
  /** @type {import('../alternate.mjs').Entry[]} */
  const entries = [
    { id: 'netsweep', warmUps: WARM_UPS, round: () => subject.ask('idle') },
    { id: 'floor targeted', round: () => floor.ask('targeted') },
    { id: 'floor dump_routes_of', round: () => floor.ask('dump_routes_of yah0') },
    { id: 'floor dump_routes', round: () => floor.ask('dump_routes') },
    { id: 'iptables-save', round: () => save.ask() },
  ]
  if (withOracle) entries.push({ id: 'oracle', rounds: lab.rounds, round: () => oracle.ask() })
  await lab.compare('idle', node, entries, { rounds: lab.manyRounds })
  await node.quiet()
  assertSame('a pass with nothing to do', await node.dump(), before)
}
