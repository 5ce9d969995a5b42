/**
 * Deploys, stops and sweeps with the library as it is built, on the node that it is started on: the namespaces that it names
 * have to be the node's own. One JSON line in, `[action, what]`; one out, what it came to or `{error}`.
 */
import { createInterface } from 'node:readline'
import { ContainerNet, deploy, lockNodeState, reconcile, stop } from '../../dist/index.js'

const net = new ContainerNet(JSON.parse(process.argv[2]))
const actions = { deploy, stop, sweep: reconcile }

for await (const line of createInterface(process.stdin)) {
  const [action, ...what] = JSON.parse(line)
  const lock = await lockNodeState(net)
  try {
    process.stdout.write(`${JSON.stringify(await actions[action](net, lock, ...what))}\n`)
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: error.message })}\n`)
  } finally {
    await lock[Symbol.asyncDispose]()
  }
}
