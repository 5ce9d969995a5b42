import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { UsageError } from '../../src/node/errors.js'
import { ContainerNet, type ContainerNetOptions } from '../../src/node/net.js'
import { Subnet } from '../../src/node/subnet.js'

/** The error that the options give. */
function refusal(options: ContainerNetOptions): UsageError {
  try {
    new ContainerNet(options)
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    return error as UsageError
  }
  throw new Error(`${JSON.stringify(options)} was taken`)
}

test('what it is when nothing is said', () => {
  const net = new ContainerNet()
  expect([net.bridge, net.range, net.subnet, net.singletonTenant]).toEqual(['yah0', '10.128.0.0/9', null, 'singleton'])
  expect([net.netns, net.iptables, net.timeoutMs]).toEqual([undefined, 'auto', 30_000])
})

describe('--bridge', () => {
  const refused: [string, RegExp][] = [
    ['', /no link name/],
    ['a'.repeat(16), /no link name/],
    ['yah 0', /no link name/],
    ['yah\t', /no link name/],
    ['yah\n', /no link name/],
    ['yah\0', /no link name/],
    ['yah\x7f', /no link name/],
    ['yäh0', /no link name/],
    ['a/b', /no link name/],
    ['a:b', /no link name/],
    ['.', /no link name/],
    ['..', /no link name/],
    ['-yah0', /option/],
    ['!yah0', /negation/],
    ['yah+', /every link/],
    ['+', /every link/],
    ['yah0-6jgfqfdnu6', /tenant bridge/],
    ['br-0123456789', /tenant bridge/],
    ['x-vvvvvvvvvv', /tenant bridge/],
  ]
  test.each(refused)('%j is refused', (bridge, reason) => {
    const error = refusal({ bridge })
    expect(error.option).toBe('--bridge')
    expect(error.message).toMatch(reason)
    expect(error.message).not.toContain('\n')
    expect(error.code).toBe('USAGE')
  })

  test.each([
    'y',
    'yah0',
    'a'.repeat(15),
    'yah+0',
    'yah!',
    'yah0-scratch',
    'yah0-zzzzzzzzzz',
    'yah00-012345678',
    '...',
  ])('%j is taken', (bridge) => {
    expect(new ContainerNet({ bridge }).bridge).toBe(bridge)
  })
})

describe('--range', () => {
  const bad = ['10.128.0.0', '10.128.0.0/7', '10.128.0.0/25', '10.128.0.0/33', '10.128.0.1/9', '10.0.0.0/08', '/9', '']
  test.each([...bad, '10.128.0.0/9/9', ' 10.128.0.0/9', '10.128.0.0/9 ', '010.128.0.0/9', '10.128/9', 'fd00::/9'])(
    '%j is refused',
    (range) => {
      expect(refusal({ range })).toMatchObject({ option: '--range', hint: 'write it as 10.128.0.0/9' })
    },
  )

  test.each(['10.0.0.0/8', '10.128.0.0/9', '192.168.7.0/24', '255.255.255.0/24'])('%j is taken', (range) => {
    expect(new ContainerNet({ range }).range).toBe(range)
  })
})

describe('--subnet', () => {
  const bad = ['10.128.3.0', '10.128.3.0/23', '10.128.3.0/25', '10.128.3.1/24', '10.127.3.0/24', '192.168.3.0/24', '']
  test.each([...bad, '10.128.03.0/24', '10.128.256.0/24', '10.128.3/24'])('%j is refused', (subnet) => {
    expect(refusal({ subnet })).toMatchObject({ option: '--subnet' })
  })

  test('one inside the range is taken', () => {
    expect(String(new ContainerNet({ subnet: '10.255.255.0/24' }).subnet)).toBe('10.255.255.0/24')
    expect(String(new ContainerNet({ range: '10.9.9.0/24', subnet: '10.9.9.0/24' }).subnet)).toBe('10.9.9.0/24')
  })
})

