/** Routes, rules, proxy entries and filters that only look like this project's, and those that the kernel would take first. */
import { ACME, BILLING, GLOBEX, hostRoute, prohibits, tenantBridge, WEB, workload, workloadProhibit } from './lines.js'
import { testStates } from './state.js'

const stoppedMate = 'acct; api; web; stop web 8'
const stoppedTenant = 'acct; api; billing; stop billing 9'

testStates([
  {
    name: 'routes to a departed address that are not ours, behind ours',
    build: `
      ${stoppedMate}; bridge docker0 172.17.0.1/16; ip addr add 10.128.3.1/32 dev lo
      ip route append 10.128.3.8/32 dev $ACME src 10.128.3.1
      ip route append 10.128.3.8/32 dev $ACME mtu 1400
      ip route append 10.128.3.8/32 dev $ACME scope host
      ip route append 10.128.3.8/32 dev $ACME scope global
      ip route append 10.128.3.8/32 dev docker0
      ip route append 10.128.3.8/32 via 172.17.0.9 dev docker0
      ip route append 10.128.3.8/32 nexthop dev $ACME nexthop dev docker0
      ip route add 10.128.3.8/32 dev $ACME tos 0x10
      ip route add 10.128.3.8/32 dev $ACME metric 100
      ip route add 10.128.3.8/32 via 10.128.3.7 dev $ACME onlink metric 50
      ip route add blackhole 10.128.3.8/32 metric 7
      ip route add 10.128.3.8/32 dev $ACME table 100
      ip route add 10.128.3.8/31 dev $ACME
      ip route add 10.128.4.8/32 dev $ACME
      ip route add 10.128.3.255/32 dev $ACME; ip route add 10.128.3.0/32 dev $ACME`,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: { differs: 'takes 10.128.3.255 for a workload' },
  },
  {
    name: 'the same routes alone: nobody departed',
    build: `
      acct; api; bridge docker0 172.17.0.1/16; ip addr add 10.128.3.1/32 dev lo
      ip route add 10.128.3.20/32 dev $ACME src 10.128.3.1
      ip route add 10.128.3.21/32 dev $ACME mtu 1400
      ip route add 10.128.3.22/32 dev $ACME scope host
      ip route add 10.128.3.23/32 dev $ACME scope global
      ip route add 10.128.3.24/32 dev docker0
      ip route add 10.128.3.25/32 via 10.128.3.7 dev $ACME onlink
      ip route add 10.128.3.26/32 nexthop dev $ACME nexthop dev docker0
      ip route add 10.128.3.27/32 dev $ACME tos 0x10
      ip route add 10.128.3.28/32 dev $ACME metric 100
      ip route add blackhole 10.128.3.29/32
      ip route add 10.128.3.30/32 dev $ACME table 100
      ip route add 10.128.3.32/31 dev $ACME
      ip route add 10.128.4.8/32 dev $ACME
      ip route add 10.128.3.255/32 dev $ACME; ip route add 10.128.3.0/32 dev $ACME; ip route add 10.128.3.1/32 dev $ACME`,
    by: 'command',
    oracle: { differs: 'looks at address, device, scope and metric alone' },
  },
  {
    name: 'a route out of our bridge and then another, behind ours: ours goes',
    build: `${stoppedMate}; ip route append 10.128.3.8/32 scope link nexthop dev $ACME nexthop dev yah0`,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'such a route before ours: ours stays',
    build: `${stoppedMate}; ip route prepend 10.128.3.8/32 scope link nexthop dev $ACME nexthop dev yah0`,
    gone: workload(WEB).filter((line) => line !== hostRoute(8, ACME)),
    addresses: ['10.128.3.8'],
    kept: [{ object: `route 10.128.3.8/32 dev ${ACME}`, reason: /not ours: 10\.128\.3\.8\/32/ }],
    oracle: { differs: 'deletes whichever route the kernel takes first' },
  },
  {
    name: 'a route with a source before ours: ours stays, and the other is named',
    build: `${stoppedMate}; ip route prepend 10.128.3.8/32 dev $ACME src 10.128.3.1`,
    gone: workload(WEB).filter((line) => line !== hostRoute(8, ACME)),
    addresses: ['10.128.3.8'],
    kept: [{ object: `route 10.128.3.8/32 dev ${ACME}`, reason: /not ours: 10\.128\.3\.8\/32 .*src 10\.128\.3\.1/ }],
    oracle: { differs: 'deletes whichever route the kernel takes first' },
  },
  {
    name: 'a route with an MTU before ours: ours stays',
    build: `${stoppedMate}; ip route prepend 10.128.3.8/32 dev $ACME mtu 1400`,
    by: 'command',
    gone: workload(WEB).filter((line) => line !== hostRoute(8, ACME)),
    addresses: ['10.128.3.8'],
    kept: [{ object: `route 10.128.3.8/32 dev ${ACME}`, reason: /not ours: 10\.128\.3\.8\/32/ }],
    oracle: { differs: 'deletes whichever route the kernel takes first' },
  },
  {
    name: 'a route of another protocol with a source before ours: the kernel is told ours',
    build: `${stoppedMate}; ip route prepend 10.128.3.8/32 dev $ACME src 10.128.3.1 proto static`,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: { differs: 'names no protocol, so it deletes the other' },
  },
])

