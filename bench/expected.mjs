/** What a node's state must be, by the second opinion. A measurement of a pass that left another one is worth nothing. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { Node } from './node.mjs'
import { BUILD, ORACLE } from './paths.mjs'
import { deployArguments, described, SEED } from './workloads.mjs'

/**
 * The dump of a node that the oracle has wired. It takes the oracle a second for every three workloads, so what it came
 * to is kept, for as long as the oracle is the same.
 *
 * @param {number} workloads
 * @param {number} tenants
 */
export async function wiredByOracle(workloads, tenants) {
  const version = createHash('sha256').update(readFileSync(ORACLE)).digest('hex').slice(0, 12)
  const file = `${BUILD}oracle-${workloads}-${tenants}-${version}.txt`
  try {
    return readFileSync(file, 'utf8')
  } catch {
    const dump = await wireByOracle(workloads, tenants)
    mkdirSync(BUILD, { recursive: true })
    writeFileSync(file, dump)
    return dump
  }
}

/**
 * @param {number} workloads
 * @param {number} tenants
 */
async function wireByOracle(workloads, tenants) {
  const node = await Node.create()
  try {
    await node.oracle(...deployArguments(SEED))
    await node.oracle('stop', SEED.workload)
    await node.gone('veth254')
    await node.oracle('sweep')
    for (const description of described(workloads, tenants)) await node.oracle(...deployArguments(description))
    return await node.dump()
  } finally {
    await node.end()
  }
}

/**
 * @param {string} what
 * @param {string} found
 * @param {string} expected
 */
export function assertSame(what, found, expected) {
  if (found === expected) return
  const have = new Set(found.split('\n'))
  const want = new Set(expected.split('\n'))
  const only = (/** @type {Set<string>} */ one, /** @type {Set<string>} */ other, /** @type {string} */ sign) =>
    [...one].filter((line) => !other.has(line)).map((line) => `${sign} ${line}`)
  const lines = [...only(have, want, '+'), ...only(want, have, '-')]
  const shown = lines.length > 0 ? lines.slice(0, 20) : ['the same lines, another number of times']
  throw new Error(
    `${what}: the node is not in the state that it must be in, so nothing of it is reported:\n${shown.join('\n')}`,
  )
}
