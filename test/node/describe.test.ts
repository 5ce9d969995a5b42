/** Kernel objects in the words of ip, tc and iptables; that these tools take them is tried in test/kernel. */
import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { describeFilter, describeRoute, describeRule, iptablesCommand, shellQuote } from '../../src/node/describe.js'
import { filter, GLOBEX, prohibit, route } from './views.js'

test('our own rules, as interface.md shows one', () => {
  expect(describeRule(prohibit(1202, GLOBEX, '10.128.3.0/24'))).toBe(
    'priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  )
  expect(describeRule(prohibit(1200, 'yah0', '10.128.3.9/32'))).toBe(
    'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
  )
})

test('everything that somebody else’s rule may have', () => {
  const any = prohibit(5, '', '0.0.0.0/0', { mask: 0 })
  const described = (more: Parameters<typeof prohibit>[3]) => describeRule({ ...any, ...more })
  expect(described({ action: 'table', table: 100 })).toBe('priority 5 lookup 100')
  expect(described({ invert: true, source: '10.0.0.0', sourcePrefix: 8 })).toBe(
    'not priority 5 from 10.0.0.0/8 prohibit',
  )
  expect(described({ oif: 'eth0', tos: 16 })).toBe('priority 5 oif eth0 tos 0x10 prohibit')
  expect(described({ mark: 0x10, mask: 0xff })).toBe('priority 5 fwmark 0x10/0xff prohibit')
  expect(described({ uidRange: { start: 0, end: 9 }, ipProtocol: 6 })).toBe(
    'priority 5 uidrange 0-9 ipproto 6 prohibit',
  )
  expect(described({ sourcePorts: { start: 1, end: 2 }, destinationPorts: { start: 22, end: 22 } })).toBe(
    'priority 5 sport 1-2 dport 22-22 prohibit',
  )
  expect(described({ tunnelId: 77n, l3mdev: true, protocol: 4 })).toBe(
    'priority 5 tun_id 77 l3mdev protocol static prohibit',
  )
  expect(described({ action: 'table', table: 254, suppressPrefixLength: 0, suppressGroup: 3 })).toBe(
    'priority 5 suppress_prefixlength 0 suppress_ifgroup 3 lookup 254',
  )
  expect(described({ realms: 0x10002 })).toBe('priority 5 realms 1/2 prohibit')
})

test('routes', () => {
  expect(describeRoute(route('10.128.3.9', 4), GLOBEX)).toBe(`10.128.3.9/32 dev ${GLOBEX} proto boot scope link`)
  const more = { gateway: '10.0.0.1', metric: 100, tos: 16, preferredSource: '10.0.0.2', scope: 0, protocol: 186 }
  expect(describeRoute(route('10.128.3.9', 4, more), 'eth0')).toBe(
    '10.128.3.9/32 tos 0x10 via 10.0.0.1 dev eth0 proto 186 src 10.0.0.2 metric 100',
  )
})

test('filters', () => {
  expect(describeFilter(filter(4, '10.128.3.9', '10.128.3.7'), GLOBEX)).toBe(
    'dev yah0-91auqknbeu ingress protocol arp pref 895 handle 0x907 flower',
  )
})

test('a command for iptables is quoted for a shell', () => {
  const words = ['-D', 'FORWARD', '!', '-i', 'eth0', '-m', 'comment', '--comment', 'it\'s "a" $HOME `x`', '-j', 'DROP']
  const command = iptablesCommand('legacy', 'filter', words)
  expect(command).toMatch(/^iptables-legacy -t filter -D FORWARD '!' -i eth0 /)
  const script = `${command.replace('iptables-legacy', 'set --')}; printf '%s\\0' "$@"`
  const printed = execFileSync('sh', ['-c', script])
  expect(printed.toString().split('\0').slice(0, -1)).toEqual(['-t', 'filter', ...words])
})

test('any text comes back from a shell as it was', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 20 }).filter((text) => !text.includes('\0'))
  const texts = fc.sample(text, { numRuns: 200, seed: 7 })
  const script = `printf '%s\\0' ${texts.map(shellQuote).join(' ')}`
  expect(execFileSync('sh', ['-c', script]).toString().split('\0').slice(0, -1)).toEqual(texts)
})
