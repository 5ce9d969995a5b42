/** Tables that read well as plain text and as Markdown. */
import { digits, isMet } from './figures.mjs'
import { summarize } from './statistics.mjs'

/**
 * @param {readonly string[]} head a column that begins with a space is aligned to the right
 * @param {readonly (readonly string[])[]} rows
 */
export function table(head, rows) {
  const titles = head.map((title) => title.trim())
  const widths = titles.map((title, i) => Math.max(title.length, 3, ...rows.map((row) => (row[i] ?? '').length)))
  const isRight = head.map((title) => title.startsWith(' '))
  const padded = (/** @type {string} */ cell, /** @type {number} */ i) =>
    isRight[i] ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0)
  const line = (/** @type {readonly string[]} */ cells) => `| ${cells.map(padded).join(' | ')} |`
  const rule = widths.map((width, i) => (isRight[i] ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width)))
  return [line(titles), line(rule), ...rows.map(line)].join('\n')
}

/** @param {readonly import('./figures.mjs').Figure[]} figures */
export function figureTable(figures) {
  const rows = figures.map((figure) => {
    const { what, to, it, that, measured, unit, limit } = figure
    const met = isMet(figure)
    const of = (/** @type {number} */ value) => `${digits(value)} ${unit}`.trim()
    const spread = measured.rounds > 1 ? `${digits(measured.low)} – ${digits(measured.high)}` : ''
    const verdict = met === null ? '' : met ? 'met' : 'missed'
    return [what, to, it, that, of(measured.median), spread, limit === null ? '' : `≤ ${of(limit)}`, verdict]
  })
  return table(['what', 'compared to', ' it', ' that', ' measured', ' quartiles', ' must be', ''], rows)
}

/** Everything that was measured. @param {readonly import('./lab.mjs').Contest[]} contests */
export function contestTable(contests) {
  const rows = contests.flatMap(({ name, size, unit, rounds }) =>
    Object.entries(rounds).map(([id, values]) => {
      const { median, low, high } = summarize(values)
      const others = `${size.links} / ${size.routes} / ${size.rules}`
      const own = `${size.workloads} of ${size.tenants}`
      return [
        name,
        others,
        own,
        id,
        `${digits(median)} ${unit}`,
        `${digits(low)} – ${digits(high)}`,
        `${values.length}`,
      ]
    }),
  )
  const head = ['measurement', ' links / routes / rules', ' workloads', 'who', ' median', ' quartiles', ' rounds']
  return table(head, rows)
}
