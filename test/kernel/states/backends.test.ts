/** The two back ends of iptables, alone and at once, and what others write with nft alone. */
import { expect, test } from 'vitest'
import { need } from '../../support/machine.js'
import { TestNode } from '../../support/node.js'
import { difference } from '../../support/snapshot.js'
import { WORDS } from './build.js'
import { ACCT, API, BILLING, GLOBEX, tenantBridge, WEB, workload } from './lines.js'
import { sweep } from './pass.js'
import { testStates } from './state.js'

const stoppedTenant = 'acct; api; billing; stop billing 9'
const goneTenant = {
  gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
  bridges: [GLOBEX],
  addresses: ['10.128.3.9'],
}

const legacy = (lines: readonly string[]): string[] =>
  lines.filter((line) => /^(raw|mangle|nat|filter) /.test(line)).map((line) => `legacy ${line}`)

/** Both back ends. */
testStates([
  {
    name: 'the same stopped workload in both back ends',
    build: `
      acct; api; billing; IPTABLES=iptables-legacy billing; stop billing 9`,
    both: true,
    by: 'command',
    gone: [...goneTenant.gone, ...legacy([...workload(BILLING), ...tenantBridge(GLOBEX)])],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'looks at one back end' },
  },
  {
    name: 'a node that went from legacy to nft: the tenants that stopped before are in legacy, and go',
    build: `
      export IPTABLES=iptables-legacy; acct; api; billing; stop billing 9; stop api 7
      export IPTABLES=iptables-nft; acct; web; mail`,
    both: true,
    // Of legacy, the rules of the bridge that lives again stay with it.
    gone: [
      ...workload(BILLING).filter((line) => !line.startsWith('mangle ')),
      ...tenantBridge(GLOBEX).filter((line) => !/^(raw|mangle|filter) /.test(line)),
      ...workload(API).filter((line) => !line.startsWith('mangle ')),
      ...legacy([...workload(API), ...workload(BILLING), ...tenantBridge(GLOBEX)]),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.7', '10.128.3.9'],
    oracle: { differs: 'looks at one back end' },
  },
  {
    name: 'a live pair, one side wired in each back end',
    build: `acct; IPTABLES=iptables-legacy billing; api --allow globex/prod/billing
      ip neigh replace proxy 10.128.3.7 dev $GLOBEX; ip neigh replace proxy 10.128.3.9 dev $ACME`,
    both: true,
    oracle: { differs: 'looks at one back end' },
  },
  {
    name: 'legacy tables without anything of ours: untouched, and none is made',
    build: `${stoppedTenant}; iptables-legacy -w -A FORWARD -i docker0 -j ACCEPT`,
    both: true,
    ...goneTenant,
    oracle: 'agrees',
  },
  {
    name: 'only nft is looked at: what legacy holds stays, and a live workload that is wired there keeps its pair',
    build: `
      acct; IPTABLES=iptables-legacy billing; api --allow globex/prod/billing
      ip neigh replace proxy 10.128.3.7 dev $GLOBEX; ip neigh replace proxy 10.128.3.9 dev $ACME
      IPTABLES=iptables-legacy mail; stop mail 12; stop acct 2`,
    options: { iptables: 'nft' },
    both: true,
    by: 'command',
    gone: [
      ...workload(ACCT),
      'route 10.128.3.12 dev yah0-as5kg51euo scope link',
      'rule 1200:\tfrom all to 10.128.3.12 fwmark 0/0x2000000 iif yah0 prohibit',
      ...tenantBridge('yah0-as5kg51euo').filter((line) => /^(link|addr|rule) /.test(line)),
    ],
    bridges: ['yah0-as5kg51euo'],
    addresses: ['10.128.3.2', '10.128.3.12'],
    oracle: { differs: 'looks at one back end' },
  },
  {
    name: 'only legacy is looked at: what nft holds stays',
    build: `acct; api; web; IPTABLES=iptables-legacy web; stop web 8; acct; stop acct 2`,
    options: { iptables: 'legacy' },
    both: true,
    gone: [...workload(WEB).filter((line) => !line.startsWith('mangle ')), ...legacy(workload(WEB))],
    addresses: ['10.128.3.8'],
    oracle: { differs: 'looks at one back end' },
  },
])

/** What others write with nft alone. */
testStates([
  {
    name: 'native nft rules in nat that iptables-save cannot parse, beside a stopped tenant',
    build: `${stoppedTenant}
      nft add rule ip nat POSTROUTING meta mark set meta mark and 0xff xor 0x1`,
    by: 'command',
    ...goneTenant,
    oracle: 'agrees',
  },
  {
    name: 'native nft rules in nat that iptables-save cannot parse, on a healthy node',
    build: `acct; api
      nft add rule ip nat POSTROUTING meta mark set meta mark and 0xff xor 0x1`,
    oracle: 'agrees',
  },
  {
    name: 'extra base chains in every table that is read, and tables of others',
    build: `${stoppedTenant}
      for table in raw mangle filter; do
        nft "add chain ip $table extra { type filter hook forward priority 50; }"
        nft "add rule ip $table extra tcp dport 5 counter accept"
      done
      nft 'add table inet firewalld { chain forwarded { type filter hook forward priority 10; }; }'
      nft "add rule inet firewalld forwarded iifname $GLOBEX counter accept"`,
    by: 'command',
    ...goneTenant,
    oracle: 'agrees',
  },
  ...(['raw', 'mangle', 'filter'] as const).map((table) => ({
    name: `a table ${table} that iptables calls incompatible: nothing is changed`,
    build: `${stoppedTenant}
      nft add rule ip ${table} ${table === 'filter' ? 'FORWARD' : 'PREROUTING'} ct mark set 5`,
    by: table === 'raw' ? ('command' as const) : ('library' as const),
    fails: { code: 'FAILED', says: [/iptables-nft-save/, new RegExp(`table ${table}`), /incompatible|nft/] },
    oracle: { differs: 'takes what it cannot read for empty' },
  })),
  {
    name: 'a table mangle that iptables-save cannot parse: nothing is changed',
    build: `${stoppedTenant}
      nft add rule ip mangle PREROUTING meta mark set meta mark and 0xff xor 0x1`,
    by: 'command',
    fails: { code: 'FAILED', says: [/iptables-nft-save -t mangle/, /native nft rules/] },
    oracle: { differs: 'takes what it cannot read for empty' },
  },
])

test('a table mangle of native nft on a node without anything of ours is not read as empty either', async (context) => {
  await need(context, 'nft')
  await using node = await TestNode.create()
  await node.run(`${WORDS}
    bridge yah0 10.128.3.1/24
    nft 'add table ip mangle { chain PREROUTING { type filter hook prerouting priority -150; }; }'
    nft 'add rule ip mangle PREROUTING ct mark set 5'`)
  const before = await node.snapshot()
  const { status, error } = await sweep(node)
  expect({ status, message: error?.message }).toEqual({ status: 3, message: expect.stringContaining('mangle') })
  expect(difference(before, await node.snapshot())).toEqual([])
})
