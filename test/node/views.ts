/** Nodes as values, for the pure parts: what the kernel and iptables-save would have told, in a few words. */
import type { Save } from '../../src/kernel/iptables/save.js'
import type { Backend } from '../../src/kernel/iptables/tools.js'
import type { Address } from '../../src/kernel/rtnetlink/address.js'
import type { Link } from '../../src/kernel/rtnetlink/link.js'
import type { Neighbour } from '../../src/kernel/rtnetlink/neighbour.js'
import type { Route } from '../../src/kernel/rtnetlink/route.js'
import type { Rule } from '../../src/kernel/rtnetlink/rule.js'
import type { Filter } from '../../src/kernel/tc.js'
import type { LinkReading, OwnBridge } from '../../src/node/links.js'
import { ContainerNet } from '../../src/node/net.js'
import { Subnet } from '../../src/node/subnet.js'
import type { Confirmation, NodeView } from '../../src/node/view.js'
import { parseSave } from '../support/save.js'

export const NET = new ContainerNet()
export const SUBNET = Subnet.containing('10.128.3.0')
/** Bridges of the tenants acme and globex, and of nobody. */
export const ACME = 'yah0-6jgfqfdnu6'
export const GLOBEX = 'yah0-91auqknbeu'
export const NOBODY = 'yah0-vvvvvvvvvv'
/** `globex/prod/billing` */
export const BILLING_MARK = 6249

export function link(name: string, index: number, more: Partial<Link> = {}): Link {
  const kind = /^veth/.test(name) ? 'veth' : 'bridge'
  return {
    index,
    name,
    kind,
    master: 0,
    up: true,
    flags: 1,
    mtu: 1500,
    peerIndex: kind === 'veth' ? 2 : 0,
    peerNamespace: kind === 'veth' ? 5 : -1,
    altNames: [],
    ...more,
  }
}

export function address(text: string, index: number): Address {
  const [address = '', prefix] = text.split('/')
  const fields = { peer: null, broadcast: null, label: '', scope: 0, flags: 0x80, metric: 0, protocol: 0, unknown: [] }
  return { index, address, prefix: Number(prefix), ...fields }
}

/** `10.128.3.9/32` out of the link of that index, as `ip route add … dev …` makes it. */
export function route(address: string, oif: number, more: Partial<Route> = {}): Route {
  return {
    destination: address,
    prefix: 32,
    table: 254,
    type: 1,
    scope: 253,
    protocol: 3,
    tos: 0,
    flags: 0,
    oif,
    gateway: null,
    metric: 0,
    preferredSource: null,
    metrics: null,
    hops: 1,
    nextHops: [],
    nexthopId: 0,
    encapsulation: 0,
    unknown: [],
    ...more,
  }
}

/** `iif <iif> to <destination> fwmark 0/<mask> prohibit` */
export function prohibit(priority: number, iif: string, destination: string, more: Partial<Rule> = {}): Rule {
  const [address = '', prefix] = destination.split('/')
  return {
    priority,
    action: 'prohibit',
    table: 0,
    source: '0.0.0.0',
    sourcePrefix: 0,
    destination: address,
    destinationPrefix: Number(prefix),
    tos: 0,
    iif,
    iifDetached: false,
    oif: '',
    oifDetached: false,
    mark: 0,
    mask: destination.startsWith('100.64.') ? 0x3000000 : 0x2000000,
    invert: false,
    flags: 0,
    protocol: 0,
    suppressPrefixLength: -1,
    suppressGroup: -1,
    tunnelId: 0n,
    l3mdev: false,
    uidRange: null,
    ipProtocol: 0,
    sourcePorts: null,
    destinationPorts: null,
    goto: 0,
    realms: 0,
    unknown: [],
    ...more,
  }
}

/** The prohibits that a deploy leaves on a tenant bridge. */
export const bridgeRules = (bridge: string): Rule[] => [
  prohibit(1202, bridge, '10.128.3.0/24'),
  prohibit(1204, bridge, '100.64.0.0/10'),
]

export function proxy(address: string, index: number, more: Partial<Neighbour> = {}): Neighbour {
  const fields = { state: 0x80, flags: 8, proxy: true, lladdr: null, protocol: 0, unknown: [] }
  return { index, address, ...fields, ...more }
}

export function neighbour(address: string, index: number, more: Partial<Neighbour> = {}): Neighbour {
  const fields = { state: 4, flags: 0, proxy: false, lladdr: '02:00:00:00:00:09', protocol: 0, unknown: [] }
  return { index, address, ...fields, ...more }
}

/** The filter for ARP requests from one address for the other. */
export function filter(index: number, sender: string, target: string, more: Partial<Filter> = {}): Filter {
  const bytes = (text: string) => Buffer.from(text.split('.').map(Number))
  const whole = Buffer.from([255, 255, 255, 255])
  return {
    index,
    parent: 0xfffffff2,
    pref: 895,
    protocol: 0x806,
    handle: (Number(sender.split('.')[3]) << 8) | Number(target.split('.')[3]),
    kind: 'flower',
    chain: 0,
    arpOperation: { value: 1, mask: 255 },
    arpSender: { value: bytes(sender), mask: whole },
    arpTarget: { value: bytes(target), mask: whole },
    otherKeys: [],
    actions: [{ kind: 'skbedit', mark: 0x2000000, mask: 0x2000000, control: 3, otherEdits: [] }],
    ...more,
  }
}

