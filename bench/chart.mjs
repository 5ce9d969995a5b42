/** The growth curves as one SVG, a panel for each thing that grows. It follows the reader's colour scheme. */
import { digits } from './figures.mjs'
import { summarize } from './statistics.mjs'

/** @typedef {import('./lab.mjs').Contest} Contest */
/** @typedef {{ x: number, median: number, low: number, high: number }} Point */
/** @typedef {{ id: string, points: Point[] }} Curve */

/**
 * @typedef {object} Panel
 * @property {string} title
 * @property {string} label of the x axis
 * @property {Curve[]} curves
 * @property {'linear' | 'log'} scale of both axes
 */

const PANELS = /** @type {const} */ ([
  { name: 'links', along: 'links', scale: 'log', title: 'Every link listed and decoded', label: 'other links' },
  { name: 'idle', along: 'links', scale: 'log', title: 'An idle pass beside other links', label: 'other links' },
  { name: 'idle', along: 'routes', scale: 'linear', title: 'An idle pass beside other routes', label: 'other routes' },
  {
    name: 'idle',
    along: 'rules',
    scale: 'linear',
    title: 'An idle pass beside other rules',
    label: 'other iptables rules',
  },
  { name: 'idle', along: 'workloads', scale: 'linear', title: 'An idle pass over workloads', label: 'workloads' },
  {
    name: 'idle',
    along: 'tenants',
    scale: 'linear',
    title: 'An idle pass over tenants',
    label: 'tenants of 100 workloads',
  },
])

/**
 * @param {readonly Contest[]} contests
 * @returns {Panel[]}
 */
export function panels(contests) {
  return PANELS.flatMap(({ name, along, scale, title, label }) => {
    const grown = contests.filter((contest) => contest.name === name && contest.along === along)
    if (grown.length < 2) return []
    const ids = Object.keys(grown[0]?.rounds ?? {})
      // On a scale that begins at 0 it would press all others to the floor; the table has it.
      .filter((id) => scale === 'log' || id !== 'oracle')
    const curves = ids.map((id) => ({
      id,
      points: grown.flatMap(({ size, rounds }) =>
        rounds[id] === undefined ? [] : [{ x: size[along], ...summarize(rounds[id]) }],
      ),
    }))
    return [{ title, label, scale, curves }]
  })
}

const WIDTH = 560
const HEIGHT = 340
const EDGE = { left: 62, right: 172, top: 46, bottom: 48 }
const LINE = 14