/** Everything in which a rule can differ from a prohibit of ours, each as `ip rule add` takes it. */
const OTHER_RULES = [
  'priority 1199 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1203 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0x2000000/0x2000000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x3000000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/25 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF to 10.128.4.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF from 10.0.0.0/8 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 tos 0x10 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF oif docker0 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 ipproto tcp prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 uidrange 0-1000 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 sport 53 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 dport 53 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 tun_id 7 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 protocol 99 prohibit',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 blackhole',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 unreachable',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 lookup 100',
  'priority 1202 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 goto 32766',
  'priority 1204 iif IIF to 100.64.0.0/10 fwmark 0/0x2000000 prohibit',
  'priority 1204 iif IIF to 100.64.0.0/11 fwmark 0/0x3000000 prohibit',
  'priority 1204 iif IIF to 100.64.0.0/10 fwmark 0x1000000/0x3000000 prohibit',
  'priority 0 iif IIF to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif IIF to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
  'priority 1202 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0x1/0x2000001 prohibit',
  'priority 1200 iif yah0 to 10.128.3.9/31 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif yah0 to 10.128.4.9/32 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif yah0 to 10.128.3.1/32 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif yah0 to 10.128.3.255/32 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif docker0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit',
  'priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 unreachable',
]

function rules(iif: string): string {
  return OTHER_RULES.map((rule) => `ip rule add ${rule.replace('IIF', iif)}`).join('\n')
}

