/** What of iptables is ours, read from what iptables-save prints. */
import { describe, expect, test } from 'vitest'
import { splitWords } from '../../src/kernel/iptables/words.js'
import { ContainerNet } from '../../src/node/net.js'
import { type OwnTables, ownTables, subnetsNamed, tenantBridgesNamed } from '../../src/node/tables.js'
import {
  ACME,
  addressLines,
  admitLines,
  BILLING_MARK,
  bridgeLines,
  GLOBEX,
  NET,
  NOBODY,
  SUBNET,
  saved,
} from './views.js'

type Tables = Readonly<Record<string, readonly string[]>>

const own = (tables: Tables, net = NET): OwnTables => ownTables(new Map([['nft' as const, saved(tables)]]), net, SUBNET)

/** `raw yah0-…`, `mangle null`: table and bridge of each rule that is ours. */
const named = ({ rules }: OwnTables): string[] => rules.map(({ table, bridge }) => `${table} ${bridge}`)

describe('rules of a bridge', () => {
  test('all nine of each generation, the ACCEPTs, and the one that names no bridge', () => {
    const { raw, mangle, filter } = bridgeLines(GLOBEX)
    const expected = [`raw ${GLOBEX}`, 'mangle null', `mangle ${GLOBEX}`, ...Array(7).fill(`filter ${GLOBEX}`)]
    expect(named(own({ raw, mangle, filter })).sort()).toEqual(expected.sort())
    const older = bridgeLines(GLOBEX, 'yah-isolation-a')
    expect(named(own(older)).sort()).toEqual(expected.sort())
  })

  test('every copy', () => {
    const { raw } = bridgeLines(GLOBEX)
    expect(named(own({ raw: [...raw, ...raw, ...raw] }))).toEqual(Array(3).fill(`raw ${GLOBEX}`))
  })

  test('as another iptables would print the same', () => {
    const line = `-A FORWARD ! -o ${GLOBEX} -i ${GLOBEX} -m comment --comment "yah-isolation-b" -m mark ! --mark 33554432/33554432 -d 10.128.3.0/255.255.255.0 -j DROP`
    expect(named(own({ filter: [line] }))).toEqual([`filter ${GLOBEX}`])
  })

  test('those of a bridge that does not exist, and of several, each its own', () => {
    const tables = { raw: [GLOBEX, NOBODY, ACME].flatMap((bridge) => bridgeLines(bridge).raw) }
    expect(named(own(tables))).toEqual([`raw ${GLOBEX}`, `raw ${NOBODY}`, `raw ${ACME}`])
  })

  test('the node bridge has none', () => {
    expect(named(own({ filter: ['-A FORWARD -i yah0 -j ACCEPT', '-A FORWARD -o yah0 -j ACCEPT'] }))).toEqual([])
  })

  const comment = '-m comment --comment yah-isolation-b'
  const lookAlikes: [string, Tables][] = [
    ['another chain', { raw: [`-A OUTPUT -i ${GLOBEX} -m rpfilter --invert ${comment} -j DROP`] }],
    ['another table', { mangle: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert ${comment} -j DROP`] }],
    ['a table of nat', { nat: [`-A PREROUTING -i ${GLOBEX} ${comment} -j ACCEPT`] }],
    ['another target', { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert ${comment} -j ACCEPT`] }],
    ['no tag', { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert -j DROP`] }],
    [
      'a third generation',
      { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert ${comment.replace(/b$/, 'c')} -j DROP`] },
    ],
    [
      'a longer tag',
      { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert -m comment --comment "yah-isolation-b " -j DROP`] },
    ],
    ['two tags', { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter --invert ${comment} ${comment} -j DROP`] }],
    ['an added match', { raw: [`-A PREROUTING -s 10.0.0.0/8 -i ${GLOBEX} -m rpfilter --invert ${comment} -j DROP`] }],
    ['a missing match', { raw: [`-A PREROUTING -i ${GLOBEX} -m rpfilter ${comment} -j DROP`] }],
    ['a negation', { raw: [`-A PREROUTING ! -i ${GLOBEX} -m rpfilter --invert ${comment} -j DROP`] }],
    ['a name that goes on', { raw: [`-A PREROUTING -i ${GLOBEX}+ -m rpfilter --invert ${comment} -j DROP`] }],
    ['a name of another form', { raw: [`-A PREROUTING -i yah0-scratch -m rpfilter --invert ${comment} -j DROP`] }],
    [
      'another node bridge',
      { filter: [`-A FORWARD -i yah1 -o ${GLOBEX} -m mark ! --mark 0x2000000/0x2000000 ${comment} -j DROP`] },
    ],
    [
      'another subnet',
      {
        filter: bridgeLines(GLOBEX)
          .filter.filter((line) => line.includes('10.128.3.0'))
          .map((line) => line.replace('10.128.3.0', '10.128.4.0')),
      },
    ],
    [
      'another mark',
      { filter: [`-A FORWARD -i yah0 -o ${GLOBEX} -m mark ! --mark 0x2000000/0x3000000 ${comment} -j DROP`] },
    ],
    [
      'two bridges',
      {
        filter: [
          `-A FORWARD -d 10.128.3.0/24 -i ${GLOBEX} ! -o ${ACME} -m mark ! --mark 0x2000000/0x2000000 ${comment} -j DROP`,
        ],
      },
    ],
    [
      'a mesh mark of another subnet',
      {
        mangle: [`-A PREROUTING -s 100.64.0.0/10 -d 10.128.4.0/24 ${comment} -j MARK --set-xmark 0x1000000/0x1000000`],
      },
    ],
    [
      'a mesh mark of another value',
      {
        mangle: [`-A PREROUTING -s 100.64.0.0/10 -d 10.128.3.0/24 ${comment} -j MARK --set-xmark 0x2000000/0x1000000`],
      },
    ],
    [
      'an ACCEPT with more to it',
      { filter: [`-A FORWARD -i ${GLOBEX} -p tcp -j ACCEPT`, `-A FORWARD -i ${GLOBEX} -o eth0 -j ACCEPT`] },
    ],
    ['an ACCEPT with a comment', { filter: [`-A FORWARD -i ${GLOBEX} -m comment --comment x -j ACCEPT`] }],
    ['an ACCEPT of INPUT', { filter: [`-A INPUT -i ${GLOBEX} -j ACCEPT`] }],
    ['an ACCEPT that drops', { filter: [`-A FORWARD -i ${GLOBEX} -j DROP`, `-A FORWARD -i ${GLOBEX} -g ACCEPT`] }],
    ['an ACCEPT of all but it', { filter: [`-A FORWARD ! -i ${GLOBEX} -j ACCEPT`] }],
    [
      'a rule inside a comment',
      { filter: [`-A FORWARD -s 9.9.9.9/32 -m comment --comment "-i ${GLOBEX} -j ACCEPT" -j DROP`] },
    ],
    [
      'lines inside a comment',
      { filter: [`-A FORWARD -s 9.9.9.9/32 -m comment --comment "\n-A FORWARD -i ${GLOBEX} -j ACCEPT\n" -j DROP`] },
    ],
    [
      'quotes inside a comment',
      {
        raw: [
          `-A PREROUTING -m comment --comment "\\" -i ${GLOBEX} -m rpfilter --invert ${comment} -j DROP \\"" -j DROP`,
        ],
      },
    ],
    [
      'a bridge for a comment',
      { filter: [`-A FORWARD -s 10.128.3.0/24 -m comment --comment ${GLOBEX} ${comment} -j DROP`] },
    ],
    ['four words that are none', { filter: [`-A FORWARD -m mark -j ${GLOBEX}`] }],
  ]
  test.each(lookAlikes)('not ours: %s', (_, tables) => {
    expect(own(tables)).toEqual({ chains: [], rules: [] })
  })

  test('the node bridge decides what the others are called', () => {
    const net = new ContainerNet({ bridge: 'containers0' })
    const tables = bridgeLines('cont-91auqknbeu')
    const filter = tables.filter.map((line) => line.replace('-i yah0 ', '-i containers0 '))
    expect(named(own({ ...tables, filter }, net))).toHaveLength(10)
    expect(named(own({ ...tables, filter }))).toEqual(['mangle null'])
  })
})

