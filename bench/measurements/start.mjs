/** The command as a process, beside Node.js that has nothing to do. */
import { COMMAND, ORACLE } from '../paths.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function start(lab, size) {
  const node = await lab.node(size)
  const command = node.timed(process.execPath, [COMMAND, 'sweep'])
  const nothing = node.timed(process.execPath, ['-e', '0'])
  const oracle = node.timed('bash', [ORACLE, 'sweep'])
  await lab.compare('start', node, [
    { id: 'netsweep sweep', round: () => command.ask() },
    { id: 'node -e 0', round: () => nothing.ask() },
    { id: 'oracle', round: () => oracle.ask() },
  ])
  await node.quiet()
}
