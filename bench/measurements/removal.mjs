/** All workloads have stopped: one pass removes what they left, and their bridges. */

import { WARM_UPS } from '../alternate.mjs'
import { assertSame } from '../expected.mjs'
import { captureLeftovers } from '../leftovers.mjs'
import { ORACLE } from '../paths.mjs'
import { compareStalls } from './stalls.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 * @param {{ oracleRounds?: number }} options the oracle's pass takes the better part of a minute; 0: leave it out
 */
export async function removal(lab, size, { oracleRounds }) {
  const node = await lab.node(size)
  const leftovers = await captureLeftovers(node)
  lab.say(`  ${size.workloads} workloads have stopped`)
  const subject = node.subject()
  const floor = node.floor()
  const batch = node.timed('ip', ['-batch', leftovers.deletions])
  const oracle = node.timed('bash', [ORACLE, 'sweep'])

  const before = () => leftovers.restore()
  let clean = ''
  const after = async () => {
    const dump = await node.dump()
    if (clean === '') clean = dump
    assertSame('a pass that removes everything', dump, clean)
  }
  /** @type {import('../alternate.mjs').Entry[]} */
  const entries = [
    { id: 'netsweep', before, after, round: () => subject.ask('sweep') },
    { id: 'ip -batch', before, round: () => batch.ask() },
    { id: 'floor delete', before, round: () => floor.ask(`delete ${leftovers.bridges.join(' ')}`) },
  ]
  // First, without a warm-up: what it leaves behind is what everybody's pass must leave.
  if (oracleRounds !== 0)
    entries.unshift({ id: 'oracle', before, after, warmUps: 0, rounds: oracleRounds, round: () => oracle.ask() })
  const taken = await lab.compare('removal', node, entries)
  for (const { bridges, addresses } of taken.netsweep ?? [])
    if (bridges !== size.tenants || addresses !== size.workloads)
      throw new Error(`a pass removed ${bridges} bridges and ${addresses} addresses`)
  await node.quiet()
  const watched = node.subject()
  await compareStalls(lab, node, [
    { id: 'removal', rounds: lab.rounds, warmUps: WARM_UPS, before, after, round: () => watched.ask('stalls sweep') },
  ])
  await lab.discard()
}
