import { describe, expect, test } from 'vitest'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

// The kernel does not compare `not` when a rule is added, and answers EEXIST.
test('a prohibit that the kernel takes another rule for: the deploy fails, names that rule, and is undone', async () => {
  await using node = await TestNode.create()
  const rule = 'priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit'
  await node.run(`ip rule add not ${rule}`)
  const before = await node.dump()
  const call = ['deploy', '--workload', 'billing', '--address', '10.128.3.9', '--tenant', 'globex']

  const { status, stderr } = await node.netsweep(call)
  expect(status).toBe(1)
  expect(stderr).toContain(`ip rule del not ${rule}; it was undone`)
  expect(await node.dump()).toEqual(before)

  await node.run(`ip rule del not ${rule}`)
  expect((await node.netsweep(call)).status).toBe(0)
})

const ACME = 'yah0-6jgfqfdnu6'
const GLOBEX = 'yah0-91auqknbeu'
const API = ['deploy', '--workload', 'api', '--address', '10.128.3.7', '--tenant', 'acme']
const PROHIBIT = 'priority 1200 iif yah0 to 10.128.3.7/32'

async function wired(...more: (readonly string[])[]): Promise<TestNode> {
  const node = await TestNode.create()
  for (const args of [API, ...more]) expect((await node.netsweep(args)).status).toBe(0)
  return node
}

describe('what the last owner left, where the kernel would take somebody else’s first', () => {
  test.each<[what: string, script: string, named: string]>([
    ['a route', `ip route prepend 10.128.3.7/32 dev ${ACME} mtu 1400`, '(with metrics)'],
    [
      'a prohibit',
      `ip rule del ${PROHIBIT}
       ip rule add ${PROHIBIT} fwmark 0x4/0x2000000 prohibit; ip rule add ${PROHIBIT} fwmark 0/0x2000000 prohibit`,
      'fwmark 0x4/0x2000000',
    ],
    [
      'a rule of its chain that nft wrote and iptables prints as ours',
      `nft add rule ip mangle PREROUTING ip saddr 10.128.3.7 ip daddr '{ 192.0.2.1, 192.0.2.2 }' counter jump yah-id-10.128.3.7`,
      'native nft rule',
    ],
  ])('%s: refused, with nothing changed', async (_what, script, named) => {
    await using node = await wired()
    await node.run(script)
    const before = await node.snapshot()
    for (const next of [
      ['deploy', '--workload', 'next', '--address', '10.128.3.7', '--tenant', 'acme'],
      ['deploy', '--workload', 'next', '--address', '10.128.3.7'],
    ]) {
      const { status, stderr } = await node.netsweep(next)
      expect({ next, status }).toEqual({ next, status: 2 })
      expect(stderr).toMatch(/^netsweep: --address: what is left of 10\.128\.3\.7 cannot be removed: [^\n]+\n$/)
      expect(stderr).toContain(named)
    }
    expect(difference(before, await node.snapshot())).toEqual([])
  })
})

test('a route of a running workload over another bridge, behind somebody else’s: refused, with nothing changed', async () => {
  await using node = await wired(['deploy', '--workload', 'b', '--address', '10.128.3.9', '--tenant', 'globex'])
  await node.run(`
    ip route append 10.128.3.7/32 dev ${GLOBEX} mtu 1400
    ip route append 10.128.3.7/32 dev ${GLOBEX}`)
  const before = await node.snapshot()
  const { status, stderr } = await node.netsweep(API)
  expect(status).toBe(2)
  expect(stderr).toMatch(
    /^netsweep: --address: what is left of 10\.128\.3\.7 cannot be removed: route 10\.128\.3\.7[^\n]+first, [^\n]+\(with metrics\)[^\n]*\n$/,
  )
  expect(difference(before, await node.snapshot())).toEqual([])
})

test('a second generation of a prohibit, behind somebody else’s: it stays, which is a notice', async () => {
  await using node = await wired()
  const rule = `priority 1201 iif ${ACME} to 10.128.3.0/24`
  await node.run(`ip rule add ${rule} fwmark 0x4/0x2000000 prohibit; ip rule add ${rule} fwmark 0/0x2000000 prohibit`)
  const before = await node.dump()
  const { status, json } = await node.netsweep([...API, '--json'])
  expect(status).toBe(0)
  expect(json).toMatchObject({
    changes: [],
    notices: [
      {
        object: `${rule} fwmark 0/0x2000000 prohibit`,
        reason: expect.stringMatching(/^kept: .*fwmark 0x4\/0x2000000/),
      },
    ],
  })
  expect(await node.dump()).toEqual(before)
  // With that one gone, it goes.
  await node.run(`ip rule del ${rule} fwmark 0x4/0x2000000 prohibit`)
  expect((await node.netsweep([...API, '--json'])).json).toMatchObject({ notices: [] })
  expect(await node.run(`ip rule show priority 1201`)).toBe('')
})

