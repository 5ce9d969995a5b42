/** Tables that read well as plain text and as Markdown. */
import { isMet } from './figures.mjs'
import { summarize } from './statistics.mjs'

/**
 * @param {readonly string[]} head a column that begins with a space is aligned to the right
 * @param {readonly (readonly string[])[]} rows
 */
export function table(head, rows) {
  const titles = head.map((title) => title.trim())
  const widths = titles.map((title, i) => Math.max(title.length, 3, ...rows.map((row) => (row[i] ?? '').length)))
  const isRight = head.map((title) => title.startsWith(' '))
  const line = (/** @type {readonly string[]} */ cells) =>
    `| ${cells.map((cell, i) => (isRight[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join(' | ')} |`
  const rule = widths.map((width, i) => (isRight[i] ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width)))
  return [line(titles), line(rule), ...rows.map(line)].join('\n')
}

/** Three digits that mean something. @param {number} value */
export function digits(value) {
  if (value === 0) return '0'
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  return value.toFixed(Math.min(places, 4))
}

/** @param {readonly import('./figures.mjs').Figure[]} figures */
export function figureTable(figures) {
  const verdict = (/** @type {boolean | null} */ met) => (met === null ? '' : met ? 'met' : 'missed')
  const rows = figures.map((figure) => {
    const { what, to, ratio, limit, medians, unit } = figure
    const [own = 0, other = 0] = medians
    const spread = `${digits(ratio.low)} – ${digits(ratio.high)}`
    const most = limit === null ? '' : `≤ ${digits(limit)}`
    return [
      what,
      to,
      `${digits(own)} ${unit}`,
      `${digits(other)} ${unit}`,
      digits(ratio.median),
      spread,
      most,
      verdict(isMet(figure)),
    ]
  })
  return table(['what', 'compared to', ' it', ' that', ' ratio', ' quartiles', ' must be', ''], rows)
}

/** Everything that was timed. @param {readonly import('./lab.mjs').Contest[]} contests */
export function contestTable(contests) {
  const rows = contests.flatMap(({ name, size, unit, rounds }) =>
    Object.entries(rounds).map(([id, values]) => {
      const { median, low, high } = summarize(values)
      const { links, routes, rules, workloads, tenants } = size
      const others = [links, routes, rules].join(' / ')
      return [
        name,
        others,
        `${workloads} of ${tenants}`,
        id,
        `${digits(median)} ${unit}`,
        `${digits(low)} – ${digits(high)}`,
        `${values.length}`,
      ]
    }),
  )
  return table(
    ['measurement', ' links / routes / rules', ' workloads', 'who', ' median', ' quartiles', ' rounds'],
    rows,
  )
}