testStates([
  {
    name: 'rules of every other form that name a bridge that does not exist: nothing is detached',
    build: `
      acct; api; bridge docker0
      ip rule add not priority 1202 iif $NOBODY to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
      ip rule add not priority 1200 iif yah0 to 10.128.3.9/32 fwmark 0/0x2000000 prohibit
      ${rules('$NOBODY')}`,
    by: 'command',
    oracle: { differs: 'takes a prohibit with `not`, and those of .1 and .255, for those of workloads' },
  },
  {
    name: 'rules of every other form behind ours: ours go alone',
    build: `${stoppedTenant}; bridge docker0
      ${rules('$GLOBEX')}`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: { differs: 'takes two rules of each priority away, whosever the second is' },
  },
  ...(
    [
      ['a mark', 'fwmark 0x2000000/0x2000000', 'fwmark 0x2000000/0x2000000'],
      ['a protocol', 'fwmark 0/0x2000000 protocol 99', 'fwmark 0/0x2000000'],
      ['an output interface', 'oif docker0 fwmark 0/0x2000000', 'oif docker0'],
      ['a port', 'fwmark 0/0x2000000 ipproto tcp dport 53', 'ipproto 6'],
      ['a range of users', 'fwmark 0/0x2000000 uidrange 0-1000', 'uidrange 0-1000'],
    ] as const
  ).map(([what, selector, named], at) => ({
    name: `a rule with ${what} before ours at the same priority: ours stays, and the other is named`,
    build: `
      ${stoppedTenant}; bridge docker0
      ip rule del priority 1202 iif $GLOBEX to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
      ip rule add priority 1202 iif $GLOBEX to 10.128.3.0/24 ${selector} prohibit
      ip rule add priority 1202 iif $GLOBEX to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
    by: at === 0 ? ('command' as const) : ('library' as const),
    gone: [
      ...workload(BILLING),
      ...tenantBridge(GLOBEX).filter((line) => line !== prohibits(GLOBEX)[0] && !/^(link|addr) /.test(line)),
    ],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    kept: [
      {
        object: `priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
        reason: new RegExp(`not ours: priority 1202 .*${named.replaceAll('/', '\\/')}`),
      },
      // A bridge whose rules would not go keeps its link.
      { object: `bridge ${GLOBEX}`, reason: /priority 1202 .* is still there/ },
    ],
    oracle: { differs: 'deletes rules as loosely as ip rule del does' },
  })),
  {
    name: 'a foreign rule before the prohibit of a departed address',
    build: `
      ${stoppedMate}
      ip rule del priority 1200 iif yah0 to 10.128.3.8/32 fwmark 0/0x2000000 prohibit
      ip rule add priority 1200 iif yah0 to 10.128.3.8/32 fwmark 0x2000000/0x2000000 prohibit
      ip rule add priority 1200 iif yah0 to 10.128.3.8/32 fwmark 0/0x2000000 prohibit`,
    gone: workload(WEB).filter((line) => line !== workloadProhibit(8)),
    addresses: ['10.128.3.8'],
    kept: [
      {
        object: 'priority 1200 iif yah0 to 10.128.3.8/32 fwmark 0/0x2000000 prohibit',
        reason: /not ours: priority 1200 .*fwmark 0x2000000\/0x2000000/,
      },
    ],
    oracle: { differs: 'deletes rules as loosely as ip rule del does' },
  },
  {
    name: 'a foreign rule before the detached prohibit of a bridge',
    build: `
      acct; api
      ip rule add priority 1204 iif $NOBODY to 100.64.0.0/10 fwmark 0x1000000/0x3000000 prohibit
      ip rule add priority 1204 iif $NOBODY to 100.64.0.0/10 fwmark 0/0x3000000 prohibit`,
    kept: [
      {
        object: 'priority 1204 iif yah0-vvvvvvvvvv to 100.64.0.0/10 fwmark 0/0x3000000 prohibit',
        reason: /not ours: priority 1204 .*fwmark 0x1000000\/0x3000000/,
      },
    ],
    oracle: { differs: 'finds nothing detached' },
  },
  {
    name: 'a foreign rule with our selector and another action before ours: the action is named to the kernel',
    build: `
      ${stoppedTenant}
      ip rule del priority 1202 iif $GLOBEX to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
      ip rule add priority 1202 iif $GLOBEX to 10.128.3.0/24 fwmark 0/0x2000000 unreachable
      ip rule add priority 1202 iif $GLOBEX to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'the rules at 0, 32766 and 32767 are gone or twice there: whatever others made of them stays',
    build: `
      ${stoppedTenant}; ip rule del priority 32767; ip rule add priority 32766 fwmark 0x1 lookup main
      ip rule add priority 0 iif $GLOBEX lookup local`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
])

/** Proxy entries and filters. */
testStates([
  {
    name: 'proxy entries outside the /24, on other links, and of IPv6',
    build: `
      acct; api; bridge docker0; bridge yah0-scratch
      ip neigh add proxy 10.128.4.9 dev $ACME; ip neigh add proxy 10.128.4.9 dev yah0
      ip neigh add proxy 10.128.3.9 dev docker0; ip neigh add proxy 10.128.3.9 dev yah0-scratch
      ip neigh add proxy 10.128.3.9 dev veth7; ip neigh add proxy 10.128.3.9 dev lo
      ip -6 neigh add proxy fd00::9 dev yah0`,
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: "filters of somebody else's on a bridge that stays, at the grants' pref and another, and the clsact that they hang on",
    build: `
      ${stoppedMate}
      tc qdisc add dev $ACME clsact
      filter dev $ACME ingress protocol arp pref 895
      filter dev $ACME ingress protocol ip pref 7
      filter dev $ACME egress protocol all pref 8
      tc qdisc add dev yah0 ingress`,
    gone: workload(WEB),
    addresses: ['10.128.3.8'],
    oracle: 'agrees',
  },
])
