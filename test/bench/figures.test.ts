/** What the benchmark makes of what it took. */
import { expect, test } from 'vitest'
import { alternate } from '../../bench/alternate.mjs'
import { figures, isMet } from '../../bench/figures.mjs'
import { latenesses, waits } from '../../bench/stalls.mjs'
import { median, quantile, ratios } from '../../bench/statistics.mjs'

const SIZE = { links: 10_000, routes: 0, rules: 0, workloads: 100, tenants: 25 }

function contest(name: string, rounds: Record<string, number[]>, size = {}, along: 'links' | 'rules' | null = null) {
  return { name, along, size: { ...SIZE, ...size }, unit: 'ms' as const, rounds }
}

test('quantiles lie between the values', () => {
  expect(median([3, 1, 2])).toBe(2)
  expect(median([4, 1, 2, 3])).toBe(2.5)
  expect(quantile([5, 1, 2, 3, 4], 0.25)).toBe(2)
  expect(quantile([1, 2], 0.75)).toBe(1.75)
  expect(() => median([])).toThrow('nothing')
})

test('ratios are of the same round, as many as both have', () => {
  expect(ratios([10, 40, 90], [10, 20])).toEqual([1, 2])
})

test('everybody has turns, in alternating order, warm-ups apart', async () => {
  const turns: string[] = []
  const entry = (id: string, more = {}) => ({
    id,
    ...more,
    async round() {
      turns.push(id)
      return turns.length
    },
  })
  const taken = await alternate([entry('a', { warmUps: 2 }), entry('b', { rounds: 1 }), entry('c')], 3)
  expect(turns.join('')).toBe(`aabc${'abc'}${'ca'}${'ac'}`)
  expect(taken).toEqual({ a: [5, 9, 10], b: [6], c: [7, 8, 11] })
})

test('what comes before and behind a round is not in it, and ends everything when it fails', async () => {
  const done: string[] = []
  const entry = {
    id: 'a',
    before: async () => void done.push('before'),
    round: async () => done.push('round'),
    after: async () => {
      throw new Error('the wrong state')
    },
  }
  await expect(alternate([entry], 1)).rejects.toThrow('the wrong state')
  expect(done).toEqual(['before', 'round'])
})

test('a figure is met when the median of its ratios is', () => {
  const needs = contest('needs', {
    netsweep: [10, 20, 30],
    'floor targeted': [10, 5, 15],
    'floor dump_links': [100, 200, 300],
  })
  const found = figures([needs])
  expect(found.map(({ to, measured, limit }) => [to, measured.median, limit])).toEqual([
    ["the floor's targeted", 2, 2],
    ["the floor's dump_links", 0.1, 0.2],
  ])
  expect(found.map(isMet)).toEqual([true, true])
  const slower = contest('needs', { ...needs.rounds, netsweep: [10, 20, 31] })
  expect(figures([slower]).map(isMet)).toEqual([false, true])
})

test('what is compared to two things is compared to their sum; what was not measured is left out', () => {
  const idle = contest('idle', { netsweep: [30, 30], 'floor targeted': [5, 5], 'iptables-save': [15, 5] })
  const [only, ...others] = figures([idle])
  expect(only?.measured).toMatchObject({ median: 2.25, rounds: 2 })
  expect(others).toEqual([])
})

test('every peer must be overtaken, but the floor', () => {
  const rounds = { netsweep: [10], 'floor dump_links': [8], 'Go vishvananda/netlink': [20], 'Rust rtnetlink': [9] }
  expect(figures([contest('links', rounds)]).map((figure) => [figure.to, isMet(figure)])).toEqual([
    ["the floor's dump_links", true],
    ['Go vishvananda/netlink', true],
    ['Rust rtnetlink', false],
  ])
})

test('growth is what is added, on the node that grew', () => {
  const at = (rules: number, netsweep: number[], save: number[]) =>
    contest('idle', { netsweep, 'iptables-save': save }, { rules }, 'rules')
  const [grown] = figures([at(0, [40, 42], [19, 21]), at(1000, [45, 47], [24, 24]), at(20_000, [121, 131], [100, 110])])
  expect(grown?.what).toBe('what an idle pass grows by from 0 to 20,000 other rules')
  // From the medians of the first: 80 to 80, and 90 to 90.
  expect(grown?.measured).toMatchObject({ median: 1, low: 1, high: 1 })
  expect(figures([at(0, [40], [20])])).toEqual([])
})

test('a stall is counted once, or for every tick that it swallowed', () => {
  expect(latenesses([0.9, 1.5, 4])).toEqual([0, 0.5, 3])
  expect(waits([3, 0.5])).toEqual([3, 2, 1, 0, 0.5])
})

test('the longest stall is held to twice that of a process which runs iptables-save for as long; the rest is told', () => {
  const rounds = { idle: [4, 6, 8], 'iptables-save as long as idle': [2, 2, 2], 'iptables-save once': [1, 1, 1] }
  const found = figures([contest('longest stall', rounds), contest('longest stall with a processor', rounds)])
  expect(found.map(({ what, to, measured, limit }) => [what, to, measured.median, limit])).toEqual([
    ['the longest stall: idle, beside 10,000 links', 'iptables-save for as long', 3, 2],
    ['the longest stall: idle, beside 10,000 links', 'iptables-save once', 6, null],
    ['the same without waits for a processor: idle, beside 10,000 links', 'iptables-save for as long', 3, null],
  ])
})
