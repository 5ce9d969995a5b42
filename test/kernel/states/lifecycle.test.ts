/** Workloads that run, stop, and come back: the states that a node goes through when nobody meddles. */
import {
  ACCT,
  ACME,
  API,
  BILLING,
  GLOBEX,
  grants,
  hostRoute,
  INITECH,
  MAIL,
  meshMark,
  NODE,
  pairProxies,
  proxy,
  tenantBridge,
  WEB,
  workload,
} from './lines.js'
import { testStates } from './state.js'

const BOTH = ['nft', 'legacy'] as const

testStates([
  {
    name: 'a fresh namespace, without a main routing table',
    build: '',
    backends: BOTH,
    subnet: null,
    oracle: 'agrees',
  },
  {
    name: 'a live singleton and no tenants',
    build: 'acct',
    oracle: 'agrees',
  },
  {
    name: 'a stopped singleton: the node bridge and its ACCEPTs stay',
    build: 'acct; stop acct 2',
    backends: BOTH,
    gone: workload(ACCT),
    addresses: ['10.128.3.2'],
    oracle: 'agrees',
  },
  {
    name: 'one live tenant and no node bridge',
    build: 'api',
    oracle: 'agrees',
  },
  {
    name: 'three tenants and a singleton, all live',
    build: 'acct; api; web; billing; mail',
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: 'one live tenant, one stopped: the mark of the mesh stays',
    build: 'acct; api; billing; stop billing 9',
    backends: BOTH,
    by: 'command',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'the last tenant stopped: the mark of the mesh goes with it',
    build: 'acct; api; stop api 7',
    backends: BOTH,
    gone: [...workload(API), ...tenantBridge(ACME), meshMark()],
    bridges: [ACME],
    addresses: ['10.128.3.7'],
    oracle: 'agrees',
  },
  {
    name: 'several tenants, two of them stopped',
    build: 'acct; api; billing; mail; stop api 7; stop mail 12',
    gone: [...workload(API), ...tenantBridge(ACME), ...workload(MAIL), ...tenantBridge(INITECH)],
    bridges: [ACME, INITECH],
    addresses: ['10.128.3.7', '10.128.3.12'],
    oracle: 'agrees',
  },
  {
    name: 'a drained node: everything stopped',
    build: 'acct; api; web; billing; mail; stop acct 2; stop api 7; stop web 8; stop billing 9; stop mail 12',
    backends: BOTH,
    by: 'command',
    gone: [
      ...[ACCT, API, WEB, BILLING, MAIL].flatMap((each) => workload(each)),
      ...[ACME, GLOBEX, INITECH].flatMap((bridge) => tenantBridge(bridge)),
      meshMark(),
    ],
    bridges: [ACME, GLOBEX, INITECH],
    addresses: ['10.128.3.2', '10.128.3.7', '10.128.3.8', '10.128.3.9', '10.128.3.12'],
    oracle: 'agrees',
  },
  {
    name: 'a drained node without a node bridge: the last gateway goes too',
    build: 'api; billing; stop api 7; stop billing 9',
    gone: [
      ...[API, BILLING].flatMap((each) => workload(each, { detached: true })),
      ...[ACME, GLOBEX].flatMap((bridge) => tenantBridge(bridge)),
      meshMark(),
    ],
    bridges: [ACME, GLOBEX],
    addresses: ['10.128.3.7', '10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'two workloads on one bridge, one stopped: what they share stays',
    build: 'acct; api; web; stop web 8',
    backends: BOTH,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'two workloads on one bridge, both stopped',
    build: 'acct; api; web; billing; stop web 8; stop api 7',
    gone: [...workload(API), ...workload(WEB), ...tenantBridge(ACME)],
    bridges: [ACME],
    addresses: ['10.128.3.7', '10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'a granted pair that lives',
    build: 'acct; billing; api --allow globex/prod/billing; mail; stop mail 12',
    by: 'command',
    gone: [...workload(MAIL), ...tenantBridge(INITECH)],
    bridges: [INITECH],
    addresses: ['10.128.3.12'],
    oracle: 'agrees',
  },
  {
    name: 'the granting side of a pair stopped: its half on the other bridge goes',
    build: 'acct; billing; api --allow globex/prod/billing; stop api 7',
    backends: BOTH,
    gone: [...workload(API), ...grants(API, [BILLING]), ...pairProxies(API, BILLING), ...tenantBridge(ACME)],
    bridges: [ACME],
    addresses: ['10.128.3.7'],
    oracle: 'agrees',
  },
  {
    name: 'the admitted side of a pair stopped: the grant stays, its proxies go',
    build: 'acct; billing; api --allow globex/prod/billing; stop billing 9',
    backends: BOTH,
    by: 'command',
    gone: [...workload(BILLING), ...pairProxies(API, BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'both sides of a pair stopped, their bridges kept alive by others',
    build: `
      acct; billing; web; api --allow globex/prod/billing
      deploy --workload audit --addr 10.128.3.10 --tenant globex
      stop api 7; stop billing 9`,
    gone: [...workload(API), ...grants(API, [BILLING]), ...pairProxies(API, BILLING), ...workload(BILLING)],
    addresses: ['10.128.3.7', '10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'one of two admitted peers stopped: the other pair stays',
    build: 'acct; billing; mail; api --allow globex/prod/billing --allow initech/prod/mail; stop billing 9',
    gone: [...workload(BILLING), ...pairProxies(API, BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'one of two workloads that admit the same peer stopped: the peer and the other pair stay',
    build: 'acct; billing; api --allow globex/prod/billing; web --allow globex/prod/billing; stop web 8',
    gone: [...workload(WEB), ...grants(WEB, [BILLING]), proxy(8, GLOBEX)],
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'an admitted singleton stopped: its proxies go, the node bridge stays',
    build: 'acct; api --allow singleton/default/acct; stop acct 2',
    gone: [...workload(ACCT), ...pairProxies(API, ACCT)],
    addresses: ['10.128.3.2'],
    oracle: 'agrees',
  },
  {
    name: 'a live workload whose identity chain is missing says nothing about its pairs',
    build: `
      acct; billing; api --allow globex/prod/billing
      ipt -t mangle -D PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9
      ipt -t mangle -F yah-id-10.128.3.9; ipt -t mangle -X yah-id-10.128.3.9`,
    backends: BOTH,
    oracle: { differs: 'takes the pair of a live workload without an identity for gone' },
  },
  {
    name: 'a workload without an identity whose peer stopped: what names both goes no further than the peer',
    build: `
      acct; web; billing; api --allow globex/prod/billing
      ipt -t mangle -D PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9
      ipt -t mangle -F yah-id-10.128.3.9; ipt -t mangle -X yah-id-10.128.3.9
      stop api 7`,
    // The entry for the stopped side goes; the one that names the silent workload stays.
    gone: [...workload(API), ...grants(API, [BILLING]), proxy(7, GLOBEX)],
    addresses: ['10.128.3.7'],
    oracle: { differs: 'takes the pair of a live workload without an identity for gone' },
  },
  {
    name: 'redeployed with the same address',
    build: 'acct; billing; stop billing 9; billing',
    oracle: 'agrees',
  },
  {
    name: 'redeployed with another address',
    build: 'acct; billing; stop billing 9; billing --addr 10.128.3.10',
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'redeployed for another tenant with the same address: the old bridge goes, the address stays',
    build: 'acct; billing; stop billing 9; billing --tenant acme',
    backends: BOTH,
    gone: tenantBridge(GLOBEX),
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'redeployed as a singleton with the same address',
    build: 'acct; api; billing; stop billing 9; billing --tenant singleton',
    gone: tenantBridge(GLOBEX),
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'another workload has the address of a stopped one of its tenant',
    build: 'acct; api; stop api 7; web --addr 10.128.3.7',
    oracle: 'agrees',
  },
  {
    name: 'a host route of a live address on another bridge, and a prohibit of one on the node bridge: misplaced, and stay',
    build: `
      acct; api; billing; ip route append 10.128.3.7/32 dev $GLOBEX
      ip rule add priority 1200 iif yah0 to 10.128.3.2/32 fwmark 0/0x2000000 prohibit`,
    notices: [
      { object: `route 10.128.3.7/32 dev ${GLOBEX}`, reason: `misplaced: 10.128.3.7 is live on ${ACME}` },
      { object: 'prohibit priority 1200 to 10.128.3.2/32', reason: 'misplaced: 10.128.3.2 is live on the node bridge' },
    ],
    oracle: 'agrees',
  },
  {
    name: 'a stopped workload whose route stands on two bridges',
    build: 'acct; api; web; billing; ip route append 10.128.3.8/32 dev $GLOBEX; stop web 8',
    gone: [...workload(WEB), hostRoute(8, GLOBEX)],
    addresses: ['10.128.3.8'],
    oracle: { differs: 'remembers one route for each address' },
  },
])

/** Neighbours that the kernel learned of a departed address go; what an operator pinned stays. */
testStates([
  {
    name: 'the neighbours of a stopped workload',
    build: `
      acct; api; web; bridge docker0 172.17.0.1/16; stop web 8
      ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev $ACME nud reachable
      ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev yah0 nud stale
      ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev docker0 nud stale
      ip neigh add 10.128.3.7 lladdr 02:00:00:00:00:07 dev $ACME nud stale
      ip neigh add 10.128.4.8 lladdr 02:00:00:00:00:09 dev $ACME nud stale`,
    gone: workload(WEB),
    neighbours: [
      `10.128.3.8 dev ${ACME} lladdr 02:00:00:00:00:08 learned`,
      `10.128.3.8 dev ${NODE} lladdr 02:00:00:00:00:08 learned`,
    ],
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'the neighbours of a stopped workload that an operator pinned',
    build: `
      acct; api; web; stop web 8
      ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev $ACME nud permanent
      ip neigh add 10.128.3.8 lladdr 02:00:00:00:00:08 dev yah0 nud noarp`,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
])
