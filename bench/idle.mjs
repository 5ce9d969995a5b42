/** The median of so many idle passes in one process, in milliseconds: what an agent pays. */
import { ContainerNet, lockNodeState, reconcile } from '../dist/index.js'

const rounds = Number(process.argv[2] ?? 7)
const net = new ContainerNet()
const lock = await lockNodeState(net)
const took = []
// The first one is the engine's, which compiles.
for (let i = 0; i <= rounds; i++) {
  const start = performance.now()
  const swept = await reconcile(net, lock)
  took.push(performance.now() - start)
  if (!swept.isEmpty) throw new Error(`there was something to do: ${JSON.stringify(swept)}`)
}
await lock.release()
const sorted = took.slice(1).sort((a, b) => a - b)
process.stdout.write(`${sorted[Math.floor(sorted.length / 2)]?.toFixed(3)}\n`)
