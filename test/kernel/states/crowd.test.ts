/** Healthy nodes, with everything that others run beside this project: a sweep is quiet, and takes only what is ours. */
import { BILLING, GLOBEX, MAIL, tenantBridge, workload } from './lines.js'
import { testStates } from './state.js'

const BOTH = ['nft', 'legacy'] as const

/** As dockerd leaves it: a bridge of its own with containers on it, its chains, and the policy of FORWARD. */
const DOCKER = `
  bridge docker0 172.17.0.1/16; link veth1a2b3c4; link veth12; ip link set veth1a2b3c4 master docker0; ip link set veth12 master docker0
  ip link set veth1a2b3c4 up; bridge br-0123456789ab 172.18.0.1/16
  ipt -N DOCKER; ipt -N DOCKER-USER; ipt -N DOCKER-ISOLATION-STAGE-1; ipt -N DOCKER-ISOLATION-STAGE-2
  ipt -A DOCKER-USER -j RETURN
  ipt -A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
  ipt -A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
  ipt -I FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
  ipt -I FORWARD -i docker0 ! -o docker0 -j ACCEPT; ipt -I FORWARD -i docker0 -o docker0 -j ACCEPT
  ipt -I FORWARD -o docker0 -j DOCKER; ipt -I FORWARD -j DOCKER-ISOLATION-STAGE-1; ipt -I FORWARD -j DOCKER-USER
  ipt -P FORWARD DROP
  ipt -t nat -N DOCKER; ipt -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
  ipt -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
  ipt -t nat -A DOCKER ! -i docker0 -p tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80`

/** As tailscaled leaves it: its marks, its rules around 5210 to 5270, table 52 and its chains. */
const TAILSCALE = `
  link tailscale0; ip addr add 100.64.0.3/32 dev tailscale0; ip link set tailscale0 up
  ip rule add priority 5210 fwmark 0x80000/0xff0000 lookup main
  ip rule add priority 5230 fwmark 0x80000/0xff0000 lookup default
  ip rule add priority 5250 fwmark 0x80000/0xff0000 unreachable
  ip rule add priority 5270 lookup 52
  ip route add 100.64.0.7/32 dev tailscale0 table 52; ip route add 100.100.100.100/32 dev tailscale0 table 52
  ipt -N ts-input; ipt -N ts-forward; ipt -t nat -N ts-postrouting
  ipt -I INPUT -j ts-input; ipt -I FORWARD -j ts-forward; ipt -t nat -I POSTROUTING -j ts-postrouting
  ipt -A ts-input -s 100.64.0.3/32 -i lo -j ACCEPT
  ipt -A ts-input -s 100.64.0.0/10 ! -i tailscale0 -j DROP
  ipt -A ts-forward -i tailscale0 -j MARK --set-xmark 0x40000/0xff0000
  ipt -A ts-forward -m mark --mark 0x40000/0xff0000 -j ACCEPT
  ipt -A ts-forward -s 100.64.0.0/10 -o tailscale0 -j DROP; ipt -A ts-forward -o tailscale0 -j ACCEPT
  ipt -t nat -A ts-postrouting -m mark --mark 0x40000/0xff0000 -j MASQUERADE`

/** As kube-proxy and a CNI plugin leave it. */
const KUBERNETES = `
  bridge cni0 10.244.0.1/24; link veth9f8e7d6c; ip link set veth9f8e7d6c master cni0
  for table in mangle nat filter; do ipt -t $table -N KUBE-PROXY-CANARY; ipt -t $table -N KUBE-KUBELET-CANARY; done
  ipt -N KUBE-FORWARD; ipt -N KUBE-FIREWALL; ipt -N KUBE-SERVICES
  ipt -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
  ipt -A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
  ipt -A KUBE-SERVICES -d 10.96.0.10/32 -p tcp -m comment --comment "kube-system/kube-dns:metrics has no endpoints" -m tcp --dport 9153 -j REJECT
  ipt -I FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
  ipt -I INPUT -j KUBE-FIREWALL; ipt -I FORWARD -m conntrack --ctstate NEW -j KUBE-SERVICES
  ipt -t nat -N KUBE-SERVICES; ipt -t nat -N KUBE-MARK-MASQ; ipt -t nat -N KUBE-SVC-TCOU7JCQXEZGVUNU
  ipt -t nat -I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
  ipt -t nat -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
  ipt -t nat -A KUBE-SVC-TCOU7JCQXEZGVUNU -m statistic --mode random --probability 0.5 -j KUBE-MARK-MASQ
  ip rule add priority 512 fwmark 0x200/0xf00 lookup 2004`

testStates([
  {
    name: 'docker beside it',
    build: `acct; api; billing; stop billing 9
      ${DOCKER}`,
    backends: BOTH,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'tailscale beside it',
    build: `acct; api; billing; stop billing 9
      ${TAILSCALE}`,
    by: 'command',
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'kube-proxy beside it',
    build: `acct; api; billing; stop billing 9
      ${KUBERNETES}`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
  {
    name: 'all of them in nft, ours in legacy, a live pair, and nothing to do',
    build: `
      acct; billing; api --allow globex/prod/billing; IPTABLES=iptables-nft
      ${DOCKER}
      ${TAILSCALE}
      ${KUBERNETES}`,
    backends: ['legacy'],
    by: 'command',
    oracle: 'agrees',
  },
  {
    name: 'all of them in legacy, ours in nft, and a tenant stopped',
    build: `
      acct; api; mail; stop mail 12; IPTABLES=iptables-legacy
      ${DOCKER}
      ${TAILSCALE}
      ${KUBERNETES}`,
    gone: [...workload(MAIL), ...tenantBridge(MAIL.bridge)],
    bridges: [MAIL.bridge],
    addresses: ['10.128.3.12'],
    oracle: 'agrees',
  },
  {
    name: 'all of them on a node that has no state of ours',
    build: `${DOCKER}
      ${TAILSCALE}
      ${KUBERNETES}`,
    backends: BOTH,
    subnet: null,
    oracle: 'agrees',
  },
  {
    name: 'IPv6 that somebody configured on the bridges and beside them',
    build: `
      acct; api; billing; stop billing 9; ip -6 addr add fd00::1/64 dev yah0; ip -6 route add fd01::9/128 dev yah0
      ip -6 neigh add proxy fd01::7 dev yah0
      ip -6 rule add priority 1202 iif yah0 to fd00::/64 prohibit
      \${IPTABLES/ip/ip6} -w -A FORWARD -i $GLOBEX -j ACCEPT`,
    gone: [...workload(BILLING), ...tenantBridge(GLOBEX)],
    bridges: [GLOBEX],
    addresses: ['10.128.3.9'],
    oracle: 'agrees',
  },
])
