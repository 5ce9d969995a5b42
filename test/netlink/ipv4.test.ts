import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cidrContains, formatCidr, formatIpv4, parseCidr, parseIpv4 } from '../../src/kernel/ipv4.js'

test.each([
  ['0.0.0.0', 0],
  ['10.128.3.7', 0x0a800307],
  ['255.255.255.255', 0xffffffff],
])('%s', (text, number) => {
  expect(parseIpv4(text)).toBe(number)
  expect(formatIpv4(number)).toBe(text)
})

test.each([
  '',
  '1.2.3',
  '1.2.3.4.5',
  '1.2.3.',
  '01.2.3.4',
  '1.2.3.00',
  '1.2.3.256',
  '1.2.3.-4',
  '1.2.3.4\n',
  ' 1.2.3.4',
  '1.2.3.0x4',
  '1.2.3.٤',
  '1e1.2.3.4',
])('%j is no address', (text) => {
  expect(parseIpv4(text)).toBeNull()
})

test('every address is read back as it was written', () => {
  fc.assert(fc.property(fc.nat(0xffffffff), (address) => parseIpv4(formatIpv4(address)) === address))
})

test.each([
  ['0.0.0.0/0', 0, 0],
  ['10.128.0.0/9', 0x0a800000, 9],
  ['128.0.0.0/1', 0x80000000, 1],
  ['255.255.255.255/32', 0xffffffff, 32],
])('%s is canonical', (text, base, prefix) => {
  expect(parseCidr(text)).toEqual({ base, prefix })
  expect(formatCidr({ base, prefix })).toBe(text)
})

test.each([
  '10.128.0.0',
  '10.128.0.0/',
  '10.128.0.0/09',
  '10.128.0.0/33',
  '10.128.0.0/-1',
  '10.128.0.1/9',
  '0.0.0.1/0',
  '10.128.0.0/9/9',
  '10.128/9',
])('%j is no canonical network', (text) => {
  expect(parseCidr(text)).toBeNull()
})

test.each([
  ['10.128.0.0/9', '10.128.0.0', true],
  ['10.128.0.0/9', '10.255.255.255', true],
  ['10.128.0.0/9', '10.127.255.255', false],
  ['10.128.0.0/9', '11.0.0.0', false],
  ['0.0.0.0/0', '255.1.2.3', true],
  ['192.0.2.1/32', '192.0.2.1', true],
  ['192.0.2.1/32', '192.0.2.0', false],
])('%s contains %s: %s', (network, address, inside) => {
  const cidr = parseCidr(network)
  const number = parseIpv4(address)
  if (cidr === null || number === null) throw new Error('not a case')
  expect(cidrContains(cidr, number)).toBe(inside)
})
