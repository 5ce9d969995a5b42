/** What is left when something went wrong: half-stopped workloads, deploys that ended early, copies. */
import {
  ACME,
  API,
  accepts,
  BILLING,
  bridgeLink,
  chain,
  GLOBEX,
  grants,
  hostRoute,
  identity,
  isolation,
  meshMark,
  pairProxies,
  prohibits,
  proxy,
  taggedRules,
  tenantBridge,
  times,
  WEB,
  workload,
  workloadProhibit,
} from './lines.js'
import { testStates } from './state.js'

const BOTH = ['nft', 'legacy'] as const

/** Half-stopped. */
testStates([
  {
    name: 'a host veth deleted by hand, its namespace still there',
    build: 'acct; api; billing; ip link del veth9',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'a namespace file that is gone while a process holds the namespace: the veth is there, the workload lives',
    build: `
      acct; api; billing
      nsenter --net=/run/netns/billing sleep 1000 </dev/null >/dev/null 2>&1 &
      until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do :; done
      ip netns del billing`,
    oracle: 'agrees',
  },
  {
    name: 'host veths that are down, and a bridge that is down, with their workloads on them: live',
    build: 'acct; api; billing; ip link set veth9 down; ip link set $ACME down',
    oracle: 'agrees',
  },
  {
    name: 'a host veth taken off its bridge: the workload is gone, the veth is nobody we delete',
    build: 'acct; api; billing; ip link set veth9 nomaster',
    by: 'command',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: "a host veth on another tenant's bridge: live, and its own bridge is empty",
    build: 'acct; api; billing; ip link set veth9 master $ACME',
    // The kernel takes the route along with the link.
    gone: [...tenantBridge(GLOBEX), hostRoute(9, GLOBEX)],
    bridges: [GLOBEX],
    notices: [{ object: `route 10.128.3.9/32 dev ${GLOBEX}`, reason: `misplaced: 10.128.3.9 is live on ${ACME}` }],
    oracle: 'agrees',
  },
])

/** Interrupted deploys: each of them beside a live tenant, whose state stays. */
testStates([
  {
    name: 'a bridge without address, rules or workload',
    build: 'acct; api; bridge $GLOBEX',
    gone: [`link ${GLOBEX}:`],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'a bridge with the gateway and nothing else',
    build: 'acct; api; bridge $GLOBEX 10.128.3.1/32',
    gone: bridgeLink(GLOBEX),
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'a tenant bridge that holds the gateway as a /24',
    build: 'acct; api; bridge $GLOBEX; ip addr add 10.128.3.1/24 dev $GLOBEX noprefixroute',
    gone: [`link ${GLOBEX}:`, `addr ${GLOBEX} 10.128.3.1/24`],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'the first generation alone',
    build: 'acct; api; bridge $GLOBEX 10.128.3.1/32; prohibits $GLOBEX 1201 1203; tagged $GLOBEX a',
    backends: BOTH,
    gone: [...bridgeLink(GLOBEX), ...isolation(GLOBEX, { tag: 'a' })],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'both generations',
    build: `
      acct; api; bridge $GLOBEX 10.128.3.1/32
      prohibits $GLOBEX 1201 1203; prohibits $GLOBEX 1202 1204; tagged $GLOBEX a; tagged $GLOBEX b; accepts $GLOBEX`,
    backends: BOTH,
    gone: [...tenantBridge(GLOBEX), ...isolation(GLOBEX, { tag: 'a' })],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'the first generation of the mark of the mesh, on a node with tenants',
    build: 'acct; api; mesh_mark a; bridge $GLOBEX 10.128.3.1/32',
    gone: bridgeLink(GLOBEX),
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'both generations of the mark of the mesh, on a node without tenants',
    build: 'acct; mesh_mark a; mesh_mark b; mesh_mark b; bridge $GLOBEX 10.128.3.1/32',
    gone: [...bridgeLink(GLOBEX), meshMark({ tag: 'a' }), meshMark(), meshMark()],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'a veth pair that hangs on nothing yet',
    build: 'acct; api; link veth9 vethc9; bridge $GLOBEX 10.128.3.1/32',
    gone: bridgeLink(GLOBEX),
    bridges: [GLOBEX],
    notices: [{ object: 'veth veth9', reason: 'misplaced: veth9 and vethc9 hang on nothing' }],
    oracle: 'agrees',
  },
  {
    name: 'a veth pair on its bridge, the peer not moved, and nothing else: live',
    build: 'acct; bridge $GLOBEX 10.128.3.1/32; link veth9 vethc9; ip link set veth9 master $GLOBEX',
    oracle: 'agrees',
  },
  {
    name: 'chains that are declared and empty, without jumps',
    build: 'acct; ipt -t mangle -N yah-id-10.128.3.9; ipt -t mangle -N yah-gr-10.128.3.10',
    backends: BOTH,
    by: 'command',
    gone: [chain('id', 9), chain('gr', 10)],
    addresses: ['10.128.3.9', '10.128.3.10'],
    oracle: 'agrees',
  },
  {
    name: 'an identity chain without its jump',
    build: 'acct; billing; stop billing 9; ipt -t mangle -D PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9',
    gone: [...workload(BILLING).filter((line) => !line.includes('PREROUTING')), ...tenantBridge(GLOBEX), meshMark()],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'a workload prohibit alone',
    build: 'acct; ip rule add priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
    gone: [workloadProhibit(9)],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'a host route alone, on the node bridge and on a live tenant bridge',
    build: 'acct; api; ip route add 10.128.3.9/32 dev yah0; ip route add 10.128.3.10/32 dev $ACME',
    gone: [hostRoute(9, 'yah0'), hostRoute(10, ACME)],
    addresses: ['10.128.3.9', '10.128.3.10'],
    oracle: 'agrees',
  },
  {
    name: 'host routes that another routing daemon or a person asserted again: whatever protocol they carry',
    build:
      'acct; api; ip route add 10.128.3.9/32 dev $ACME proto static; ip route add 10.128.3.10/32 dev $ACME proto 186',
    gone: [
      `route 10.128.3.9 dev ${ACME} proto static scope link`,
      `route 10.128.3.10 dev ${ACME} proto bgp scope link`,
    ],
    addresses: ['10.128.3.9', '10.128.3.10'],
    oracle: 'agrees',
  },
  {
    name: 'proxy entries that no pair wants: of a departed address, of live ones, and of the gateway',
    build: `
      acct; api; billing
      ip neigh add proxy 10.128.3.10 dev $ACME; ip neigh add proxy 10.128.3.10 dev yah0
      ip neigh add proxy 10.128.3.9 dev $ACME; ip neigh add proxy 10.128.3.1 dev yah0`,
    gone: [proxy(10, ACME), proxy(10, 'yah0'), proxy(9, ACME), proxy(1, 'yah0')],
    addresses: ['10.128.3.10'],
    oracle: 'agrees',
  },
  {
    name: 'a grant whose identity changed: the pair is none any more',
    build: `
      acct; billing; api --allow globex/prod/billing
      ipt -t mangle -F yah-id-10.128.3.9
      ipt -t mangle -A yah-id-10.128.3.9 -i $GLOBEX -s 10.128.3.9 -d 10.128.3.0/24 -j MARK --set-xmark 0x7/0xffff`,
    gone: pairProxies(API, BILLING),
    oracle: 'agrees',
  },
])

