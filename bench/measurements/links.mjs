/** Every link listed and decoded, by everybody who can. */
import { WARM_UPS } from '../alternate.mjs'
import { startPeers } from '../peers.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function links(lab, size) {
  const node = await lab.node(size)
  const subject = node.subject()
  const floor = node.floor()
  const taken = await lab.compare('links', node, [
    { id: 'netsweep', warmUps: WARM_UPS, round: () => subject.ask('links') },
    { id: 'floor dump_links', round: () => floor.ask('dump_links') },
    ...startPeers(node).map(({ id, program }) => ({
      id,
      warmUps: id.startsWith('Node.js') ? WARM_UPS : 1,
      round: () => program.ask('links'),
    })),
  ])
  await node.quiet()
  for (const [id, rounds] of Object.entries(taken)) for (const round of rounds) agree(id, round, taken.netsweep?.[0])
}

/**
 * Whoever decodes less, or something else, is not to be compared with.
 *
 * @param {string} id
 * @param {any} found
 * @param {any} expected
 */
function agree(id, found, expected) {
  // `ip -j` prints everything in one line: what it has seen is checked where that is parsed.
  const said = found.messages ?? found.links ?? (found.lines === 1 ? expected.links : found.lines)
  const wrong = ['veths', 'masters', 'mtus', 'names'].filter((key) => key in found && found[key] !== expected[key])
  if (said === expected.links && wrong.length === 0) return
  throw new Error(`${id} has seen other links than netsweep: ${JSON.stringify({ found, expected })}`)
}
