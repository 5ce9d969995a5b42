/** What is measured, and at which sizes, in an order in which most nodes can be used again. */
import { deploy } from './measurements/deploy.mjs'
import { idle } from './measurements/idle.mjs'
import { links } from './measurements/links.mjs'
import { memory } from './measurements/memory.mjs'
import { needs } from './measurements/needs.mjs'
import { removal } from './measurements/removal.mjs'
import { idleStalls, stalls } from './measurements/stalls.mjs'
import { start } from './measurements/start.mjs'

/** @typedef {import('./node.mjs').Size} Size */

/**
 * @typedef {object} Task
 * @property {string} name
 * @property {string} about
 * @property {(lab: import('./lab.mjs').Lab) => Promise<void>} measure
 */

/** What the figures are about: 10,000 other links, 100 live workloads of 25 tenants. */
const MAIN = { links: 10_000, routes: 0, rules: 0, workloads: 100, tenants: 25 }
/** Where something else than the links grows. */
const FEW = { ...MAIN, links: 100 }

const GRIDS = {
  quick: { links: [1000, 10_000], routes: [0, 20_000], rules: [0, 2000], workloads: [], tenants: [] },
  full: {
    links: [100, 1000, 10_000, 50_000],
    routes: [0, 1000, 10_000, 100_000],
    rules: [0, 1000, 5000, 20_000],
    workloads: [1, 25, 100, 253],
    tenants: [1, 25, 50, 100],
  },
}

/**
 * @param {'quick' | 'full'} mode
 * @returns {Task[]}
 */
export function plan(mode) {
  const grid = GRIDS[mode]
  const isFull = mode === 'full'
  const most = { ...MAIN, links: grid.links.at(-1) ?? 0 }
  return [
    { name: 'links', about: 'every link listed and decoded', measure: (lab) => links(lab, MAIN) },
    { name: 'needs', about: 'what a pass needs to know of links', measure: (lab) => needs(lab, MAIN) },
    { name: 'idle', about: 'a pass with nothing to do', measure: (lab) => idle(lab, MAIN, { withOracle: true }) },
    { name: 'deploy', about: 'one workload comes and goes', measure: (lab) => deploy(lab, MAIN) },
    { name: 'stalls', about: 'how late the event loop is', measure: (lab) => stalls(lab, MAIN) },
    {
      name: 'removal',
      about: 'a pass behind 100 stopped workloads',
      // The oracle's takes minutes.
      measure: (lab) => removal(lab, MAIN, { oracleRounds: isFull ? 3 : 1 }),
    },
    {
      name: 'start',
      about: 'the command as a process',
      async measure(lab) {
        await start(lab, { ...MAIN, links: 0, workloads: 0, tenants: 0 })
        await start(lab, { ...MAIN, links: 0 })
      },
    },
    {
      name: 'along-links',
      about: `the same with ${grid.links.join(', ')} other links`,
      async measure(lab) {
        const sizes = grid.links.map((many) => ({ ...MAIN, links: many }))
        await lab.grow('links', sizes, async (size, isLast) => {
          await links(lab, size)
          await idle(lab, size, { withOracle: false })
          if (isLast) await idleStalls(lab, size)
        })
      },
    },
    {
      name: 'memory',
      about: `of a process that sweeps beside ${most.links} links`,
      measure: (lab) => memory(lab, most),
    },
    .../** @type {const} */ (['routes', 'rules']).map((along) => ({
      name: `along-${along}`,
      about: `a pass beside ${grid[along].join(', ')} other ${along}`,
      async measure(/** @type {import('./lab.mjs').Lab} */ lab) {
        const sizes = grid[along].map((many) => ({ ...FEW, [along]: many }))
        await lab.grow(along, sizes, async (size, isLast) => {
          await idle(lab, size, { withOracle: false })
          if (isLast) await idleStalls(lab, size)
        })
      },
    })),
    .../** @type {const} */ (['workloads', 'tenants'])
      .filter((along) => grid[along].length > 0)
      .map((along) => ({
        name: `along-${along}`,
        about: `a pass over ${grid[along].join(', ')} ${along}`,
        async measure(/** @type {import('./lab.mjs').Lab} */ lab) {
          const sizes = grid[along].map((many) => {
            const size = { ...FEW, [along]: many }
            return { ...size, tenants: Math.min(size.tenants, size.workloads) }
          })
          await lab.grow(along, sizes, (size) => idle(lab, size, { withOracle: false }))
        },
      })),
  ]
}