/** Copies. */
testStates([
  {
    name: 'three copies of every tagged rule, four of the ACCEPTs, both generations, both priorities',
    build: `
      acct; api; billing; stop billing 9
      tagged $GLOBEX b; tagged $GLOBEX b; tagged $GLOBEX a; tagged $GLOBEX a
      accepts $GLOBEX; accepts $GLOBEX; accepts $GLOBEX; prohibits $GLOBEX 1201 1203`,
    backends: BOTH,
    by: 'command',
    gone: [
      ...workload(BILLING),
      ...tenantBridge(GLOBEX),
      ...times(2, taggedRules(GLOBEX)),
      ...times(2, taggedRules(GLOBEX, { tag: 'a' })),
      ...prohibits(GLOBEX, { tag: 'a' }),
      ...times(3, accepts(GLOBEX)),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: "three copies of a departed address's jumps and of the rules of its chains",
    build: `
      acct; web; api --allow singleton/default/acct
      for copy in 1 2; do
        ipt -t mangle -I PREROUTING -s 10.128.3.7 -j yah-id-10.128.3.7
        ipt -t mangle -A PREROUTING -d 10.128.3.7 -j yah-gr-10.128.3.7
        ipt -t mangle -A yah-id-10.128.3.7 -i $ACME -s 10.128.3.7 -d 10.128.3.0/24 -j MARK --set-xmark 0x2909/0xffff
      done
      stop api 7`,
    backends: BOTH,
    gone: [
      ...workload(API),
      ...grants(API, [{ octet: 2, bridge: 'yah0', mark: '0x6b00' }]),
      ...times(
        2,
        identity(API).filter((line) => !line.includes(':yah')),
      ),
      ...times(2, ['mangle -A PREROUTING -d 10.128.3.7/32 -j yah-gr-10.128.3.7']),
      ...pairProxies(API, { octet: 2, bridge: 'yah0', mark: '0x6b00' }),
    ],
    addresses: ['10.128.3.7'],
    // It deletes each jump once, and then the kernel will not let the chains go.
    oracle: { differs: 'deletes one copy of a jump' },
  },
  {
    name: 'chains that hold what others wrote into them: the chain goes with it',
    build: `
      acct; web; stop web 8; api
      ipt -t mangle -A yah-id-10.128.3.8 -p tcp --dport 80 -m comment --comment 'said "so", once' -j RETURN
      ipt -t mangle -N theirs; ipt -t mangle -A yah-gr-10.128.3.8 -j theirs`,
    backends: BOTH,
    gone: [
      ...workload(WEB),
      'mangle -A yah-id-10.128.3.8 -p tcp -m tcp --dport 80 -m comment --comment "said \\"so\\", once" -j RETURN',
      'mangle -A yah-gr-10.128.3.8 -j theirs',
    ],
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
])
