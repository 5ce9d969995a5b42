/** What is measured at which size, in the order in which one node can grow into the next. */
import { deploy } from './measurements/deploy.mjs'
import { idle } from './measurements/idle.mjs'
import { links } from './measurements/links.mjs'
import { needs } from './measurements/needs.mjs'
import { removal } from './measurements/removal.mjs'

/** @typedef {import('./node.mjs').Size} Size */

/** What the figures are about: 10,000 other links, 100 live workloads of 25 tenants. */
const MAIN = { links: 10_000, routes: 0, rules: 0, workloads: 100, tenants: 25 }

/**
 * @typedef {object} Task
 * @property {string} name
 * @property {Size} size
 * @property {(lab: import('./lab.mjs').Lab, size: Size) => Promise<void>} measure
 */

/**
 * @param {'quick' | 'full'} mode
 * @returns {Task[]}
 */
export function plan(mode) {
  return [
    { name: 'links', size: MAIN, measure: links },
    { name: 'needs', size: MAIN, measure: needs },
    { name: 'idle', size: MAIN, measure: (lab, size) => idle(lab, size, { withOracle: true }) },
    { name: 'deploy', size: MAIN, measure: deploy },
    {
      name: 'removal',
      size: MAIN,
      measure: (lab, size) => removal(lab, size, mode === 'full' ? {} : { oracleRounds: 1 }),
    },
  ]
}
