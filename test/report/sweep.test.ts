/** A pass as text: what was done, what was not and why, and what to type. */
import { expect, test } from 'vitest'
import type { ReconciledJson, ReconciledStep } from '../../src/node/reconciled.js'
import { styleOf } from '../../src/report/style.js'
import { brakedText, sweepText } from '../../src/report/sweep.js'

const plain = styleOf({}, {})
const terminal = styleOf({ isTTY: true }, { NO_COLOR: '1' })
const coloured = styleOf({ isTTY: true }, { TERM: 'xterm' })

const pass = (change: Partial<ReconciledJson>): ReconciledJson => ({
  ...{ subnet: '10.128.3.0/24', bridges: [], addresses: [], dryRun: false, complete: true, steps: [], notices: [] },
  elapsedMs: 41.7,
  ...change,
})

const route: ReconciledStep = {
  action: 'delete-route',
  object: 'route 10.128.3.9/32 dev yah0-91auqknbeu',
  reason: 'address 10.128.3.9 has no workload',
  command: 'ip route del 10.128.3.9/32 dev yah0-91auqknbeu proto boot scope link',
  outcome: 'removed',
}
const chain: ReconciledStep = {
  action: 'restore',
  object: 'nft mangle: chain yah-id-10.128.3.9',
  reason: "address 10.128.3.9 has no workload; kept: held by somebody else's rule: -A OUTPUT -j yah-id-10.128.3.9",
  command: 'iptables-nft -t mangle -X yah-id-10.128.3.9',
  outcome: 'kept',
}
const rules: ReconciledStep = {
  action: 'restore',
  object: 'nft raw: rules of yah0-91auqknbeu',
  reason: 'bridge yah0-91auqknbeu has no workload',
  command: 'iptables-nft -t raw -D PREROUTING -j DROP && iptables-nft -t raw -D PREROUTING -j DROP',
  outcome: 'failed',
  error: { code: 'BUSY', message: 'another app is holding the xtables lock' },
}
const mixed = pass({ complete: false, addresses: ['10.128.3.9'], steps: [route, chain, rules] })

const text = (of: Partial<ReconciledJson>, style = plain): string => sweepText(pass(of), '10.128.0.0/9', style)

test('nothing to do, and no subnet', () => {
  expect(text({})).toBe('nothing to sweep in 10.128.3.0/24 (42 ms)\n')
  expect(text({ subnet: null })).toBe('nothing to sweep: no bridge carries a gateway in 10.128.0.0/9 (42 ms)\n')
})

test.each([
  [['b'], ['a'], 'removed leftovers of 1 bridge and 1 address (1 step) in 42 ms\n'],
  [['b', 'c'], ['a', 'd', 'e'], 'removed leftovers of 2 bridges and 3 addresses (1 step) in 42 ms\n'],
  [['b'], [], 'removed leftovers of 1 bridge (1 step) in 42 ms\n'],
  [[], [], 'removed leftovers (1 step) in 42 ms\n'],
])('the summary counts %j and %j', (bridges, addresses, summary) => {
  expect(text({ bridges, addresses, steps: [route] }).split('(address 10.128.3.9 has no workload)\n')[1]).toBe(summary)
})

test('piped: one line for each step in its order, and under a failure what to type', () => {
  expect(sweepText(mixed, '10.128.0.0/9', plain)).toBe(
    [
      'removed  route 10.128.3.9/32 dev yah0-91auqknbeu  (address 10.128.3.9 has no workload)',
      `kept     nft mangle: chain yah-id-10.128.3.9  (${chain.reason})`,
      'failed   nft raw: rules of yah0-91auqknbeu: BUSY: another app is holding the xtables lock  (bridge yah0-91auqknbeu has no workload)',
      '           iptables-nft -t raw -D PREROUTING -j DROP && iptables-nft -t raw -D PREROUTING -j DROP',
      'incomplete: of 3 steps 1 failed, 1 kept; removed leftovers of 1 address (1 step) in 42 ms',
      '',
    ].join('\n'),
  )
})

test('on a terminal: by what the steps are there for, and why one was kept below it', () => {
  expect(sweepText(mixed, '10.128.0.0/9', terminal)).toBe(
    [
      'address 10.128.3.9 has no workload',
      '  removed  route 10.128.3.9/32 dev yah0-91auqknbeu',
      '  kept     nft mangle: chain yah-id-10.128.3.9',
      "           held by somebody else's rule: -A OUTPUT -j yah-id-10.128.3.9",
      'bridge yah0-91auqknbeu has no workload',
      '  failed   nft raw: rules of yah0-91auqknbeu: BUSY: another app is holding the xtables lock',
      '           iptables-nft -t raw -D PREROUTING -j DROP && iptables-nft -t raw -D PREROUTING -j DROP',
      'incomplete: of 3 steps 1 failed, 1 kept; removed leftovers of 1 address (1 step) in 42 ms',
      '',
    ].join('\n'),
  )
})

test('colours change nothing else, and only a terminal gets them', () => {
  const dressed = sweepText(mixed, '10.128.0.0/9', coloured)
  expect(dressed).toContain('\x1b[31mfailed \x1b[39m')
  const colours = [1, 2, 22, 31, 32, 33, 39].map((code) => `\x1b[${code}m`)
  expect(colours.reduce((text, colour) => text.replaceAll(colour, ''), dressed)).toBe(
    sweepText(mixed, '10.128.0.0/9', terminal),
  )
  for (const style of [plain, terminal, styleOf({ isTTY: true }, { TERM: 'dumb' })])
    expect(sweepText(mixed, '10.128.0.0/9', style)).not.toContain('\x1b')
})

test('a dry run says that nothing was changed, and when it would be incomplete', () => {
  const planned = { ...route, outcome: 'planned' as const }
  expect(text({ dryRun: true, addresses: ['10.128.3.9'], steps: [planned] })).toContain(
    '\nwould remove leftovers of 1 address (1 step); a dry run: nothing was changed\n',
  )
  expect(text({ dryRun: true, complete: false, steps: [chain] })).toContain(
    '\nincomplete: of 1 step 1 would be kept; nothing would be removed; a dry run: nothing was changed\n',
  )
})

test('nothing at all could be removed', () => {
  expect(text({ complete: false, steps: [rules] })).toMatch(
    /\nincomplete: of 1 step 1 failed; nothing was removed in 42 ms\n$/,
  )
})

test('notices have lines of their own, also when there is nothing to sweep', () => {
  const notices = [{ object: 'bridge yah0-vvvvvvvvvv', reason: 'foreign: port tap0' }]
  expect(text({ notices })).toBe(
    'notice   bridge yah0-vvvvvvvvvv  (foreign: port tap0)\nnothing to sweep in 10.128.3.0/24 (42 ms)\n',
  )
})

test('the brake: what was not done', () => {
  const braked = pass({ addresses: ['10.128.3.9'], steps: [{ ...route, outcome: 'planned' }] })
  expect(brakedText(braked, plain)).toBe(
    [
      'planned  route 10.128.3.9/32 dev yah0-91auqknbeu  (address 10.128.3.9 has no workload)',
      'nothing was removed: the pass would have removed leftovers of 1 address (1 step)',
      '',
    ].join('\n'),
  )
})
