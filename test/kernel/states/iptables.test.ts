/** Rules and chains that only look like this project's, and chains that somebody holds. */
import { ACME, API, accepts, BILLING, chain, GLOBEX, meshMark, tenantBridge, WEB, workload } from './lines.js'
import { testStates } from './state.js'

const BOTH = ['nft', 'legacy'] as const
const stoppedTenant = 'acct; api; billing; stop billing 9'
const goneTenant = {
  gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
  bridges: [GLOBEX],
  addresses: ['10.128.3.9'],
}

/** What a rule of ours would be but for one thing; each names the bridge that goes. */
const OTHER_RULES = `
  tag='-m comment --comment yah-isolation-b' net=10.128.3.0/24 mark='-m mark ! --mark 0x2000000/0x2000000'
  reply='-j MARK --set-xmark 0x1000000/0x1000000'
  # another comment, none, two, and ours inside another
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert -m comment --comment yah-isolation-c -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert -m comment --comment "yah-isolation-b " -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert -m comment --comment 'x" -m comment --comment yah-isolation-b' -j DROP
  ipt -t raw -I PREROUTING -m comment --comment "-i $B -m rpfilter --invert -m comment --comment yah-isolation-b -j DROP" -j RETURN
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert $tag -m comment --comment mine -j DROP
  # another match, table, chain, target
  ipt -t raw -I PREROUTING -i $B -p tcp -m rpfilter --invert $tag -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert --loose $tag -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter $tag -j DROP
  ipt -t raw -I PREROUTING ! -i $B -m rpfilter --invert $tag -j DROP
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert $tag -j ACCEPT
  ipt -t raw -I PREROUTING -i $B -m rpfilter --invert $tag
  ipt -t mangle -I PREROUTING -i $B -m rpfilter --invert $tag -j DROP
  ipt -t mangle -I PREROUTING -i $B -m conntrack --ctstate ESTABLISHED $tag $reply
  ipt -t mangle -I PREROUTING -i $B -m conntrack --ctstate ESTABLISHED,RELATED $tag -j MARK --set-xmark 0x1000000/0x3000000
  ipt -t mangle -I PREROUTING -i $B -m conntrack --ctstate ESTABLISHED,RELATED -m limit --limit 5/sec $tag $reply
  ipt -t mangle -N theirs; ipt -t mangle -A theirs -i $B -m conntrack --ctstate ESTABLISHED,RELATED $tag $reply
  ipt -t mangle -I PREROUTING -s 100.64.0.0/11 -d $net $tag $reply
  ipt -t mangle -I PREROUTING -s 100.64.0.0/10 -d 10.128.4.0/24 $tag $reply
  ipt -t mangle -I PREROUTING -s 100.64.0.0/10 -d $net -m comment --comment "mesh of $B" $reply
  ipt -I FORWARD -i $B -d 10.128.4.0/24 ! -o $B $mark $tag -j DROP
  ipt -I FORWARD -i $B -d $net ! -o $B $tag -j DROP
  ipt -I FORWARD -i $B -d $net -o $B $mark $tag -j DROP
  ipt -I FORWARD -i $B -d $net ! -o docker0 $mark $tag -j DROP
  ipt -I FORWARD -i docker0 -o $B $mark $tag -j DROP
  ipt -I FORWARD -i $B -o yah0 $mark $tag -j DROP
  ipt -I OUTPUT -o $B -s $net $mark $tag -j DROP
  ipt -I INPUT -i $B ! -p udp -m conntrack ! --ctstate ESTABLISHED,RELATED $tag -j DROP
  ipt -I INPUT -i $B -m conntrack ! --ctstate ESTABLISHED,RELATED $tag -j DROP
  # ACCEPTs with something else, elsewhere, and of more links than one
  ipt -A FORWARD -i $B -s 10.0.0.0/8 -j ACCEPT
  ipt -A FORWARD -i $B -o $B -j ACCEPT
  ipt -A FORWARD -i $B -m comment --comment mine -j ACCEPT
  ipt -A FORWARD -i $B $tag -j ACCEPT
  ipt -A FORWARD ! -i $B -j ACCEPT
  ipt -A FORWARD -i $B -j DROP
  ipt -A FORWARD -i $B
  ipt -A INPUT -i $B -j ACCEPT
  ipt -A OUTPUT -o $B -j ACCEPT
  ipt -t mangle -A FORWARD -i $B -j ACCEPT
  ipt -A FORWARD -i \${B%?}+ -j ACCEPT; ipt -A FORWARD -i yah0-+ -j ACCEPT; ipt -A FORWARD -o yah+ -j ACCEPT
  ipt -N users; ipt -A users -i $B -j ACCEPT; ipt -A FORWARD -j users
  ipt -t nat -A POSTROUTING -o $B -j MASQUERADE
`

