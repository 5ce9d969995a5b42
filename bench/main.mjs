/** `npm run bench`: see README.md. */
import { execFileSync } from 'node:child_process'
import { availableParallelism, cpus, release } from 'node:os'
import { parseArgs } from 'node:util'
import { Lab } from './lab.mjs'
import { BUILD, PROJECT, RESULTS } from './paths.mjs'
import { absentPeers } from './peers.mjs'
import { plan } from './plan.mjs'
import { report, rewriteReference, writeResults } from './report.mjs'
import { contestTable } from './table.mjs'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string', default: '7' }, list: { type: 'boolean' }, reference: { type: 'boolean' } },
})
const say = (/** @type {string} */ what) => process.stderr.write(`${what}\n`)
const print = (/** @type {string} */ what) => process.stdout.write(`${what}\n`)

const [first, ...rest] = positionals
if (first === 'report') rewriteReference()
else await bench(first === 'full' ? 'full' : 'quick', first === 'full' || first === 'quick' ? rest : positionals)

/**
 * @param {'quick' | 'full'} mode
 * @param {readonly string[]} wanted patterns of names; none: all
 */
async function bench(mode, wanted) {
  const patterns = wanted.map((pattern) => new RegExp(`^(?:${pattern})$`))
  const tasks = plan(mode).filter(({ name }) => wanted.length === 0 || patterns.some((pattern) => pattern.test(name)))
  if (values.list || tasks.length === 0) {
    for (const { name, about } of plan(mode)) print(`${name.padEnd(16)} ${about}`)
    if (!values.list) throw new Error(`no measurement is called ${wanted.join(' or ')}`)
    return
  }
  const rounds = Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error(`--rounds ${values.rounds} is no number of rounds`)
  const lab = new Lab({ rounds, say })
  const run = about(mode, rounds)
  const isReference = values.reference === true
  const save = () => {
    const results = { run, absent: absentPeers(), contests: lab.contests }
    writeResults(results, isReference ? RESULTS : BUILD)
    return results
  }
  try {
    for (const { name, about, measure } of tasks) {
      say(`${name}: ${about}`)
      await measure(lab)
      // A run of hours that ends early has not been for nothing.
      save()
    }
  } finally {
    await lab.discard()
  }
  const results = save()
  if (isReference) rewriteReference()
  print(`${contestTable(lab.contests)}\n\n${report(results)}`)
}

/**
 * @param {string} mode
 * @param {number} rounds
 */
function about(mode, rounds) {
  const git = (/** @type {string[]} */ ...args) => execFileSync('git', args, { cwd: PROJECT, encoding: 'utf8' }).trim()
  return {
    mode,
    rounds,
    date: new Date().toISOString().slice(0, 10),
    commit: git('describe', '--always', '--dirty', '--exclude=*'),
    kernel: release(),
    node: process.versions.node,
    cores: availableParallelism(),
    processor: cpus()[0]?.model.trim() ?? 'an unknown processor',
  }
}
