/** What the benchmark shows. */
import { expect, test } from 'vitest'
import { chart, panels, spread } from '../../bench/chart.mjs'
import { digits } from '../../bench/figures.mjs'
import { withReport } from '../../bench/report.mjs'
import { table } from '../../bench/table.mjs'
import { runProcess } from '../support/process.js'

const SIZE = { links: 100, routes: 0, rules: 0, workloads: 100, tenants: 25 }

function grown(links: number, rounds: Record<string, number[]>) {
  return { name: 'idle', along: 'links' as const, size: { ...SIZE, links }, unit: 'ms' as const, rounds }
}

const CONTESTS = [
  grown(100, { netsweep: [3, 1, 2], 'floor targeted': [1], oracle: [300] }),
  grown(10_000, { netsweep: [20], 'floor targeted': [10], oracle: [700] }),
]

test('a table is as wide as its cells', () => {
  expect(
    table(
      ['what', ' ms'],
      [
        ['one', '1.5'],
        ['another', '10'],
      ],
    ),
  ).toBe(['| what    |  ms |', '| ------- | --: |', '| one     | 1.5 |', '| another |  10 |'].join('\n'))
})

test('numbers keep three digits', () => {
  expect([123.4, 12.34, 1.234, 0.1234, 0.012345, 0].map(digits)).toEqual([
    '123',
    '12.3',
    '1.23',
    '0.123',
    '0.0123',
    '0',
  ])
})

test('a curve goes through the medians of its contests', () => {
  const [panel, ...others] = panels(CONTESTS)
  expect(others).toEqual([])
  expect(panel?.curves.map(({ id }) => id)).toEqual(['netsweep', 'floor targeted', 'oracle'])
  expect(panel?.curves[0]?.points).toMatchObject([
    { x: 100, median: 2, low: 1.5, high: 2.5 },
    { x: 10_000, median: 20 },
  ])
})

test('the chart is XML, with a path and a label for every curve', async () => {
  const count = `
import sys, xml.etree.ElementTree as tree
svg = tree.fromstring(sys.stdin.read())
print(len(svg.findall('.//{*}circle')), *[text.text for text in svg.findall('.//{*}text')], sep='\\n')`
  const { status, stdout, stderr } = await runProcess('python3', ['-c', count], { input: chart(CONTESTS) })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const [circles, ...texts] = stdout.trim().split('\n')
  expect(circles).toBe('6')
  expect(texts).toEqual(expect.arrayContaining(['netsweep 20.0', 'floor targeted 10.0', 'oracle 700']))
})

test('what names a curve is text, whatever is in it', () => {
  const odd = (links: number) => ({ ...grown(links, { 'a <b> & c': [links] }), name: 'links' })
  expect(chart([odd(1), odd(10)])).toContain('a &#60;b&#62; &#38; c 10.0<')
})

test('labels do not cover each other', () => {
  const placed = spread([100, 101, 99, 291, 292, 293])
  const sorted = [...placed].sort((a, b) => a - b)
  for (const [i, y] of sorted.entries()) if (i > 0) expect(y - (sorted[i - 1] ?? 0)).toBeGreaterThanOrEqual(14)
  expect(sorted.at(-1)).toBeLessThanOrEqual(296)
})

test('a report takes the place of the one before it', () => {
  const readme = `# A\n\n<!-- The reference run, as \`npm run bench -- report\` writes it. -->\nold\n<!-- Its end. -->\nrest\n`
  const once = withReport(readme, 'new')
  expect(once).toContain('writes it. -->\n\nnew\n\n<!-- Its end. -->\nrest\n')
  expect(withReport(once, 'new')).toBe(once)
  expect(() => withReport('# A\n', 'new')).toThrow('has lost its place')
})
