/** Which `/24` is the node's, and what the options that name the node change. */
import { ACCT, ACME, API, accepts, BILLING, GLOBEX, isolation, meshMark, tenantBridge, workload } from './lines.js'
import { type State, testStates } from './state.js'

const TABLES = /^(raw|mangle|filter) /

const noGateway = `
  acct; api; billing; stop billing 9; stop acct 2
  ip addr del 10.128.3.1/24 dev yah0; ip addr del 10.128.3.1/32 dev $ACME; ip addr del 10.128.3.1/32 dev $GLOBEX`
/** The kernel drops the routes of a link with its last address. */
const withoutAddress = [
  ...workload(ACCT),
  ...workload(BILLING).filter((line) => !line.startsWith('route ')),
  ...tenantBridge(GLOBEX).filter((line) => !line.startsWith('addr ')),
]

/** What a pass keeps for want of a gateway, each with the option that lets it go. */
function keptFor(subnet: string, objects: readonly string[]): NonNullable<State['kept']> {
  const reason = new RegExp(`no bridge carries a gateway .*--subnet ${subnet.replaceAll('.', '\\.')}`)
  return objects.map((object) => ({ object, reason }))
}

testStates([
  {
    name: 'no gateway: nothing is removed, and what would be is told',
    build: noGateway,
    by: 'command',
    subnet: null,
    kept: keptFor('10.128.3.0/24', [
      'nft mangle: chains yah-gr-10.128.3.2, yah-id-10.128.3.2',
      'nft mangle: chains yah-gr-10.128.3.9, yah-id-10.128.3.9',
      `nft mangle: rules of ${GLOBEX}`,
      `nft raw: rules of ${GLOBEX}`,
      `nft filter: rules of ${GLOBEX}`,
      'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
      `priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
      `priority 1204 iif ${GLOBEX} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit`,
      `bridge ${GLOBEX}`,
    ]),
    oracle: 'agrees',
  },
  {
    name: 'no gateway, and --subnet says which /24 is meant',
    build: noGateway,
    options: { subnet: '10.128.3.0/24' },
    by: 'command',
    gone: withoutAddress,
    bridges: [GLOBEX],
    addresses: ['10.128.3.2', '10.128.3.9'],
    oracle: { differs: 'has no such option' },
  },
  {
    name: 'no gateway, and --subnet says another /24: what names none is all that goes',
    build: noGateway,
    options: { subnet: '10.128.4.0/24' },
    subnet: '10.128.4.0/24',
    gone: [
      `link ${GLOBEX}:`,
      isolation(GLOBEX)[1] ?? '',
      ...isolation(GLOBEX).filter((line) => TABLES.test(line) && !line.includes('10.128.3.0/24')),
      ...accepts(GLOBEX),
    ],
    bridges: [GLOBEX],
    oracle: { differs: 'has no such option' },
  },
  {
    name: 'no gateway and nothing left over: the NAT rule and the ACCEPTs of the node bridge are no leftovers',
    build: `
      bridge yah0; accepts yah0; ipt -t nat -A POSTROUTING -s 10.128.3.0/24 ! -d 10.128.3.0/24 -j MASQUERADE`,
    subnet: null,
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: 'a drained node whose last bridge was deleted: the rules that it left are kept and told',
    build: 'billing; stop billing 9; ip link del $GLOBEX',
    subnet: null,
    kept: keptFor('10.128.3.0/24', [
      'nft mangle: chains yah-gr-10.128.3.9, yah-id-10.128.3.9',
      `nft mangle: rules of ${GLOBEX}`,
      'nft mangle: the reply mark of the mesh',
      `nft raw: rules of ${GLOBEX}`,
      `nft filter: rules of ${GLOBEX}`,
      'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
      `priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
      `priority 1204 iif ${GLOBEX} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit`,
    ]),
    oracle: 'agrees',
  },
  {
    name: 'a drained node whose last bridge was deleted, with --subnet',
    build: 'billing; stop billing 9; ip link del $GLOBEX',
    options: { subnet: '10.128.3.0/24' },
    by: 'command',
    gone: [
      ...workload(BILLING, { detached: true }).filter((line) => !line.startsWith('route ')),
      ...isolation(GLOBEX, { detached: true }),
      ...accepts(GLOBEX),
      meshMark(),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'has no such option' },
  },
  {
    name: 'gateways of two subnets: an error that names both',
    build: `acct; api; billing; stop billing 9; ip addr add 10.128.4.1/32 dev $ACME`,
    by: 'command',
    fails: { code: 'TWO_SUBNETS', says: [/10\.128\.3\.0\/24/, /10\.128\.4\.0\/24/, /--subnet/] },
    oracle: { differs: 'ends with an error as well' },
  },
  {
    name: 'gateways of two subnets, and --subnet says which is meant: the other one makes its bridge foreign',
    build: `acct; api; billing; stop billing 9; stop api 7; ip addr add 10.128.4.1/32 dev $ACME`,
    options: { subnet: '10.128.3.0/24' },
    by: 'command',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX), ...workload(API)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.7', '10.128.3.9'],
    notices: [{ object: `bridge ${ACME}`, reason: 'foreign: address 10.128.4.1/32' }],
    oracle: { differs: 'has no such option' },
  },
  {
    name: "addresses of the node bridge that are no gateway decide nothing: an operator's second one, in the range or not",
    build: `
      acct; api; billing; stop billing 9; ip addr add 192.168.7.1/24 dev yah0; ip addr add 10.128.4.2/24 dev yah0
      ip addr add 10.128.5.1/25 dev yah0; ip addr add 10.1.1.1/32 dev yah0`,
    by: 'command',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'gateways of the range on links that are no bridges of ours decide nothing',
    build: `acct; api; billing; stop billing 9; bridge docker0 10.128.4.1/24; link tap0; ip addr add 10.128.5.1/24 dev tap0`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: "state of another /24 of the range: not the node's, and it stays",
    build: `
      acct; api
      NET=10.128.4 deploy --workload other --addr 10.128.4.9 --tenant acme
      stop other 9; ip addr del 10.128.4.1/32 dev $ACME 2>/dev/null || :
      ip rule add priority 1202 iif $NOBODY to 10.128.4.0/24 fwmark 0/0x2000000 prohibit`,
    oracle: 'agrees',
  },
])