/** @param {readonly Contest[]} contests */
export function chart(contests) {
  const drawn = panels(contests).map(panel)
  const rows = Math.max(1, Math.ceil(drawn.length / 2))
  const placed = drawn.map(
    (body, i) => `<g transform="translate(${(i % 2) * WIDTH} ${Math.floor(i / 2) * HEIGHT})">${body}</g>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * WIDTH} ${rows * HEIGHT}" role="img" aria-label="Growth curves">
<style>
  svg { --page: #ffffff; --ink: #1f2328; --faint: #59636e; --grid: #d9dee3; --own: #0969da; --floor: #1f2328;
    --c0: #bc4c00; --c1: #1a7f37; --c2: #8250df; --c3: #bf3989; --c4: #9a6700; --c5: #cf222e; --c6: #1b7c83; --c7: #6e7781; --c8: #57606a; }
  @media (prefers-color-scheme: dark) { svg { --page: #0d1117; --ink: #e6edf3; --faint: #9198a1; --grid: #2d333b; --own: #58a6ff; --floor: #e6edf3;
    --c0: #f0883e; --c1: #3fb950; --c2: #bc8cff; --c3: #f778ba; --c4: #d29922; --c5: #ff7b72; --c6: #56d4dd; --c7: #8b949e; --c8: #b1bac4; } }
  text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: var(--faint); }
  .title { font-size: 15px; font-weight: 600; fill: var(--ink); }
  .own { font-weight: 600; }
  path, line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
</style>
<rect width="100%" height="100%" fill="var(--page)"/>
${placed.join('\n')}
</svg>
`
}

/** @param {Panel} panel */
function panel({ title, label, scale, curves }) {
  const points = curves.flatMap((curve) => curve.points)
  const x = axis(
    points.map((point) => point.x),
    scale,
    EDGE.left,
    WIDTH - EDGE.right,
  )
  const y = axis(
    points.map((point) => point.median),
    scale,
    HEIGHT - EDGE.bottom,
    EDGE.top,
  )
  const right = WIDTH - EDGE.right
  const bottom = HEIGHT - EDGE.bottom
  const grid = y.ticks.map(
    (
      tick,
    ) => `<line x1="${EDGE.left}" x2="${right}" y1="${at(y.of(tick))}" y2="${at(y.of(tick))}" stroke="var(--grid)"/>
<text x="${EDGE.left - 8}" y="${at(y.of(tick) + 4)}" text-anchor="end">${tickText(tick)}</text>`,
  )
  const steps = x.ticks.map(
    (tick) => `<text x="${at(x.of(tick))}" y="${bottom + 18}" text-anchor="middle">${tickText(tick)}</text>`,
  )
  const ends = spread(curves.map(({ points }) => y.of(points.at(-1)?.median ?? 1)))
  const lines = curves.map(({ id, points }, i) => {
    const colour = colourOf(id, curves)
    const path = points
      .map((point, k) => `${k === 0 ? 'M' : 'L'}${at(x.of(point.x))} ${at(y.of(point.median))}`)
      .join('')
    const dash = id.startsWith('floor') ? ' stroke-dasharray="5 4"' : ''
    const width = id === 'netsweep' ? ' stroke-width="3" style="stroke-width:3"' : ''
    const dots = points.map(
      (
        point,
      ) => `<line x1="${at(x.of(point.x))}" x2="${at(x.of(point.x))}" y1="${at(y.of(point.low))}" y2="${at(y.of(point.high))}" stroke="${colour}"/>
<circle cx="${at(x.of(point.x))}" cy="${at(y.of(point.median))}" r="${id === 'netsweep' ? 4 : 2.5}" fill="${colour}"/>`,
    )
    const last = points.at(-1)
    const end = ends[i] ?? 0
    const name = id === 'netsweep' ? ' class="own"' : ''
    return `<path d="${path}" stroke="${colour}"${dash}${width}/>
${dots.join('\n')}
<path d="M${at(x.of(last?.x ?? 0) + 5)} ${at(y.of(last?.median ?? 1))}L${right + 14} ${at(end)}" stroke="var(--grid)"/>
<text x="${right + 18}" y="${at(end + 4)}"${name} style="fill:${colour}">${escaped(id)} ${digits(last?.median ?? 0)}</text>`
  })
  return `<text class="title" x="${EDGE.left - 44}" y="24">${title}</text>
<text x="${EDGE.left - 8}" y="${EDGE.top - 6}" text-anchor="end">ms</text>
${grid.join('\n')}
${steps.join('\n')}
<text x="${(EDGE.left + right) / 2}" y="${bottom + 38}" text-anchor="middle">${label}</text>
${lines.join('\n')}`
}

/**
 * @param {string} id
 * @param {readonly Curve[]} curves
 */
function colourOf(id, curves) {
  if (id === 'netsweep') return 'var(--own)'
  if (id.startsWith('floor')) return 'var(--floor)'
  const others = curves.map((curve) => curve.id).filter((other) => other !== 'netsweep' && !other.startsWith('floor'))
  return `var(--c${others.indexOf(id) % 9})`
}

/**
 * @param {readonly number[]} values
 * @param {'linear' | 'log'} scale
 * @param {number} from where the least goes, in pixels
 * @param {number} to
 */
function axis(values, scale, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)]
  if (scale === 'linear') {
    const step = roundStep(most / 5)
    const top = Math.ceil(most / step) * step
    const ticks = Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step)
    return { ticks, of: (/** @type {number} */ value) => from + ((to - from) * Math.max(0, value)) / top }
  }
  const [low, high] = [Math.log10(least), Math.log10(most)]
  const [first, last] = [Math.floor(low), Math.ceil(high)]
  const decades = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i))
  const margin = (high - low) * 0.03
  const of = (/** @type {number} */ value) =>
    from + ((to - from) * (Math.log10(value) - low + margin)) / (high - low + 2 * margin)
  const ticks = decades
    .flatMap((decade) => (decades.length > 3 ? [decade] : [decade, 2 * decade, 5 * decade]))
    .filter((tick) => tick >= least * 0.99 && tick <= most * 1.01)
  return { ticks, of }
}

/** A step that people count in. @param {number} step */
function roundStep(step) {
  const decade = 10 ** Math.floor(Math.log10(step))
  return ([1, 2, 5].find((factor) => factor * decade >= step) ?? 10) * decade
}

/** Labels that stand where they belong, as far as they do not cover each other. @param {readonly number[]} wanted */
export function spread(wanted) {
  const order = wanted.map((y, i) => ({ y, i })).sort((a, b) => a.y - b.y)
  const placed = [...wanted]
  let lowest = Number.NEGATIVE_INFINITY
  for (const { y, i } of order) {
    lowest = Math.max(y, lowest + LINE)
    placed[i] = lowest
  }
  // What was pushed out at the bottom pushes back.
  let highest = HEIGHT - EDGE.bottom + 4
  for (const { i } of order.reverse()) {
    placed[i] = Math.min(placed[i] ?? 0, highest)
    highest = (placed[i] ?? 0) - LINE
  }
  return placed
}

/** @param {number} value */
const at = (value) => Number(value.toFixed(1))

/** @param {number} tick */
function tickText(tick) {
  return tick >= 10_000 ? `${tick / 1000}k` : String(Number(tick.toPrecision(6)))
}

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