describe('chains of an address', () => {
  test('a workload that admits nobody', () => {
    const { chains } = own({ mangle: addressLines('10.128.3.9', GLOBEX, BILLING_MARK) })
    expect(chains).toHaveLength(1)
    const [found] = chains
    expect(found).toMatchObject({ backend: 'nft', address: '10.128.3.9', admitted: [] })
    expect(found?.chains.map(({ name, rules }) => [name, rules.length])).toEqual([
      ['yah-id-10.128.3.9', 1],
      ['yah-gr-10.128.3.9', 0],
    ])
    expect(found?.identities).toEqual([{ bridge: GLOBEX, mark: 6249 }])
    expect(found?.jumps.map(({ words }) => words.join(' '))).toEqual(['-s 10.128.3.9/32 -j yah-id-10.128.3.9'])
    expect(found?.holders.size).toBe(0)
  })

  test('one that admits a peer: the peer, and the jumps both ways', () => {
    const admits = admitLines('10.128.3.7', ACME, GLOBEX, BILLING_MARK)
    const { chains } = own({ mangle: addressLines('10.128.3.7', ACME, 77, admits) })
    expect(chains[0]?.admitted).toEqual([{ bridge: GLOBEX, mark: 6249 }])
    expect(chains[0]?.identities).toEqual([{ bridge: ACME, mark: 77 }])
    expect(chains[0]?.jumps).toHaveLength(3)
  })

  test('chains that are declared and empty, and one without the other', () => {
    const { chains } = own({ mangle: [':yah-gr-10.128.3.9 - [0:0]', ':yah-id-10.128.3.254 - [0:0]'] })
    expect(chains.map(({ address, chains }) => [address, chains[0]?.name])).toEqual([
      ['10.128.3.9', 'yah-gr-10.128.3.9'],
      ['10.128.3.254', 'yah-id-10.128.3.254'],
    ])
  })

  test('names that are not exactly of the form', () => {
    const names = ['yah-id-10.128.3.1', 'yah-id-10.128.3.0', 'yah-id-10.128.3.255', 'yah-id-10.128.4.9', 'yah-id-']
    const more = [
      'yah-id-10.128.3.09',
      'yah-id-10.128.3.9x',
      'yah-idx-10.128.3.9',
      'Yah-id-10.128.3.9',
      'yah-id-10.128.3',
    ]
    expect(own({ mangle: [...names, ...more].map((name) => `:${name} - [0:0]`) }).chains).toEqual([])
  })

  test('the same names in another table are not ours', () => {
    expect(own({ filter: [':yah-id-10.128.3.9 - [0:0]'], raw: [':yah-gr-10.128.3.9 - [0:0]'] }).chains).toEqual([])
  })

  test.each([
    ['from another chain', '-A FORWARD -s 10.128.3.9/32 -j yah-id-10.128.3.9'],
    ['with another selector', '-A PREROUTING -s 10.128.3.8/32 -j yah-id-10.128.3.9'],
    ['with the selector of the other chain', '-A PREROUTING -d 10.128.3.9/32 -j yah-id-10.128.3.9'],
    ['with more to it', '-A PREROUTING -s 10.128.3.9/32 -p tcp -j yah-id-10.128.3.9'],
    ['with a comment', '-A PREROUTING -s 10.128.3.9/32 -m comment --comment x -j yah-id-10.128.3.9'],
    ['without return', '-A PREROUTING -s 10.128.3.9/32 -g yah-id-10.128.3.9'],
    ['of all but it', '-A PREROUTING ! -s 10.128.3.9/32 -j yah-id-10.128.3.9'],
    ['of everybody', '-A PREROUTING -j yah-id-10.128.3.9'],
  ])('a jump %s is somebody else’s, and holds the chain', (_, line) => {
    const { chains } = own({ mangle: [...addressLines('10.128.3.9', GLOBEX, 1), line] })
    expect(chains[0]?.jumps).toHaveLength(1)
    const holders = [...(chains[0]?.holders ?? [])]
    expect(holders.map(([chain, rules]) => [chain, rules.map(({ words }) => words.join(' '))])).toEqual([
      ['yah-id-10.128.3.9', [line.replace(/^-A \S+ /, '')]],
    ])
  })

  test('a chain that is only spoken of is not jumped to', () => {
    const line =
      '-A PREROUTING -m comment --comment "-j yah-id-10.128.3.9" -m comment --comment yah-id-10.128.3.9 -j ACCEPT'
    const { chains } = own({ mangle: [...addressLines('10.128.3.9', GLOBEX, 1), line] })
    expect(chains[0]?.holders.size).toBe(0)
    expect(chains[0]?.jumps).toHaveLength(1)
  })

  test('jumps: every copy', () => {
    const jump = '-A PREROUTING -s 10.128.3.9/32 -j yah-id-10.128.3.9'
    const { chains } = own({ mangle: [...addressLines('10.128.3.9', GLOBEX, 1), jump, jump] })
    expect(chains[0]?.jumps).toHaveLength(3)
  })

  test('both back ends, each by itself', () => {
    const save = saved({ mangle: addressLines('10.128.3.9', GLOBEX, 1) })
    const { chains } = ownTables(
      new Map([
        ['nft', save],
        ['legacy', save],
      ] as const),
      NET,
      SUBNET,
    )
    expect(chains.map(({ backend, address }) => `${backend} ${address}`)).toEqual([
      'nft 10.128.3.9',
      'legacy 10.128.3.9',
    ])
  })

  describe('identities are believed only when the rule is the one that is written', () => {
    const good = `-s 10.128.3.9/32 -d 10.128.3.0/24 -i ${GLOBEX} -j MARK --set-xmark 0x1869/0xffff`
    const identities = (rule: string) =>
      own({ mangle: [':yah-id-10.128.3.9 - [0:0]', `-A yah-id-10.128.3.9 ${rule}`] }).chains[0]?.identities

    test('that one', () => expect(identities(good)).toEqual([{ bridge: GLOBEX, mark: 6249 }]))
    test.each([
      good.replace('0xffff', '0xffffffff'),
      good.replace('10.128.3.9/32', '10.128.3.8/32'),
      good.replace('10.128.3.0/24', '10.128.4.0/24'),
      good.replace('-d 10.128.3.0/24 ', ''),
      good.replace('-i ', '! -i '),
      good.replace('MARK', 'CONNMARK'),
      good.replace('--set-xmark', '--or-mark'),
      `${good} -m comment --comment x`,
      '-j RETURN',
      '-i',
    ])('not %s', (rule) => expect(identities(rule)).toEqual([]))
  })

  describe('admitted peers too', () => {
    const good = `-d 10.128.3.7/32 -i ${GLOBEX} -m mark --mark 0x1869/0xffff -j MARK --set-xmark 0x2000000/0x2000000`
    const admitted = (...rules: string[]) =>
      own({ mangle: [':yah-gr-10.128.3.7 - [0:0]', ...rules.map((rule) => `-A yah-gr-10.128.3.7 ${rule}`)] }).chains[0]
        ?.admitted

    test('MARK, CONNMARK, or both: one peer', () => {
      const peer = [{ bridge: GLOBEX, mark: 6249 }]
      expect(admitted(good)).toEqual(peer)
      expect(admitted(good.replace('MARK', 'CONNMARK'))).toEqual(peer)
      expect(admitted(good, good.replace('MARK', 'CONNMARK'))).toEqual(peer)
    })
    test('several', () => {
      const other = good.replace('0x1869', '0x7').replace(GLOBEX, NOBODY)
      expect(admitted(good, other)).toEqual([
        { bridge: GLOBEX, mark: 6249 },
        { bridge: NOBODY, mark: 7 },
      ])
    })
    test.each([
      good.replace('0xffff ', '0x1ffff '),
      good.replace('--mark', '! --mark'),
      good.replace('0x2000000/0x2000000', '0x1000000/0x1000000'),
      good.replace('10.128.3.7/32', '10.128.3.8/32'),
      good.replace('-d ', '-s '),
      `${good} -p tcp`,
    ])('not %s', (rule) => expect(admitted(rule)).toEqual([]))
  })
})

