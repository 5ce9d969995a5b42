/** Grants' ARP filters on a kernel that has them: what the oracle makes, read and swept by the command as it is built. */
import { describe, expect, type TestOptions, test } from 'vitest'
import { type Backend, TestNode } from '../support/node.js'

const ACME = 'yah0-6jgfqfdnu6'
const GLOBEX = 'yah0-91auqknbeu'
const ARP_PATH = { ARP_PATH: '1' }

interface Shown {
  readonly filters: readonly unknown[]
  readonly proxies: readonly unknown[]
}

async function deploy(node: TestNode, workload: string, octet: number, tenant: string, ...more: string[]) {
  const who = ['--tenant', tenant, '--identity', `${tenant}/prod/${workload}`]
  await node.oracle('deploy', '--workload', workload, '--addr', `10.128.3.${octet}`, ...who, ...more, ARP_PATH)
}

/** What tc prints of a link's ingress, without the spaces. */
async function filters(node: TestNode, link: string): Promise<string[]> {
  const lines = (await node.run(`tc filter show dev ${link} ingress`)).split('\n').map((line) => line.trim())
  return lines.filter((line) => !/^$|^index |^filter .* chain 0$/.test(line))
}

const grant = (handle: string, sender: string, target: string): string[] => [
  `filter protocol arp pref 895 flower chain 0 handle ${handle}`,
  'eth_type arp',
  `arp_sip ${sender}`,
  `arp_tip ${target}`,
  'arp_op request',
  'not_in_hw',
  'action order 1: skbedit  mark 33554432/0x2000000 pipe',
]

const qdiscs = (node: TestNode, link: string): Promise<string> => node.run(`tc qdisc show dev ${link}`)
const proxies = (node: TestNode): Promise<string> => node.run('ip neigh show proxy')

describe.each<{ who: string; stopped: string; backend: Backend; options: TestOptions }>([
  { who: 'the admitted workload', stopped: 'billing', backend: 'nft', options: {} },
  { who: 'the granting workload', stopped: 'api', backend: 'legacy', options: { tags: 'guest' } },
])('$who stops', ({ stopped, backend, options }) => {
  test('both sides lose the filter and the proxy entry, and keep clsact', options, () => stops(stopped, backend))
})

async function stops(stopped: string, backend: Backend): Promise<void> {
  await using node = await TestNode.create({ backend })
  await deploy(node, 'api', 7, 'acme', '--allow', 'globex/prod/billing')
  await deploy(node, 'billing', 9, 'globex')
  // So that both bridges stay.
  await deploy(node, 'web', 8, 'acme')
  await deploy(node, 'ledger', 10, 'globex')
  expect(await filters(node, ACME)).toEqual(grant('0x709', '10.128.3.7', '10.128.3.9'))
  expect(await filters(node, GLOBEX)).toEqual(grant('0x907', '10.128.3.9', '10.128.3.7'))

  const shown = (await node.netsweep(['show', '--json'])).json as Shown
  expect(shown.filters).toEqual([
    { bridge: ACME, sender: '10.128.3.7', target: '10.128.3.9', handle: 0x709, wanted: true },
    { bridge: GLOBEX, sender: '10.128.3.9', target: '10.128.3.7', handle: 0x907, wanted: true },
  ])
  expect(shown.proxies).toHaveLength(2)

  const before = await node.dump({ env: ARP_PATH })
  expect(await node.netsweep(['sweep', '--json'])).toMatchObject({ status: 0, json: { steps: [] } })
  expect(await node.dump({ env: ARP_PATH })).toEqual(before)

  await node.oracle('stop', stopped)
  await node.run(`while ip link show veth${stopped === 'api' ? 7 : 9}; do sleep 0.1; done 2>&1`)
  const swept = await node.netsweep(['sweep', '--json'])
  expect(swept).toMatchObject({ status: 0, json: { complete: true, bridges: [] } })
  expect(await proxies(node)).toBe('')
  for (const link of [ACME, GLOBEX]) {
    expect(await filters(node, link)).toEqual([])
    expect(await qdiscs(node, link)).toContain('clsact')
  }
}

test("somebody else's filter on the same pref stays", async () => {
  await using node = await TestNode.create()
  await deploy(node, 'api', 7, 'acme', '--allow', 'globex/prod/billing')
  await deploy(node, 'billing', 9, 'globex')
  await deploy(node, 'web', 8, 'acme')
  const match = 'flower arp_op request arp_sip 10.128.3.7 arp_tip 10.128.3.9 arp_sha 02:00:00:00:00:07'
  const add = `tc filter add dev ${ACME} ingress protocol arp pref 895`
  await node.run(`${add} handle 0x70a ${match} action skbedit mark 0x2000000/0x2000000`)
  await node.run(`${add} handle 0x70b flower arp_op request arp_sip 10.128.3.7 arp_tip 10.128.3.11 action drop`)
  await node.oracle('stop', 'billing')
  await node.run('while ip link show veth9; do sleep 0.1; done 2>&1')

  expect(await node.netsweep(['sweep', '--json'])).toMatchObject({ status: 0, json: { bridges: [GLOBEX] } })
  const left = (await filters(node, ACME)).filter((line) => line.startsWith('filter'))
  expect(left.map((line) => line.split(' ').at(-1)).sort()).toEqual(['0x70a', '0x70b'])
})
