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

test('a route of somebody else’s in the place of the workload’s own makes room, which is a notice', async () => {
  await using node = await wired()
  await node.run(`ip route replace 10.128.3.7/32 dev ${ACME} mtu 1400`)
  const { status, json } = await node.netsweep([...API, '--json'])
  expect(status).toBe(0)
  expect(json).toMatchObject({
    notices: [
      {
        object: expect.stringMatching(/^route 10\.128\.3\.7.* \(with metrics\)$/),
        reason: expect.stringMatching(/: replaced$/),
      },
    ],
  })
  expect(await node.run('ip route show 10.128.3.7')).toBe(`10.128.3.7 dev ${ACME} scope link \n`)
})