describe('a route of somebody else’s in the place of the workload’s own: refused, with nothing changed', () => {
  test.each<[what: string, script: string, named: string]>([
    ['out of its bridge', `ip route replace 10.128.3.7/32 dev ${ACME} mtu 1400`, `dev ${ACME} proto boot scope link`],
    ['out of another link', 'ip route replace 10.128.3.7/32 dev lan0 scope link', 'dev lan0 proto boot scope link'],
    [
      'by a gateway',
      'ip route replace 10.128.3.7/32 via 192.0.2.9 proto static',
      'via 192.0.2.9 dev lan0 proto static',
    ],
    [
      'of several hops',
      'ip route replace 10.128.3.7/32 nexthop via 192.0.2.8 nexthop via 192.0.2.9',
      'nexthop via 192.0.2.9',
    ],
    ['that leads nowhere', 'ip route replace blackhole 10.128.3.7/32', 'blackhole 10.128.3.7/32 proto boot'],
    ['behind one of ours', `ip route append 10.128.3.7/32 dev lan0 scope link`, 'dev lan0 proto boot scope link'],
  ])('%s', async (_what, script, named) => {
    await using node = await wired()
    await node.run(`ip link add lan0 type veth peer name lan1; ip link set lan1 up; ip link set lan0 up
      ip addr add 192.0.2.1/24 dev lan0`)
    await node.run(script)
    const before = await node.snapshot()
    const next = [...API.slice(0, 2), 'next', ...API.slice(3)]
    const { status, stderr } = await node.netsweep(next)
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(named) })
    expect(stderr).toMatch(/^netsweep: --address: 10\.128\.3\.7 cannot be wired: route [^\n]+\n$/)
    expect(difference(before, await node.snapshot())).toEqual([])

    // What it tells to type lets it in.
    await node.run(/ip route del [^\n]+/.exec(stderr)?.[0] ?? 'false')
    expect((await node.netsweep(next)).status).toBe(0)
    expect(await node.run('ip route show 10.128.3.7')).toBe(`10.128.3.7 dev ${ACME} scope link \n`)
  })

  test('one of another metric is in nobody’s way', async () => {
    await using node = await wired()
    await node.run(`ip route del 10.128.3.7/32; ip route add blackhole 10.128.3.7/32 metric 5`)
    expect((await node.netsweep(API)).status).toBe(0)
    expect(await node.run('ip route show 10.128.3.7')).toContain('blackhole 10.128.3.7 metric 5')
  })
})

// What is in the way there stands in a chain that the deploy itself adds to before it withdraws.
test('a native nft rule with a set hinders no deploy of an address that changes hands', async () => {
  await using node = await wired()
  const native = `'{ 192.0.2.1, 192.0.2.2 }'`
  await node.run(`nft add rule ip mangle PREROUTING ip saddr ${native} accept
    nft add rule ip filter FORWARD ip saddr ${native} accept`)
  const next = await node.netsweep(['deploy', '--workload', 'next', '--address', '10.128.3.7', '--tenant', 'globex'])
  expect({ status: next.status, stderr: next.stderr }).toEqual({ status: 0, stderr: '' })
  expect(await node.run('ip -o link show veth7')).toContain(`master ${GLOBEX}`)
  expect(await node.run('nft list table ip mangle; nft list table ip filter')).toMatch(
    /ip saddr \{ 192\.0\.2\.1, 192\.0\.2\.2 \} accept[\s\S]*ip saddr \{ 192\.0\.2\.1, 192\.0\.2\.2 \} accept/,
  )
})

test.each([
  ['with no comment', '-I FORWARD -j ACCEPT'],
  ['with the comment of our rules', '-I FORWARD -m comment --comment yah-isolation-b -j ACCEPT'],
  ['with that comment, in a chain of its own', '-I FORWARD -m comment --comment yah-isolation-b -j X'],
  ['with that comment, as goto', `-I FORWARD -i ${ACME} -m comment --comment yah-isolation-b -g X`],
])('what accepts above the isolation, %s, stands below it after a redeploy', async (_, rule) => {
  await using node = await wired()
  const forward = async () =>
    (await node.run('iptables-nft -S FORWARD')).split('\n').filter((line) => line.startsWith('-A'))
  const before = await forward()
  await node.run(`iptables-nft -N X; iptables-nft -A X -j ACCEPT; iptables-nft ${rule}`)
  const [theirs = ''] = await forward()
  expect(before).not.toContain(theirs)

  expect((await node.netsweep(API)).status).toBe(0)

  const after = await forward()
  const drops = (lines: string[]) => lines.filter((line) => line.endsWith('-j DROP'))
  expect(drops(after).toSorted()).toEqual(drops(before).toSorted())
  expect(drops(after)).toHaveLength(4)
  expect(after.indexOf(theirs)).toBeGreaterThan(Math.max(...drops(after).map((line) => after.indexOf(line))))
})

// On a node that went over from one back end to the other the chains stand in both, and both mark packets.
test('a grant that is no more wanted goes in both back ends', async () => {
  await using node = await TestNode.create()
  const granting = [
    '--workload',
    'api',
    '--addr',
    '10.128.3.7',
    '--tenant',
    'acme',
    '--allow',
    'globex/default/billing',
  ]
  await node.oracle({ IPTABLES: 'iptables-legacy', ARP_PATH: '0' }, 'deploy', ...granting)
  await node.oracle({ IPTABLES: 'iptables-nft' }, 'deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  const legacy = async () => (await node.run('iptables-legacy-save -t mangle')).split('\n')
  expect((await legacy()).filter((line) => line.includes('yah-gr-10.128.3.7'))).not.toHaveLength(1)

  expect((await node.netsweep(API)).status).toBe(0)

  expect((await legacy()).filter((line) => line.includes('yah-gr-10.128.3.7'))).toEqual([':yah-gr-10.128.3.7 - [0:0]'])
  expect(await node.run('iptables-nft-save -t mangle')).toContain('-j yah-id-10.128.3.7')
  const again = await node.netsweep([...API, '--json'])
  expect(again.json).toMatchObject({ changes: [] })
})
