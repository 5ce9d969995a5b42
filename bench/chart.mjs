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

/**
 * `ids`: of all that was measured, what belongs to the panel; null: all. On a scale that begins at 0 the oracle would
 * press everything else to the floor, so it is not there.
 *
 * @type {readonly {
 *   name: string,
 *   along: NonNullable<Contest['along']>,
 *   ids: readonly string[] | null,
 *   scale: Panel['scale'],
 *   title: string,
 *   label: string,
 * }[]}
 */
const PANELS = [
  {
    name: 'links',
    along: 'links',
    ids: null,
    scale: 'log',
    title: 'Every link listed and decoded',
    label: 'other links',
  },
  {
    name: 'idle',
    along: 'links',
    ids: ['netsweep', 'iptables-save', 'floor targeted', 'oracle'],
    scale: 'log',
    title: 'An idle pass beside other links',
    label: 'other links',
  },
  {
    name: 'idle',
    along: 'routes',
    ids: ['netsweep', 'iptables-save', 'floor dump_routes_of'],
    scale: 'linear',
    title: 'An idle pass beside other routes',
    label: 'other routes',
  },
  {
    name: 'idle',
    along: 'rules',
    ids: ['netsweep', 'iptables-save', 'floor targeted'],
    scale: 'linear',
    title: 'An idle pass beside other iptables rules',
    label: 'other iptables rules',
  },
  {
    name: 'idle',
    along: 'workloads',
    ids: ['netsweep', 'iptables-save', 'floor targeted'],
    scale: 'linear',
    title: 'An idle pass over workloads',
    label: 'workloads',
  },
  {
    name: 'idle',
    along: 'tenants',
    ids: ['netsweep', 'iptables-save', 'floor targeted'],
    scale: 'linear',
    title: 'An idle pass over tenants',
    label: 'tenants of 100 workloads',
  },
]

/**
 * @param {readonly Contest[]} contests
 * @returns {Panel[]}
 */
export function panels(contests) {
  return PANELS.flatMap(({ name, along, ids, scale, title, label }) => {
    const grown = contests.filter((contest) => contest.name === name && contest.along === along)
    if (grown.length < 2) return []
    const drawn = Object.keys(grown[0]?.rounds ?? {}).filter((id) => ids === null || ids.includes(id))
    const curves = drawn.map((id) => ({
      id,
      points: grown.flatMap(({ size, rounds }) =>
        rounds[id] === undefined ? [] : [{ x: size[along], ...summarize(rounds[id]) }],
      ),
    }))
    return [{ title, label, scale, curves }]
  })
}

const WIDTH = 590
const HEIGHT = 340
const EDGE = { left: 62, right: 196, top: 54, bottom: 48 }
const RIGHT = WIDTH - EDGE.right
const BOTTOM = HEIGHT - EDGE.bottom
const LINE = 14

const LIGHT = {
  page: '#ffffff',
  title: '#1f2328',
  faint: '#59636e',
  grid: '#d9dee3',
  own: '#0969da',
  floor: '#1f2328',
  others: ['#bc4c00', '#1a7f37', '#8250df', '#bf3989', '#9a6700', '#cf222e', '#1b7c83', '#6e7781', '#3e1f79'],
}
const DARK = {
  page: '#0d1117',
  title: '#e6edf3',
  faint: '#9198a1',
  grid: '#2d333b',
  own: '#58a6ff',
  floor: '#e6edf3',
  others: ['#f0883e', '#3fb950', '#bc8cff', '#f778ba', '#d29922', '#ff7b72', '#56d4dd', '#8b949e', '#d2c6ff'],
}

