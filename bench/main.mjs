/** `npm run bench`: see README.md. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, release } from 'node:os'
import { parseArgs } from 'node:util'
import { figures } from './figures.mjs'
import { Lab } from './lab.mjs'
import { BUILD } from './paths.mjs'
import { plan } from './plan.mjs'
import { contestTable, figureTable } from './table.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string' }, list: { type: 'boolean' } },
})
const mode = positionals[0] === 'full' ? 'full' : 'quick'
const wanted = positionals
  .filter((word) => word !== 'full' && word !== 'quick')
  .map((word) => new RegExp(`^(?:${word})`))
const say = (/** @type {string} */ what) => process.stderr.write(`${what}\n`)
const print = (/** @type {string} */ what) => process.stdout.write(`${what}\n`)

/** @param {import('./plan.mjs').Task} task */
const label = ({ name, size }) =>
  `${name} ${Object.entries(size)
    .map(([key, many]) => `${key}=${many}`)
    .join(' ')}`
const tasks = plan(mode).filter((task) => wanted.length === 0 || wanted.some((pattern) => pattern.test(label(task))))
if (values.list || tasks.length === 0) {
  for (const task of values.list ? tasks : plan(mode)) print(label(task))
  process.exit(values.list ? 0 : 2)
}

const rounds = Number(values.rounds ?? 7)
const lab = new Lab({ rounds, say })
try {
  for (const task of tasks) {
    say(label(task))
    await task.measure(lab, task.size)
  }
} finally {
  await lab.discard()
}

const meta = {
  mode,
  date: new Date().toISOString().slice(0, 10),
  kernel: release(),
  node: process.versions.node,
  cores: availableParallelism(),
  rounds,
}
mkdirSync(BUILD, { recursive: true })
writeFileSync(`${BUILD}results.json`, `${JSON.stringify({ meta, contests: lab.contests }, null, 1)}\n`)
print(contestTable(lab.contests))
print('')
print(figureTable(figures(lab.contests)))