test('the others', () => {
  expect(refusal({ singletonTenant: '' }).option).toBe('--singleton-tenant')
  expect(refusal({ netns: '' }).option).toBe('--netns')
  expect(refusal({ netns: 'a\0b' }).option).toBe('--netns')
  for (const iptables of ['', 'nftables', 'NFT', 'both'])
    expect(refusal({ iptables } as object).option).toBe('--iptables')
  for (const timeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 31])
    expect(refusal({ timeoutMs }).option).toBe('--timeout')
})

describe('bridges of tenants', () => {
  const net = new ContainerNet()

  test('the names of docs/node-state.md', () => {
    expect(net.tenantBridge('acme')).toBe('yah0-6jgfqfdnu6')
    expect(net.tenantBridge('globex')).toBe('yah0-91auqknbeu')
    expect(net.tenantBridge('singleton')).toBe('yah0')
    expect(new ContainerNet({ singletonTenant: 'acme' }).tenantBridge('acme')).toBe('yah0')
  })

  test('which names are of their form', () => {
    expect(net.isTenantBridge('yah0-0123456789')).toBe(true)
    const others = ['yah0-scratch', 'yah0-0123456789a', 'yah0-012345678', 'yah0', 'yah0-zzzzzzzzzz', 'docker0']
    for (const name of [...others, 'yah1-0123456789', 'yah-0123456789', 'Yah0-0123456789', 'yah0-0123456789\n', ''])
      expect(net.isTenantBridge(name), name).toBe(false)
  })

  test('one node bridge is no prefix of another: yah0 and yah01 share theirs, br0 and br do not', () => {
    expect(new ContainerNet({ bridge: 'br' }).isTenantBridge('br0-0123456789')).toBe(false)
    expect(new ContainerNet({ bridge: 'br0' }).isTenantBridge('br-0123456789')).toBe(false)
    expect(new ContainerNet({ bridge: 'a.c1' }).isTenantBridge('abc1-0123456789')).toBe(false)
  })

  test('every tenant of any node bridge has a bridge of that form that fits a link name', () => {
    const names = fc.stringMatching(/^[a-z][a-z0-9]{0,14}$/)
    fc.assert(
      fc.property(names, fc.string({ unit: 'grapheme' }), (bridge, tenant) => {
        fc.pre(tenant !== 'singleton')
        const net = new ContainerNet({ bridge })
        const name = net.tenantBridge(tenant)
        expect(net.isTenantBridge(name)).toBe(true)
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(15)
      }),
    )
  })
})