testStates([
  {
    name: 'rules of every other form beside those of a dead bridge',
    build: `${stoppedTenant}; B=$GLOBEX
      ${OTHER_RULES}`,
    backends: BOTH,
    ...goneTenant,
    oracle: 'agrees',
  },
  {
    name: 'rules of every other form that name a bridge that does not exist: nothing is detached',
    build: `acct; api; B=$NOBODY
      ${OTHER_RULES}`,
    backends: BOTH,
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: 'a rule of ours written in another way is the same rule',
    build: `
      acct; api; bridge $GLOBEX 10.128.3.1/32
      ipt -A FORWARD --out-interface $GLOBEX --jump ACCEPT
      ipt -I INPUT -m comment --comment yah-isolation-b -m conntrack ! --ctstate RELATED,ESTABLISHED ! -p 1 -i $GLOBEX -j DROP
      ipt -t mangle -I PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment yah-isolation-a -i $GLOBEX -j MARK --set-mark 0x1000000/0x1000000`,
    backends: BOTH,
    gone: [
      `link ${GLOBEX}:`,
      `addr ${GLOBEX} 10.128.3.1/32`,
      accepts(GLOBEX)[1] ?? '',
      `filter -A INPUT -i ${GLOBEX} ! -p icmp -m comment --comment yah-isolation-b -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP`,
      `mangle -A PREROUTING -i ${GLOBEX} -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment yah-isolation-a -j MARK --set-xmark 0x1000000/0x1000000`,
    ],
    bridges: [GLOBEX],
    oracle: { differs: 'deletes rules in one spelling: the comment behind the other matches' },
  },
  {
    name: 'chains that only look like those of an address, with jumps to them',
    build: `
      acct; api
      for name in id-10.128.4.9 id-010.128.3.9 id-10.128.3.09 id-10.128.3.1 gr-10.128.3.0 gr-10.128.3.255 xx-10.128.3.9 \\
        id-10.128.3.9x id-10.128.3 id-10.128.3.9.9 gr-10.128.3.300 id-10.128.3.-9 id-1.2.3.9 idx-10.128.3.9; do
        ipt -t mangle -N yah-$name; ipt -t mangle -A PREROUTING -s 10.128.3.9 -j yah-$name
      done
      for name in YAH-ID-10.128.3.9 xyah-id-10.128.3.9; do ipt -t mangle -N $name; done
      for table in raw filter nat; do
        ipt -t $table -N yah-id-10.128.3.9; ipt -t $table -N yah-gr-10.128.3.9
        ipt -t $table -A yah-id-10.128.3.9 -j RETURN
      done
      ipt -t raw -A PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9; ipt -A FORWARD -s 10.128.3.9 -j yah-id-10.128.3.9`,
    backends: BOTH,
    by: 'command',
    oracle: 'agrees',
  },
])

