/** Bridges that somebody deleted by hand: the rules that name them are detached. */
import {
  ACCT,
  ACME,
  API,
  accepts,
  BILLING,
  GLOBEX,
  hostRoute,
  isolation,
  MAIL,
  meshMark,
  prohibits,
  proxy,
  taggedRules,
  tenantBridge,
  workload,
} from './lines.js'
import { testStates } from './state.js'

const BOTH = ['nft', 'legacy'] as const

testStates([
  {
    name: 'a bridge deleted by hand, another tenant there: its rules go, the mark of the mesh stays',
    build: 'acct; api; billing; ip link del $GLOBEX',
    backends: BOTH,
    by: 'command',
    // The host route and the link went with the bridge.
    gone: [
      ...workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
      ...isolation(GLOBEX, { detached: true }),
      ...accepts(GLOBEX),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'the last tenant bridge deleted by hand: the mark of the mesh goes too',
    build: 'acct; billing; ip link del $GLOBEX',
    backends: BOTH,
    gone: [
      ...workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
      ...isolation(GLOBEX, { detached: true }),
      ...accepts(GLOBEX),
      meshMark(),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'the mark of the mesh alone, without any tenant bridge',
    build: 'acct; mesh_mark a; mesh_mark b',
    gone: [meshMark({ tag: 'a' }), meshMark()],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'the wrong --bridge: tenants run on bridges that were not looked for, and the mark of the mesh stays',
    build: 'acct; api; billing',
    options: { bridge: 'yah1', subnet: '10.128.3.0/24' },
    notices: [ACCT, API, BILLING].map(({ octet, bridge }) => ({
      object: `address 10.128.3.${octet}`,
      reason: `spared: veth${octet} is on ${bridge}, as its identity chain says, so --bridge may be wrong`,
    })),
    oracle: 'agrees',
  },
  {
    name: 'detached prohibits, tagged rules and ACCEPTs, each of another bridge that never was there',
    build: `
      acct; api
      prohibits $NOBODY 1201 1203; prohibits $NOBODY 1202 1204; tagged $GLOBEX a; tagged $GLOBEX b; accepts $INITECH`,
    backends: BOTH,
    gone: [
      ...prohibits('yah0-vvvvvvvvvv', { tag: 'a', detached: true }),
      ...prohibits('yah0-vvvvvvvvvv', { detached: true }),
      ...taggedRules(GLOBEX, { tag: 'a' }),
      ...taggedRules(GLOBEX),
      ...accepts(MAIL.bridge),
    ],
    bridges: [GLOBEX, MAIL.bridge, 'yah0-vvvvvvvvvv'],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'a bridge deleted by hand with a workload of a live pair on it',
    build: 'acct; billing; api --allow globex/prod/billing; ip link del $GLOBEX',
    gone: [
      ...workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
      ...isolation(GLOBEX, { detached: true }),
      ...accepts(GLOBEX),
      proxy(9, ACME),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'a bridge deleted by hand and made again, empty',
    build: 'acct; api; billing; ip link del $GLOBEX; bridge $GLOBEX',
    gone: [
      ...workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
      `link ${GLOBEX}:`,
      ...isolation(GLOBEX),
      ...accepts(GLOBEX),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'the node bridge deleted by hand: its workloads are gone, the tenants stay',
    build: 'acct; api; billing; stop billing 9; ip link del yah0',
    gone: [
      ...workload({ octet: 2, bridge: 'yah0', mark: '0x6b00' }),
      ...workload(BILLING, { detached: true }),
      ...tenantBridge(GLOBEX),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.2', '10.128.3.9'],
    oracle: 'agrees',
  },
])
