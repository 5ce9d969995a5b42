/** What a run leaves behind: results as JSON, the curves, and in this folder's README what the reference run came to. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { chart } from './chart.mjs'
import { figures } from './figures.mjs'
import { BENCH, RESULTS } from './paths.mjs'
import { contestTable, figureTable } from './table.mjs'

/**
 * @typedef {object} Results
 * @property {{ mode: string, date: string, kernel: string, node: string, cores: number, processor: string, rounds: number, commit: string }} run
 * @property {Record<string, string>} absent peers that could not be had, and why
 * @property {import('./lab.mjs').Contest[]} contests
 */

/** @param {Results} results */
export function report({ run, absent, contests }) {
  const { date, kernel, node, cores, processor, rounds, mode, commit } = run
  const missing = Object.entries(absent).map(([id, why]) => `- absent: ${id}: ${why.split('\n')[0]}`)
  return [
    `${date}, ${mode}, commit ${commit}: Linux ${kernel}, Node.js ${node}, ${cores} cores of ${processor}; ${rounds} rounds.`,
    figureTable(figures(contests)),
    missing.length === 0 ? 'No peer is absent.' : missing.join('\n'),
  ].join('\n\n')
}

/**
 * @param {Results} results
 * @param {string} folder
 */
export function writeResults(results, folder) {
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${folder}results.json`, `${JSON.stringify(results)}\n`)
  writeFileSync(`${folder}growth.svg`, chart(results.contests))
  writeFileSync(`${folder}all.md`, `# All that the run has measured\n\n${contestTable(results.contests)}\n`)
}

const README = `${BENCH}README.md`
const BEGIN = '<!-- The reference run, as `npm run bench -- report` writes it. -->'
const END = '<!-- Its end. -->'

/**
 * The README with a report in its place.
 *
 * @param {string} readme
 * @param {string} text
 */
export function withReport(readme, text) {
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`README.md has lost its place for the report: ${BEGIN} … ${END}`)
  return `${readme.slice(0, begin + BEGIN.length)}\n\n${text}\n\n${readme.slice(end)}`
}

/** Draws and writes the reference run anew. */
export function rewriteReference() {
  /** @type {Results} */
  const results = JSON.parse(readFileSync(`${RESULTS}results.json`, 'utf8'))
  writeResults(results, RESULTS)
  writeFileSync(README, withReport(readFileSync(README, 'utf8'), report(results)))
}
