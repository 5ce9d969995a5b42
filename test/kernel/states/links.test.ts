/** Links that only look like this project's, and bridges of this project that somebody else uses. */
import { API, BILLING, GLOBEX, hostRoute, pairProxies, tenantBridge, workload } from './lines.js'
import { testStates } from './state.js'

const foreign = (reason: string) => [{ object: `bridge ${GLOBEX}`, reason: `foreign: ${reason}` }]
const stopped = 'acct; api; billing; stop billing 9'

/** A tenant bridge that somebody uses stays, isolation included; the workload that stopped on it is gone all the same. */
testStates([
  {
    name: 'a foreign bridge: a port of another name',
    build: `${stopped}; link tap0; ip link set tap0 master $GLOBEX`,
    backends: ['nft', 'legacy'],
    by: 'command',
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign('port tap0'),
    oracle: 'agrees',
  },
  {
    name: 'a foreign bridge: a port of another kind whose name would fit',
    build: `${stopped}; other_kind veth9; ip link set veth9 master $GLOBEX`,
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign('port veth9'),
    oracle: 'agrees',
  },
  ...['veth1', 'veth300'].map((port) => ({
    name: `a foreign bridge: port ${port}`,
    build: `${stopped}; link ${port}; ip link set ${port} master $GLOBEX`,
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign(`port ${port}`),
    oracle: { differs: 'takes every veth<number> for a port of ours' },
  })),
  {
    name: 'a foreign bridge: another IPv4 address beside the gateway',
    build: `${stopped}; ip addr add 192.168.7.1/24 dev $GLOBEX`,
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign('address 192.168.7.1/24'),
    oracle: { differs: 'looks at the ports alone' },
  },
  {
    name: 'a foreign bridge: the gateway with another prefix',
    build: 'acct; api; bridge $GLOBEX 10.128.3.1/25; prohibits $GLOBEX 1202 1204; tagged $GLOBEX b',
    notices: foreign('address 10.128.3.1/25'),
    oracle: { differs: 'looks at the ports alone' },
  },
  {
    name: 'a foreign bridge with a workload on it: all of it stays',
    build: 'acct; api; billing; link tap0; ip link set tap0 master $GLOBEX',
    notices: foreign('port tap0'),
    oracle: 'agrees',
  },
  {
    name: 'the last tenant bridge is a foreign one: the mark of the mesh stays',
    build: 'acct; billing; stop billing 9; link tap0; ip link set tap0 master $GLOBEX',
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign('port tap0'),
    oracle: 'agrees',
  },
  {
    name: 'a host route out of a foreign bridge, to an address that no workload ever had',
    build:
      'acct; api; bridge $GLOBEX; link tap0; ip link set tap0 master $GLOBEX; ip route add 10.128.3.77/32 dev $GLOBEX',
    notices: foreign('port tap0'),
    oracle: { differs: 'takes the route of a machine that somebody plugged into the bridge' },
  },
  {
    name: 'proxy entries on a foreign bridge, for a live address and for one that no workload ever had, and a route to that',
    build: `${stopped}; link tap0; ip link set tap0 master $GLOBEX; ip route add 10.128.3.200/32 dev $GLOBEX
      for octet in 7 200; do ip neigh add proxy 10.128.3.$octet dev $GLOBEX; done`,
    gone: workload(BILLING),
    addresses: ['10.128.3.9'],
    notices: foreign('port tap0'),
    oracle: { differs: 'takes what somebody put on a bridge of his' },
  },
  {
    name: 'a foreign bridge: the proxy entries of a pair go with its workload, on this bridge and on the other',
    build: 'acct; billing; api --allow globex/prod/billing; stop billing 9; link tap0; ip link set tap0 master $GLOBEX',
    gone: [...workload(BILLING), ...pairProxies(API, BILLING)],
    addresses: ['10.128.3.9'],
    notices: foreign('port tap0'),
    oracle: 'agrees',
  },
  {
    name: 'somebody plugs a machine into the node bridge: no business of a sweep',
    build: 'acct; link tap0; ip link set tap0 master yah0; ip addr add 192.168.7.1/24 dev yah0',
    oracle: 'agrees',
  },
])

/** Names that a tenant bridge has not, all of them empty bridges with rules in the form of ours. */
const NAMES = [
  'yah0-scratch',
  'yah0-012345678',
  'yah0-zzzzzzzzzz',
  'yah0-6JGFQFDNU6',
  'yah1-6jgfqfdnu6',
  'yah-6jgfqfdnu6',
  'yah06jgfqfdnu6x',
  'docker0',
]

testStates([
  {
    name: 'empty bridges whose names only look like a tenant bridge, with all that a tenant bridge carries',
    build: `
      acct; api; billing; stop billing 9
      for name in ${NAMES.join(' ')}; do
        bridge $name; prohibits $name 1202 1204; tagged $name b; accepts $name
      done`,
    backends: ['nft', 'legacy'],
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'rules for names that only look like a tenant bridge, and no such links',
    build: `
      acct
      for name in ${NAMES.join(' ')} yah0-012345678+ 'yah0-+'; do
        prohibits "$name" 1202 1204; tagged "$name" b; accepts "$name"
      done`.replace('prohibits "$name" 1202 1204;', 'case $name in *+) ;; *) prohibits "$name" 1202 1204 ;; esac;'),
    backends: ['nft', 'legacy'],
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: 'a link of another kind that bears the name of a tenant bridge, with nothing else',
    build: 'acct; api; link $NOBODY tap0; bridge $GLOBEX',
    gone: [`link ${GLOBEX}:`],
    bridges: [GLOBEX],
    oracle: 'agrees',
  },
  {
    name: 'a link of another kind that bears the name of a bridge that was deleted: its rules are not detached',
    build: 'acct; api; billing; ip link del $GLOBEX; link $GLOBEX tap0',
    backends: ['nft', 'legacy'],
    gone: workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'an alternative name of another link is that of a bridge that was deleted: the kernel takes rules for it',
    build: 'acct; api; billing; ip link del $GLOBEX; link tap0; ip link property add dev tap0 altname $GLOBEX',
    gone: workload(BILLING).filter((line) => line !== hostRoute(9, GLOBEX)),
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'a tenant bridge under an alternative name is a bridge by its own name alone',
    build:
      'acct; api; bridge docker0; ip link property add dev docker0 altname $NOBODY; ip link property add dev veth7 altname veth77',
    oracle: 'agrees',
  },
  {
    name: 'a veth on a bridge of docker whose name would fit is nobody we know',
    build: `${stopped}; bridge docker0 172.17.0.1/16; link veth9; ip link set veth9 master docker0; ip link set veth9 up`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'the alternative name of a link is that of a host veth',
    build: `${stopped}; link tap0; ip link property add dev tap0 altname veth9; ip link set tap0 master yah0`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
])