test('the tenant bridges that are named, whatever the rule', () => {
  const filter = [`-A FORWARD -i ${NOBODY} -p udp -j LOG`, '-A FORWARD -i yah0-scratch -j DROP', '-A INPUT -j ACCEPT']
  const saves = new Map([['nft' as const, saved({ filter, raw: bridgeLines(GLOBEX).raw })]])
  expect([...new Set(tenantBridgesNamed(saves, NET))].sort()).toEqual([GLOBEX, NOBODY].sort())
})

test('the /24s that are named, by chains and by tagged rules', () => {
  const saves = (tables: Tables) => subnetsNamed(new Map([['nft' as const, saved(tables)]]), NET).map(String)
  expect(
    saves({ mangle: [':yah-id-10.130.9.9 - [0:0]', ':yah-gr-192.168.1.9 - [0:0]', ':KUBE-10.1.1.1 - [0:0]'] }),
  ).toEqual(['10.130.9.0/24'])
  const tagged = bridgeLines(GLOBEX).filter.map((line) => line.replace('10.128.3.0/24', '10.200.0.0/24'))
  expect(new Set(saves({ filter: tagged }))).toEqual(new Set(['10.200.0.0/24']))
  expect(saves({ filter: ['-A FORWARD -s 10.131.1.0/24 -j DROP', '-A FORWARD -s 10.131.1.0/25 -j DROP'] })).toEqual([])
})

test('the words of the forms are those that iptables-save prints', () => {
  // Guards the fixture: a line that could not be split would silently name nothing.
  for (const lines of Object.values(bridgeLines(GLOBEX)))
    for (const line of lines) expect(splitWords(line)[0]).toBe('-A')
})
