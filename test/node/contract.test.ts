/** Names and numbers, held against docs/node-state.md's own values and against the oracle, which shares no code with us. */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import {
  chainAddress,
  GENERATION_TAGS,
  GRANT_FILTER_PREF,
  GRANT_MARK,
  grantChain,
  grantFilterHandle,
  hostVethName,
  hostVethOctet,
  IDENTITY_MASK,
  identityChain,
  identityMark,
  isTenantDigits,
  isWorkloadOctet,
  MESH_POOL,
  MESH_PRIORITIES,
  namespaceName,
  peerVethName,
  REPLY_MARK,
  SUBNET_PRIORITIES,
  tenantBridgePrefix,
  tenantDigits,
  WORKLOAD_PRIORITY,
  workloadOctets,
} from '../../src/node/contract.js'

const ORACLE = fileURLToPath(new URL('../oracle/node.sh', import.meta.url))

/** What the oracle prints for each argument, in their order. */
function oracle(command: 'bridge-name' | 'identity-mark', args: readonly string[]): string[] {
  const printed = execFileSync('xargs', ['-0', '-n1', 'bash', ORACLE, command], {
    input: args.join('\0'),
    encoding: 'utf8',
    env: { PATH: process.env.PATH },
  })
  return printed.trimEnd().split('\n')
}

/** The same ids in every run: ASCII, other scripts, what a shell would trip over, and long ones. */
function ids(count: number): string[] {
  const alphabet = [...'abcxyz059-_/. $*"\'\\~`!', 'é', 'ß', '漢', '字', '🚀', 'и', '\u0301', '\u00a0', '\u{10ffff}']
  let state = 42
  const random = (below: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0
    return (state >>> 8) % below
  }
  return Array.from({ length: count }, () =>
    Array.from({ length: 1 + random(24) }, () => alphabet[random(alphabet.length)]).join(''),
  )
}

test('the marks of docs/node-state.md', () => {
  expect([GRANT_MARK, REPLY_MARK, IDENTITY_MASK]).toEqual([33_554_432, 16_777_216, 65_535])
  // Bits 16 to 23 belong to somebody else.
  expect((GRANT_MARK | REPLY_MARK | IDENTITY_MASK) & 0x00ff0000).toBe(0)
})

test('priorities, tags, the mesh pool, the pref of the filters', () => {
  expect(WORKLOAD_PRIORITY).toBe(1200)
  expect(SUBNET_PRIORITIES).toEqual([1201, 1202])
  expect(MESH_PRIORITIES).toEqual([1203, 1204])
  expect(GENERATION_TAGS).toEqual(['yah-isolation-a', 'yah-isolation-b'])
  expect(MESH_POOL).toBe('100.64.0.0/10')
  expect(GRANT_FILTER_PREF).toBe(895)
})

test('tenant digits: the two that are written down', () => {
  expect(tenantDigits('acme')).toBe('6jgfqfdnu6')
  expect(tenantDigits('globex')).toBe('91auqknbeu')
})

test('tenant digits agree with the oracle for any id', () => {
  const tenants = ['a', '0', 'initech', '漢字', 'é', 'e\u0301', ...ids(150)]
  expect(tenants.map((tenant) => `yah0-${tenantDigits(tenant)}`)).toEqual(oracle('bridge-name', tenants))
})

test('identity marks: the one that is written down, and the oracle for any other', () => {
  expect(identityMark('globex/prod/billing')).toBe(6249)
  const identities = ['acme/prod/api', '漢/字/é', ...ids(150)]
  expect(identities.map((identity) => String(identityMark(identity)))).toEqual(oracle('identity-mark', identities))
})

test('an identity mark is never 0, and fits its mask', () => {
  for (const id of ids(2000)) {
    const mark = identityMark(id)
    expect(mark).toBeGreaterThanOrEqual(1)
    expect(mark & ~IDENTITY_MASK).toBe(0)
  }
})

test('which texts are tenant digits', () => {
  for (const yes of ['0123456789', 'abcdefghij', 'klmnopqrst', 'uvuvuvuvuv', '0000000000', 'vvvvvvvvvv'])
    expect(isTenantDigits(yes), yes).toBe(true)
  const no = ['012345678', '0123456789a', 'zzzzzzzzzz', '012345678w', '012345678V', 'scratch', '', '0123 56789']
  for (const text of [...no, '0123456789\n', '\n0123456789', '٠١٢٣٤٥٦٧٨٩'])
    expect(isTenantDigits(text), text).toBe(false)
})

test('the prefix of tenant bridges is at most four characters of the node bridge', () => {
  expect(tenantBridgePrefix('yah0')).toBe('yah0-')
  expect(tenantBridgePrefix('containers0')).toBe('cont-')
  expect(tenantBridgePrefix('br')).toBe('br-')
})

test('octets of workloads are 2 to 254', () => {
  const octets = workloadOctets()
  expect([octets[0], octets.at(-1), octets.length, new Set(octets).size]).toEqual([2, 254, 253, 253])
  for (const octet of [-1, 0, 1, 255, 256, 2.5, Number.NaN, Number.POSITIVE_INFINITY])
    expect(isWorkloadOctet(octet), String(octet)).toBe(false)
})

test('host veths', () => {
  expect([hostVethName(7), peerVethName(7)]).toEqual(['veth7', 'vethc7'])
  for (const octet of workloadOctets()) expect(hostVethOctet(`veth${octet}`)).toBe(octet)
  const others = ['veth0', 'veth1', 'veth255', 'veth256', 'veth999', 'veth1000', 'veth07', 'veth007', 'veth', 'vethc7']
  const lookAlikes = ['veth1a2b3c4', 'veth7a', 'xveth7', 'Veth7', 'veth 7', 'veth-7', 'veth+7', 'veth7.0', 'veth7\n']
  for (const name of [...others, ...lookAlikes, 'veth٧', 'eth7', '']) expect(hostVethOctet(name), name).toBeNull()
})

test('chains of an address', () => {
  expect(identityChain('10.128.3.9')).toBe('yah-id-10.128.3.9')
  expect(grantChain('10.128.3.9')).toBe('yah-gr-10.128.3.9')
  expect(chainAddress('yah-id-10.128.3.9')).toBe('10.128.3.9')
  expect(chainAddress('yah-gr-10.128.3.9')).toBe('10.128.3.9')
  for (const name of ['yah-id-', 'yah-xx-10.128.3.9', 'Xyah-id-10.128.3.9', 'YAH-ID-10.128.3.9', 'PREROUTING'])
    expect(chainAddress(name), name).toBeNull()
})

test('names of namespaces', () => {
  expect(namespaceName('billing')).toBe('billing')
  expect(namespaceName('prod/billing.v2')).toBe('prod-billing-v2')
  expect(namespaceName('../../etc')).toBe('------etc')
  expect(namespaceName('a_b-C9')).toBe('a_b-C9')
  expect(namespaceName('')).toBe('workload')
  expect(namespaceName('x'.repeat(61))).toBe('x'.repeat(60))
  expect(namespaceName('漢'.repeat(70))).toMatch(/^-{60}$/)
})

test('the handle of a filter is sender, then target', () => {
  expect(grantFilterHandle(9, 7)).toBe(0x907)
  expect(grantFilterHandle(254, 2)).toBe(0xfe02)
})