describe("a node's /24 from its mesh address", () => {
  const net = new ContainerNet()

  test('the one of docs/node-state.md', () => {
    expect(String(net.subnetForMesh('100.64.0.3'))).toBe('10.128.3.0/24')
    expect(net.workloadAddress('100.64.0.3', 7)).toBe('10.128.3.7')
  })

  // Worked by hand: the offset in the pool, its lowest 24 - prefix bits, times 256 on top of the range's base.
  test.each([
    ['10.128.0.0/9', '100.64.0.0', '10.128.0.0/24'],
    ['10.128.0.0/9', '100.64.1.2', '10.129.2.0/24'],
    ['10.128.0.0/9', '100.64.127.255', '10.255.255.0/24'],
    // The 16th bit of the offset is beyond the 15 that a /9 leaves.
    ['10.128.0.0/9', '100.64.128.3', '10.128.3.0/24'],
    ['10.128.0.0/9', '100.127.255.255', '10.255.255.0/24'],
    ['10.0.0.0/8', '100.64.128.3', '10.128.3.0/24'],
    ['10.0.0.0/8', '100.65.0.3', '10.0.3.0/24'],
    ['172.16.0.0/12', '100.64.20.3', '172.20.3.0/24'],
    ['192.168.64.0/20', '100.64.0.17', '192.168.65.0/24'],
    ['192.168.7.0/24', '100.99.98.97', '192.168.7.0/24'],
  ])('in %s, %s has %s', (range, mesh, subnet) => {
    expect(String(new ContainerNet({ range }).subnetForMesh(mesh))).toBe(subnet)
  })

  test('an address outside the pool has none', () => {
    for (const mesh of [
      '100.63.255.255',
      '100.128.0.0',
      '10.128.3.1',
      '',
      '100.64.0',
      '100.64.0.03',
      '100.64.0.3/32',
    ]) {
      expect(net.subnetForMesh(mesh), mesh).toBeNull()
      expect(net.workloadAddress(mesh, 7)).toBeNull()
    }
  })

  test('an octet that no workload has gives no address', () => {
    for (const octet of [0, 1, 255, 256, -1, 2.5, Number.NaN])
      expect(net.workloadAddress('100.64.0.3', octet)).toBeNull()
  })

  test('is always inside the range', () => {
    const range = fc.tuple(fc.nat(2 ** 32 - 1), fc.integer({ min: 8, max: 24 })).map(([base, prefix]) => {
      const network = base - (base % 2 ** (32 - prefix))
      return `${[24, 16, 8, 0].map((shift) => Math.floor(network / 2 ** shift) % 256).join('.')}/${prefix}`
    })
    fc.assert(
      fc.property(range, fc.integer({ min: 64, max: 127 }), fc.nat(255), fc.nat(255), (range, b, c, d) => {
        const net = new ContainerNet({ range })
        const subnet = net.subnetForMesh(`100.${b}.${c}.${d}`)
        expect(subnet && net.inRange(subnet.address(0)) && net.inRange(subnet.address(255))).toBe(true)
        // The number of the node, counted another way.
        const index = (BigInt(b - 64) << 16n) + BigInt(c * 256 + d)
        const base = BigInt(
          `0x${range
            .split('/')[0]
            ?.split('.')
            .map((x) => Number(x).toString(16).padStart(2, '0'))
            .join('')}`,
        )
        const bits = 24n - BigInt(range.split('/')[1] ?? 0)
        expect(BigInt(subnet?.base ?? -1)).toBe(base + (index & ((1n << bits) - 1n)) * 256n)
      }),
    )
  })
})

test('the names of a workload', () => {
  const net = new ContainerNet()
  expect(net.workloadNames('prod/billing', '10.128.3.9')).toEqual({
    namespace: 'prod-billing',
    hostVeth: 'veth9',
    peerVeth: 'vethc9',
    identityChain: 'yah-id-10.128.3.9',
    grantChain: 'yah-gr-10.128.3.9',
  })
  for (const address of ['10.128.3.1', '10.128.3.0', '10.128.3.255', '10.127.3.9', '10.128.3.09', 'x'])
    expect(() => net.workloadNames('w', address)).toThrow(UsageError)
})

describe('the /24', () => {
  const subnet = Subnet.containing('10.128.3.77')

  test('its addresses', () => {
    expect([String(subnet), subnet.gateway, subnet.address(0), subnet.address(254)]).toEqual([
      '10.128.3.0/24',
      '10.128.3.1',
      '10.128.3.0',
      '10.128.3.254',
    ])
    expect(subnet.equals(Subnet.containing('10.128.3.0'))).toBe(true)
    expect(subnet.equals(Subnet.containing('10.128.4.0'))).toBe(false)
  })

  test('what lies in it', () => {
    for (const address of ['10.128.3.0', '10.128.3.1', '10.128.3.255']) expect(subnet.includes(address)).toBe(true)
    for (const address of ['10.128.2.255', '10.128.4.0', '10.128.3', '10.128.3.07', '', '10.128.3.7 '])
      expect(subnet.includes(address), address).toBe(false)
  })

  test('which are workloads', () => {
    expect([subnet.workloadOctet('10.128.3.2'), subnet.workloadOctet('10.128.3.254')]).toEqual([2, 254])
    for (const address of ['10.128.3.0', '10.128.3.1', '10.128.3.255', '10.128.4.7', '10.128.3.007', '10.128.3.7\n'])
      expect(subnet.workloadOctet(address), address).toBeNull()
  })

  test('of no address', () => {
    expect(() => Subnet.containing('10.128.3')).toThrow(RangeError)
  })

  test('the top of the address space', () => {
    expect(String(Subnet.containing('255.255.255.9'))).toBe('255.255.255.0/24')
    expect(Subnet.containing('255.255.255.9').workloadOctet('255.255.255.9')).toBe(9)
  })
})
