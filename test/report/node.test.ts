/** The node as data and as text, where the machine's kernel cannot have it: grant filters. */
import { expect, test } from 'vitest'
import { conclude } from '../../src/node/conclude.js'
import type { Decision } from '../../src/node/reconcile.js'
import { planSweep } from '../../src/node/sweep.js'
import type { NodeView } from '../../src/node/view.js'
import { reportNode } from '../../src/report/node.js'
import { nodeText } from '../../src/report/node-text.js'
import { styleOf } from '../../src/report/style.js'
import {
  ACME,
  addressLines,
  admitLines,
  bridge,
  filter,
  GLOBEX,
  proxy,
  reading,
  SUBNET,
  saved,
  view,
} from '../node/views.js'

const decided = (of: NodeView): Decision => {
  const conclusion = conclude(of, SUBNET)
  return { view: of, conclusion, plan: planSweep(of, conclusion) }
}

/** acme's 7 and globex's 9, which admits it; `octets`: who of globex is there. */
const granted = (octets: readonly number[]): NodeView => {
  const mangle = [
    ...addressLines('10.128.3.7', ACME, 100),
    ...addressLines('10.128.3.9', GLOBEX, 200, admitLines('10.128.3.9', GLOBEX, ACME, 100)),
  ]
  return view(reading([bridge('yah0', 1), bridge(GLOBEX, 3, octets), bridge(ACME, 2, [7])]), {
    proxies: [proxy('10.128.3.9', 2), proxy('10.128.3.7', 3)],
    filters: [filter(2, '10.128.3.7', '10.128.3.9'), filter(3, '10.128.3.9', '10.128.3.7')],
    iptables: new Map([['nft', saved({ mangle })]]),
  })
}

test('the filters of a pair whose both sides live are wanted', () => {
  const report = reportNode(decided(granted([9])), new Map([[5, 'billing']]))
  expect(report.filters).toEqual([
    { bridge: ACME, sender: '10.128.3.7', target: '10.128.3.9', handle: 0x709, wanted: true },
    { bridge: GLOBEX, sender: '10.128.3.9', target: '10.128.3.7', handle: 0x907, wanted: true },
  ])
  expect(report.bridges.map(({ name }) => name)).toEqual(['yah0', ACME, GLOBEX])
  expect(report.workloads).toMatchObject([
    { address: '10.128.3.7', namespace: 'billing', identityMark: 100, admittedPeers: [] },
    { address: '10.128.3.9', identityMark: 200, admittedPeers: [{ bridge: ACME, mark: 100, address: '10.128.3.7' }] },
  ])
})

test('those of a pair whose one side is gone are left over', () => {
  const report = reportNode(decided(granted([])), new Map())
  expect(report.filters.map(({ wanted }) => wanted)).toEqual([false, false])
  expect(report.proxies.map(({ wanted }) => wanted)).toEqual([false, false])
  expect(report).toMatchObject({ departed: ['10.128.3.9'], dead: [GLOBEX] })
  expect(report.workloads[0]?.namespace).toBe(null)

  const lines = nodeText(report, '10.128.0.0/9', styleOf({}, {})).split('\n')
  expect(lines).toContain('  address 10.128.3.9: no workload, but 2 chains, 1 proxy entry, 2 grant filters')
  expect(lines).toContain(`  grant filter 10.128.3.7 to 10.128.3.9 on ${ACME}: no granted pair wants it`)
  expect(lines).toContain('  10.128.3.7  veth7  yah0-6jgfqfdnu6  namespace without a name  identity 100')
  expect(lines).toContain('0 host routes, 0 prohibits, 2 proxy entries, 2 grant filters, 4 chains')
})