const CUSTOM = 'br-n-91auqknbeu'
const custom = { base: '172.20.5', node: 'br-net' }

testStates([
  {
    name: 'another node bridge and another range, beside bridges of the usual name that are none of this node here',
    build: `
      NET=172.20.5 NODE_BRIDGE=br-net NODE_RANGE=172.16.0.0/12; export NODE_BRIDGE NODE_RANGE
      acct; api; billing; stop billing 9; stop acct 2
      bridge yah0 10.128.3.1/24; bridge $GLOBEX 10.128.3.1/32; tagged $GLOBEX b; accepts $GLOBEX`,
    env: { NODE_BRIDGE: 'br-net', NODE_RANGE: '172.16.0.0/12' },
    options: { bridge: 'br-net', range: '172.16.0.0/12' },
    by: 'command',
    subnet: '172.20.5.0/24',
    gone: [
      ...workload({ ...BILLING, bridge: CUSTOM }, custom),
      ...tenantBridge(CUSTOM, custom),
      ...workload({ ...ACCT, bridge: 'br-net' }, custom),
    ],
    bridges: [CUSTOM],
    addresses: ['172.20.5.2', '172.20.5.9'],
    oracle: 'agrees',
  },
  {
    name: 'a gateway outside the range that is meant is none: it makes its bridge foreign, and nothing is removed',
    build: 'acct; api; billing; stop billing 9',
    options: { range: '172.16.0.0/12' },
    env: { NODE_RANGE: '10.128.0.0/9' },
    subnet: null,
    oracle: { differs: 'is told the range in which the state was built' },
  },
])