/** What iptables-save prints of one table. `lines`: `:CHAIN - [0:0]` and `-A …`; built-in chains are declared here. */
export function saved(tables: Readonly<Record<string, readonly string[]>>): Save {
  const builtIn = ['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING'].map((name) => `:${name} ACCEPT [0:0]`)
  const text = Object.entries(tables).map(([name, lines]) => {
    const declared = lines.filter((line) => line.startsWith(':'))
    const rules = lines.filter((line) => !line.startsWith(':'))
    return [`*${name}`, ...builtIn, ...declared, ...rules, 'COMMIT', ''].join('\n')
  })
  return parseSave(text.join(''))
}

/** The lines of mangle for one address, as iptables-save prints them. */
export function addressLines(address: string, bridge: string, mark: number, admits: readonly string[] = []): string[] {
  const hex = `0x${mark.toString(16)}`
  return [
    `:yah-id-${address} - [0:0]`,
    `:yah-gr-${address} - [0:0]`,
    `-A PREROUTING -s ${address}/32 -j yah-id-${address}`,
    `-A yah-id-${address} -s ${address}/32 -d 10.128.3.0/24 -i ${bridge} -j MARK --set-xmark ${hex}/0xffff`,
    ...admits,
  ]
}

/** The lines with which an address admits one peer. */
export function admitLines(address: string, bridge: string, peerBridge: string, peerMark: number): string[] {
  const hex = `0x${peerMark.toString(16)}`
  const matches = `-A yah-gr-${address} -d ${address}/32 -i ${peerBridge} -m mark --mark ${hex}/0xffff`
  const reply = '-m conntrack --ctdir REPLY -m connmark --mark 0x2000000/0x2000000'
  return [
    `-A PREROUTING -d ${address}/32 -j yah-gr-${address}`,
    `-A PREROUTING -s ${address}/32 -j yah-gr-${address}`,
    `${matches} -j MARK --set-xmark 0x2000000/0x2000000`,
    `${matches} -j CONNMARK --set-xmark 0x2000000/0x2000000`,
    `-A yah-gr-${address} -s ${address}/32 -i ${bridge} ${reply} -j MARK --set-xmark 0x2000000/0x2000000`,
  ]
}

const MESH_LINE = (tag: string) =>
  `-A PREROUTING -s 100.64.0.0/10 -d 10.128.3.0/24 -m comment --comment ${tag} -j MARK --set-xmark 0x1000000/0x1000000`

/** What iptables-save prints of one tenant bridge, by table, the mesh's reply mark included. */
export function bridgeLines(bridge: string, tag = 'yah-isolation-b'): Record<'raw' | 'mangle' | 'filter', string[]> {
  const comment = `-m comment --comment ${tag}`
  const ungranted = '-m mark ! --mark 0x2000000/0x2000000'
  const unasked = '-m conntrack ! --ctstate RELATED,ESTABLISHED'
  return {
    raw: [`-A PREROUTING -i ${bridge} -m rpfilter --invert ${comment} -j DROP`],
    mangle: [
      MESH_LINE(tag),
      `-A PREROUTING -i ${bridge} -m conntrack --ctstate RELATED,ESTABLISHED ${comment} -j MARK --set-xmark 0x1000000/0x1000000`,
    ],
    filter: [
      `-A INPUT -i ${bridge} ! -p icmp ${unasked} ${comment} -j DROP`,
      `-A FORWARD -d 100.64.0.0/10 -i ${bridge} ${unasked} ${ungranted} ${comment} -j DROP`,
      `-A FORWARD -i yah0 -o ${bridge} ${ungranted} ${comment} -j DROP`,
      `-A FORWARD -s 10.128.3.0/24 ! -i ${bridge} -o ${bridge} ${ungranted} ${comment} -j DROP`,
      `-A FORWARD -d 10.128.3.0/24 -i ${bridge} ! -o ${bridge} ${ungranted} ${comment} -j DROP`,
      `-A FORWARD -i ${bridge} -j ACCEPT`,
      `-A FORWARD -o ${bridge} -j ACCEPT`,
    ],
  }
}

/** A bridge with the gateway, and the veths of these octets on it. */
export function bridge(
  name: string,
  index: number,
  octets: readonly number[] = [],
  more: Partial<OwnBridge> = {},
): OwnBridge {
  const tenant = name !== 'yah0'
  return {
    link: link(name, index),
    tenant,
    addresses: [address(tenant ? '10.128.3.1/32' : '10.128.3.1/24', index)],
    ports: tenant ? octets.map((octet) => veth(octet, index)) : [],
    ...more,
  }
}

export function veth(octet: number, master: number, more: Partial<Link> = {}): Link {
  return link(`veth${octet}`, 1000 + octet, { master, ...more })
}

export function reading(bridges: readonly OwnBridge[], more: Partial<LinkReading> = {}): LinkReading {
  const veths = bridges.flatMap(({ ports }) => ports)
  return { bridges, veths, loosePeers: new Map(), otherBridges: new Map(), taken: new Set(), ...more }
}

export function view(links: LinkReading, more: Partial<NodeView> = {}): NodeView {
  const iptables = new Map<Backend, Save>([['nft', saved({})]])
  return { net: NET, links, routes: [], rules: [], proxies: [], filters: [], iptables, confirmed: null, ...more }
}

/** The view, with its links read a second time. */
export function confirmed(
  view: NodeView,
  links = view.links,
  neighbours: readonly Neighbour[] = [],
  connections: Confirmation['connections'] = new Map(),
): NodeView {
  return { ...view, confirmed: { links, neighbours, connections, disguised: new Set() } }
}
