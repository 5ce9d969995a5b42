/** Which /24 is the node's, and what a pass says that does not know it. */
import { describe, expect, test } from 'vitest'
import { ReadError } from '../../src/node/errors.js'
import { ContainerNet } from '../../src/node/net.js'
import { planWithoutSubnet, recoverSubnet } from '../../src/node/subnet-recovery.js'
import {
  ACME,
  address,
  addressLines,
  bridge,
  bridgeLines,
  bridgeRules,
  confirmed,
  GLOBEX,
  NOBODY,
  prohibit,
  proxy,
  reading,
  route,
  saved,
  view,
} from './views.js'

/** A bridge that carries just these. */
const carrying = (name: string, index: number, ...texts: string[]) =>
  bridge(name, index, [], { addresses: texts.map((text) => address(text, index)) })
const recovered = (...bridges: ReturnType<typeof bridge>[]) => {
  const subnet = recoverSubnet(view(reading(bridges)))
  return subnet === null ? null : String(subnet)
}

describe('a gateway decides', () => {
  test('the node bridge’s /24, a tenant bridge’s /32', () => {
    expect(recovered(carrying('yah0', 3, '10.128.3.1/24'))).toBe('10.128.3.0/24')
    expect(recovered(carrying(ACME, 4, '10.200.9.1/32'))).toBe('10.200.9.0/24')
    expect(recovered(carrying('yah0', 3, '10.128.3.1/24'), carrying(ACME, 4, '10.128.3.1/32'))).toBe('10.128.3.0/24')
  })

  test.each(['10.128.3.2/24', '10.128.3.1/25', '10.128.3.1/16', '10.127.3.1/24', '192.168.3.1/24', '10.128.3.0/24'])(
    '%s is none',
    (text) => {
      expect(recovered(carrying('yah0', 3, text))).toBeNull()
      expect(recovered(carrying('yah0', 3, text, '10.128.9.1/24'))).toBe('10.128.9.0/24')
    },
  )

  test('bridges without any', () => {
    expect(recovered()).toBeNull()
    expect(recovered(carrying('yah0', 3), carrying(ACME, 4))).toBeNull()
  })

  test('one that only the second reading saw', () => {
    const links = reading([carrying('yah0', 3)])
    expect(String(recoverSubnet(confirmed(view(links), reading([carrying('yah0', 3, '10.128.3.1/24')]))))).toBe(
      '10.128.3.0/24',
    )
  })

  test('another range', () => {
    const net = new ContainerNet({ range: '192.168.0.0/16' })
    const links = reading([carrying('yah0', 3, '10.128.3.1/24', '192.168.7.1/24')])
    expect(String(recoverSubnet(view(links, { net })))).toBe('192.168.7.0/24')
  })
})

describe('gateways of two /24s', () => {
  const two = [carrying('yah0', 3, '10.128.3.1/24'), carrying(ACME, 4, '10.128.4.1/32')]

  test('are an error that names both, and the option', () => {
    const recover = () => recoverSubnet(view(reading(two)))
    expect(recover).toThrow(ReadError)
    expect(recover).toThrow(
      expect.objectContaining({
        code: 'TWO_SUBNETS',
        message: `addresses of the bridges: gateways of two subnets: 10.128.3.0/24 on yah0 and 10.128.4.0/24 on ${ACME}`,
        hint: 'say which is meant with --subnet 10.128.3.0/24 or --subnet 10.128.4.0/24',
      }),
    )
  })

  test('on one bridge too, and when the second came in between', () => {
    expect(() => recovered(carrying('yah0', 3, '10.128.3.1/24', '10.128.4.1/24'))).toThrow(ReadError)
    const [node, tenant] = two
    const links = reading([node as ReturnType<typeof bridge>])
    expect(() => recoverSubnet(confirmed(view(links), reading([tenant as ReturnType<typeof bridge>])))).toThrow(
      ReadError,
    )
  })

  test('--subnet says which', () => {
    const net = new ContainerNet({ subnet: '10.128.4.0/24' })
    expect(String(recoverSubnet(view(reading(two), { net })))).toBe('10.128.4.0/24')
  })
})

describe('without a gateway nothing goes, and what would go is told with the --subnet that lets it', () => {
  const steps = (more: Parameters<typeof view>[1], ...bridges: ReturnType<typeof bridge>[]) => {
    const { steps, subnet } = planWithoutSubnet(view(reading(bridges), more))
    expect(subnet).toBeNull()
    for (const { held } of steps)
      expect(held).toMatch(/^no bridge carries a gateway in 10\.128\.0\.0\/9, so .*--subnet \S+\/24 lets it go$/)
    return steps.map(({ object, held }) => [object, /--subnet (\S+)/.exec(held ?? '')?.[1]])
  }
  const nft = (tables: Parameters<typeof saved>[0]) => ({ iptables: new Map([['nft' as const, saved(tables)]]) })

  test('a node that never had anything', () => {
    expect(steps({}, carrying('yah0', 3))).toEqual([])
    expect(steps({})).toEqual([])
  })

  test('the node bridge’s ACCEPTs and the NAT rule are no reason to speak', () => {
    const filter = ['-A FORWARD -i yah0 -j ACCEPT', '-A FORWARD -o yah0 -j ACCEPT']
    const nat = ['-A POSTROUTING -s 10.128.3.0/24 ! -d 10.128.3.0/24 -j MASQUERADE']
    expect(steps(nft({ filter, nat }), carrying('yah0', 3))).toEqual([])
  })

  test('a half-made tenant bridge', () => {
    expect(steps({}, carrying(ACME, 4))).toEqual([[`bridge ${ACME}`, '10.128.0.0/24']])
  })

  test.each([
    ['a route', { routes: [route('10.150.7.9', 4)] }, 'route 10.150.7.9/32'],
    ['a workload’s prohibit', { rules: [prohibit(1200, 'yah0', '10.150.7.9/32')] }, 'priority 1200'],
    ['a bridge’s prohibit', { rules: [prohibit(1202, NOBODY, '10.150.7.0/24')] }, 'priority 1202'],
    ['a proxy entry', { proxies: [proxy('10.150.7.9', 4)] }, 'proxy 10.150.7.9'],
    ['chains', nft({ mangle: addressLines('10.150.7.9', GLOBEX, 1) }), 'nft mangle: chains'],
  ])('%s of a /24 that nothing else tells', (_, more, object) => {
    expect(steps(more, carrying('yah0', 3), carrying(ACME, 4))).toContainEqual([
      expect.stringContaining(object),
      '10.150.7.0/24',
    ])
  })

  test('what names no /24 at all', () => {
    const found = steps({ rules: bridgeRules(NOBODY).slice(1), ...nft({ raw: bridgeLines(GLOBEX).raw }) })
    expect(found).toEqual([
      [`nft raw: rules of ${GLOBEX}`, '10.128.0.0/24'],
      [expect.stringContaining('priority 1204'), '10.128.0.0/24'],
    ])
  })

  test('of two /24s each with its own', () => {
    const rules = [prohibit(1200, 'yah0', '10.150.7.9/32'), prohibit(1200, 'yah0', '10.160.7.9/32')]
    expect(new Set(steps({ rules }).map(([, subnet]) => subnet))).toEqual(new Set(['10.150.7.0/24', '10.160.7.0/24']))
  })

  test('a live workload is nobody’s leftover', () => {
    const live = bridge(ACME, 4, [7], { addresses: [] })
    const { steps } = planWithoutSubnet(
      view(reading([live]), { routes: [route('10.150.7.7', 4)], ...nft(bridgeLines(ACME)) }),
    )
    expect(steps).toEqual([])
  })
})