/** Chains that the kernel will not delete, since a rule that is not ours jumps to them. */
testStates([
  {
    name: 'a jump of another form to a departed identity chain: ours goes, the chain stays empty, and who holds it is named',
    build: `acct; api; web; stop web 8; ipt -t mangle -A PREROUTING -p tcp -s 10.128.3.8 -j yah-id-10.128.3.8`,
    backends: BOTH,
    by: 'command',
    gone: workload(WEB).filter((line) => line !== chain('id', 8)),
    addresses: ['10.128.3.8'],
    kept: [
      {
        object: 'BACKEND mangle: chain yah-id-10.128.3.8',
        reason: /-A PREROUTING -s 10\.128\.3\.8\/32 -p tcp -j yah-id-10\.128\.3\.8/,
      },
    ],
    oracle: { differs: 'fails to delete the chain as well, and says nothing' },
  },
  {
    name: 'jumps from other chains, and a goto: both chains stay, the bridge goes',
    build: `
      ${stoppedTenant}; ipt -t mangle -A FORWARD -s 10.128.3.9 -j yah-gr-10.128.3.9
      ipt -t mangle -A PREROUTING -s 10.128.3.9 -g yah-id-10.128.3.9`,
    backends: BOTH,
    gone: goneTenant.gone.filter((line) => !line.startsWith('mangle :')),
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    kept: [
      { object: 'BACKEND mangle: chain yah-gr-10.128.3.9', reason: /-A FORWARD -s 10\.128\.3\.9\/32 -j yah-gr/ },
      { object: 'BACKEND mangle: chain yah-id-10.128.3.9', reason: /-A PREROUTING -s 10\.128\.3\.9\/32 -g yah-id/ },
    ],
    oracle: { differs: 'fails to delete the chains as well, and says nothing' },
  },
  {
    name: "a chain of a departed address that a live workload's own chain jumps to",
    build: 'acct; api; web; stop web 8; ipt -t mangle -A yah-gr-10.128.3.7 -j yah-id-10.128.3.8',
    gone: workload(WEB).filter((line) => line !== chain('id', 8)),
    addresses: ['10.128.3.8'],
    kept: [
      { object: 'BACKEND mangle: chain yah-id-10.128.3.8', reason: /-A yah-gr-10\.128\.3\.7 -j yah-id-10\.128\.3\.8/ },
    ],
    oracle: { differs: 'fails to delete the chain as well, and says nothing' },
  },
  {
    name: 'chains of departed addresses that jump to each other go together',
    build: `
      acct; api; web; stop web 8; stop api 7
      ipt -t mangle -A yah-gr-10.128.3.7 -j yah-id-10.128.3.8; ipt -t mangle -A yah-id-10.128.3.7 -j yah-gr-10.128.3.7`,
    backends: BOTH,
    gone: [
      ...workload(WEB),
      ...workload(API),
      'mangle -A yah-gr-10.128.3.7 -j yah-id-10.128.3.8',
      'mangle -A yah-id-10.128.3.7 -j yah-gr-10.128.3.7',
      ...tenantBridge(ACME),
      meshMark(),
    ],
    bridges: [ACME],
    addresses: ['10.128.3.7', '10.128.3.8'],
    oracle: 'agrees',
  },
  {
    name: 'the last bridge with the gateway stays while somebody holds a chain',
    build: `
      api; billing; stop api 7; stop billing 9
      ipt -t mangle -A PREROUTING -p tcp -s 10.128.3.9 -j yah-id-10.128.3.9`,
    gone: [
      ...workload(API, { detached: true }),
      ...workload(BILLING, { detached: true }).filter((line) => line !== chain('id', 9)),
      ...tenantBridge(GLOBEX),
      ...tenantBridge(ACME).filter((line) => !/^(link|addr) /.test(line)),
      meshMark(),
    ],
    bridges: [ACME, GLOBEX],
    addresses: ['10.128.3.7', '10.128.3.9'],
    kept: [
      { object: 'nft mangle: chain yah-id-10.128.3.9', reason: /-A PREROUTING .*-p tcp -j yah-id-10\.128\.3\.9/ },
      { object: `bridge ${ACME}`, reason: /nft mangle: chain yah-id-10\.128\.3\.9 is still there/ },
    ],
    oracle: { differs: 'keeps no bridge for a chain that somebody holds' },
  },
])