/** @param {readonly Contest[]} contests */
export function chart(contests) {
  const drawn = panels(contests).map(panel)
  const rows = Math.max(1, Math.ceil(drawn.length / 2))
  const placed = drawn.map(
    (body, i) => `<g transform="translate(${(i % 2) * WIDTH} ${Math.floor(i / 2) * HEIGHT})">\n${body}\n</g>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * WIDTH} ${rows * HEIGHT}" role="img" aria-label="Growth curves">
<style>
${colours(LIGHT)}
@media (prefers-color-scheme: dark) {
${colours(DARK)}
}
text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; }
text.title { font-size: 15px; font-weight: 600; }
text.own { font-weight: 600; }
path { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
path.grid { stroke-width: 1; }
path.line.own { stroke-width: 3; }
path.line.floor { stroke-dasharray: 5 4; }
</style>
<rect class="page" width="100%" height="100%"/>
${placed.join('\n')}
</svg>
`
}

/** @param {typeof LIGHT} scheme */
function colours({ page, title, faint, grid, own, floor, others }) {
  const curves = { own, floor, ...Object.fromEntries(others.map((colour, i) => [`other${i}`, colour])) }
  return [
    `.page { fill: ${page}; } text { fill: ${faint}; } text.title { fill: ${title}; } path.grid { stroke: ${grid}; }`,
    ...Object.entries(curves).map(
      ([name, colour]) => `path.${name} { stroke: ${colour}; } circle.${name}, text.${name} { fill: ${colour}; }`,
    ),
  ].join('\n')
}

/** @param {Panel} panel */
function panel({ title, label, scale, curves }) {
  const points = curves.flatMap((curve) => curve.points)
  const across = points.map((point) => point.x)
  const x = axis(across, scale, EDGE.left, RIGHT)
  const y = axis(
    points.map((point) => point.median),
    scale,
    BOTTOM,
    EDGE.top,
  )
  const ends = spread(curves.map((curve) => y.of(curve.points.at(-1)?.median ?? 1)))
  const lines = curves.map((curve, i) => drawCurve(curve, classOf(curve.id, curves), x.of, y.of, ends[i] ?? 0))
  return [
    text('title', EDGE.left - 44, 24, 'start', title),
    text('', EDGE.left - 8, EDGE.top - 14, 'end', 'ms'),
    ...y.ticks.map((tick) => `<path class="grid" d="M${EDGE.left} ${at(y.of(tick))}H${RIGHT}"/>`),
    ...y.ticks.map((tick) => text('', EDGE.left - 8, y.of(tick) + 4, 'end', shortly(tick))),
    ...x.ticks.map((tick) => text('', x.of(tick), BOTTOM + 18, 'middle', shortly(tick))),
    text('', (EDGE.left + RIGHT) / 2, BOTTOM + 38, 'middle', label),
    ...lines.flat(),
  ].join('\n')
}

/**
 * @param {Curve} curve
 * @param {string} kind
 * @param {(value: number) => number} x
 * @param {(value: number) => number} y
 * @param {number} end where its name stands
 */
function drawCurve({ id, points }, kind, x, y, end) {
  const path = points.map((point) => `${at(x(point.x))} ${at(y(point.median))}`).join('L')
  const last = points.at(-1)
  const radius = kind === 'own' ? 4 : 2.5
  return [
    `<path class="line ${kind}" d="M${path}"/>`,
    ...points.map((point) => `<path class="${kind}" d="M${at(x(point.x))} ${at(y(point.low))}V${at(y(point.high))}"/>`),
    ...points.map(
      (point) => `<circle class="${kind}" cx="${at(x(point.x))}" cy="${at(y(point.median))}" r="${radius}"/>`,
    ),
    `<path class="grid" d="M${at(x(last?.x ?? 0) + 6)} ${at(y(last?.median ?? 1))}L${RIGHT + 14} ${at(end)}"/>`,
    text(kind, RIGHT + 18, end + 4, 'start', `${id} ${digits(last?.median ?? 0)}`),
  ]
}

/**
 * @param {string} kind
 * @param {number} x
 * @param {number} y
 * @param {'start' | 'middle' | 'end'} anchor
 * @param {string} content
 */
function text(kind, x, y, anchor, content) {
  const escaped = content.replace(/[&<>]/g, (character) => `&#${character.charCodeAt(0)};`)
  return `<text class="${kind}" x="${at(x)}" y="${at(y)}" text-anchor="${anchor}">${escaped}</text>`
}

/**
 * @param {string} id
 * @param {readonly Curve[]} curves
 */
function classOf(id, curves) {
  if (id === 'netsweep') return 'own'
  if (id.startsWith('floor')) return 'floor'
  const others = curves.map((curve) => curve.id).filter((other) => other !== 'netsweep' && !other.startsWith('floor'))
  return `other${others.indexOf(id) % LIGHT.others.length}`
}

/**
 * @param {readonly number[]} values
 * @param {Panel['scale']} scale
 * @param {number} from where the least goes, in pixels
 * @param {number} to
 */
function axis(values, scale, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)]
  return scale === 'linear' ? linearAxis(most, from, to) : logAxis(least, most, from, to)
}

/**
 * @param {number} most
 * @param {number} from
 * @param {number} to
 */
function linearAxis(most, from, to) {
  const step = roundStep(most / 5)
  const steps = Math.ceil(most / step - 1e-9)
  const ticks = Array.from({ length: steps + 1 }, (_, i) => i * step)
  const of = (/** @type {number} */ value) => from + ((to - from) * Math.max(0, value)) / (steps * step)
  return { ticks, of }
}

/**
 * @param {number} least
 * @param {number} most
 * @param {number} from
 * @param {number} to
 */
function logAxis(least, most, from, to) {
  const [low, high] = [Math.log10(least), Math.log10(most)]
  const margin = (high - low) * 0.03
  const of = (/** @type {number} */ value) =>
    from + ((to - from) * (Math.log10(value) - low + margin)) / (high - low + 2 * margin)
  const first = Math.floor(low)
  const decades = Array.from({ length: Math.ceil(high) - first + 1 }, (_, i) => 10 ** (first + i))
  const ticks = decades
    .flatMap((decade) => (high - low > 2 ? [decade] : [decade, 2 * decade, 5 * decade]))
    .filter((tick) => tick >= least * 0.99 && tick <= most * 1.01)
  return { ticks, of }
}

/** A step that people count in. @param {number} step */
function roundStep(step) {
  const decade = 10 ** Math.floor(Math.log10(step))
  return decade * ([1, 2, 5].find((factor) => factor * decade >= step) ?? 10)
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
  let highest = BOTTOM + 4
  for (const { i } of order.reverse()) {
    placed[i] = Math.min(placed[i] ?? 0, highest)
    highest = (placed[i] ?? 0) - LINE
  }
  return placed
}

/** @param {number} value */
const at = (value) => Number(value.toFixed(1))

/** @param {number} tick */
const shortly = (tick) => (tick >= 10_000 ? `${tick / 1000}k` : String(Number(tick.toPrecision(6))))
