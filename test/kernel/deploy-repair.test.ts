/** A deploy of what is right changes nothing; whatever single piece is missing, damaged or misplaced is mended alone. */
import { afterAll, beforeAll, describe, expect, type TestContext, test } from 'vitest'
import { need } from '../support/machine.js'
import { lines, TestNode } from '../support/node.js'
import { difference, type Snapshot } from '../support/snapshot.js'
import { ACME, GLOBEX, Project, type Spec, spec } from './deploys.js'
import { type Picture, picture } from './picture.js'

// A grant to one that is not there has rules and no ARP path, so that every kernel takes it.
const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
const web = spec('web', 8, 'acme')
const billing = spec('billing', 9, 'globex')
const acct = spec('acct', 2)
const ALL = [acct, api, web, billing]

const NET = '10.128.3.0/24'
const TAG = '-m comment --comment yah-isolation-b'
const MARK = '-m mark ! --mark 0x2000000/0x2000000'
const NEW = '-m conntrack ! --ctstate RELATED,ESTABLISHED'
const REPLY = '-j MARK --set-xmark 0x1000000/0x1000000'
/** The rules of a tenant bridge, as iptables takes them behind `-D` or `-A`. */
const ISOLATION: readonly [table: string, rule: string][] = [
  ['raw', `PREROUTING -i ${ACME} -m rpfilter --invert ${TAG} -j DROP`],
  ['mangle', `PREROUTING -i ${ACME} -m conntrack --ctstate ESTABLISHED,RELATED ${TAG} ${REPLY}`],
  ['mangle', `PREROUTING -s 100.64.0.0/10 -d ${NET} ${TAG} ${REPLY}`],
  ['filter', `FORWARD -i ${ACME} -d ${NET} ! -o ${ACME} ${MARK} ${TAG} -j DROP`],
  ['filter', `FORWARD -o ${ACME} -s ${NET} ! -i ${ACME} ${MARK} ${TAG} -j DROP`],
  ['filter', `FORWARD -i yah0 -o ${ACME} ${MARK} ${TAG} -j DROP`],
  ['filter', `FORWARD -i ${ACME} -d 100.64.0.0/10 ${NEW} ${MARK} ${TAG} -j DROP`],
  ['filter', `INPUT -i ${ACME} ! -p icmp ${NEW} ${TAG} -j DROP`],
]
const ACCEPT_OUT = `FORWARD -o ${ACME} -j ACCEPT`
const DROP_OUT = `FORWARD -i ${ACME} -d ${NET} ! -o ${ACME} ${MARK} ${TAG} -j DROP`
const ID = 'yah-id-10.128.3.7'
const GR = 'yah-gr-10.128.3.7'

const drop = (table: string, rule: string): string => `"$IPTABLES" -w -t ${table} -D ${rule}`
const append = (table: string, rule: string): string => `"$IPTABLES" -w -t ${table} -A ${rule}`
const mangle = (command: string): string => `"$IPTABLES" -w -t mangle ${command}`
const inside = (command: string): string => `ip -n api ${command}`

/** What is done to the node by hand, and whose deploy mends it: `api`'s, unless others are named. */
const DAMAGES: readonly [name: string, script: string, ...menders: Spec[]][] = [
  ...ISOLATION.map(([table, rule]): [string, string] => [`no ${table} ${rule}`, drop(table, rule)]),
  ...ISOLATION.map(([table, rule]): [string, string] => [`two of ${table} ${rule}`, append(table, rule)]),
  ...ISOLATION.filter(([, rule]) => rule.startsWith('FORWARD')).map(([table, rule]): [string, string] => [
    `at the end ${table} ${rule}`,
    `${drop(table, rule)}; ${append(table, rule)}`,
  ]),
  ['a first generation beside', append('filter', DROP_OUT.replace('-b ', '-a '))],
  ['a first generation instead', `${append('filter', DROP_OUT.replace('-b ', '-a '))}; ${drop('filter', DROP_OUT)}`],
  ['an ACCEPT on top', `"$IPTABLES" -w -I FORWARD -i ${ACME} -j ACCEPT`],
  ['no ACCEPT in', drop('filter', `FORWARD -i ${ACME} -j ACCEPT`)],
  ['no ACCEPT out', drop('filter', ACCEPT_OUT)],
  ['three ACCEPTs out', `${append('filter', ACCEPT_OUT)}; ${append('filter', ACCEPT_OUT)}`],
  ['no NAT', drop('nat', `POSTROUTING -s ${NET} ! -d ${NET} -j MASQUERADE`)],
  ['no prohibit of the subnet', `ip rule del priority 1202 iif ${ACME}`],
  ['no prohibit of the mesh', `ip rule del priority 1204 iif ${ACME}`],
  [
    'the first generation of a prohibit beside',
    `ip rule add priority 1201 iif ${ACME} to ${NET} fwmark 0/0x2000000 prohibit`,
  ],
  [
    'the first generation of a prohibit instead',
    `ip rule add priority 1203 iif ${ACME} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit; ip rule del priority 1204 iif ${ACME}`,
  ],
  ['no prohibit of the workload', 'ip rule del priority 1200 to 10.128.3.7'],
  ['a prohibit of a singleton’s', 'ip rule add priority 1200 iif yah0 to 10.128.3.2 fwmark 0/0x2000000 prohibit', acct],
  ['no host route', 'ip route del 10.128.3.7'],
  ['the host route out of another bridge', `ip route replace 10.128.3.7 dev ${GLOBEX}`],
  ['the host route behind one out of another bridge', `ip route prepend 10.128.3.7 dev ${GLOBEX}`],
  ['one more host route, out of another bridge', `ip route append 10.128.3.7 dev ${GLOBEX}`],
  ['a host route of a singleton’s', 'ip route add 10.128.3.2 dev yah0', acct],
  ['an empty identity chain', mangle(`-F ${ID}`)],
  ['one rule too many in the identity chain', append('mangle', `${ID} -j MARK --set-xmark 0x2000000/0x2000000`)],
  [
    'no identity chain',
    `${mangle(`-F ${ID}`)}; ${drop('mangle', `PREROUTING -s 10.128.3.7 -j ${ID}`)}; ${mangle(`-X ${ID}`)}`,
  ],
  ['no jump to the identity chain', drop('mangle', `PREROUTING -s 10.128.3.7 -j ${ID}`)],
  ['two jumps to the identity chain', append('mangle', `PREROUTING -s 10.128.3.7 -j ${ID}`)],
  [
    'the jump to the identity chain behind those to grant chains',
    `${drop('mangle', `PREROUTING -s 10.128.3.7 -j ${ID}`)}; ${append('mangle', `PREROUTING -s 10.128.3.7 -j ${ID}`)}`,
  ],
  ['an empty grant chain', mangle(`-F ${GR}`)],
  [
    'a grant too many',
    mangle(`-I ${GR} -i yah0 -d 10.128.3.7 -m mark --mark 0x5/0xffff -j MARK --set-xmark 0x2000000/0x2000000`),
  ],
  ['a jump to the grant chain missing', drop('mangle', `PREROUTING -d 10.128.3.7 -j ${GR}`)],
  ['a jump to the grant chain twice', append('mangle', `PREROUTING -d 10.128.3.7 -j ${GR}`)],
  // The kernel takes the host routes of all of its workloads along.
  ['no gateway', `ip addr del 10.128.3.1/32 dev ${ACME}`, web, api],
  [
    'the gateway as the node bridge has it',
    `ip addr add 10.128.3.1/24 dev ${ACME}; ip addr del 10.128.3.1/32 dev ${ACME}`,
  ],
  ['the gateway with both prefixes', `ip addr add 10.128.3.1/24 dev ${ACME}`],
  [
    'the gateway of the node bridge as a tenant’s has it',
    'ip addr add 10.128.3.1/32 dev yah0; ip addr del 10.128.3.1/24 dev yah0',
    acct,
  ],
  ['the bridge down', `ip link set ${ACME} down`, web, api],
  ['rp_filter off', `sysctl -qw net.ipv4.conf.${ACME}.rp_filter=0`],
  ['IPv6 on', `sysctl -qw net.ipv6.conf.${ACME}.disable_ipv6=0`],
  ['src_valid_mark off', 'sysctl -qw net.ipv4.conf.all.src_valid_mark=0'],
  ['ip_forward off', 'sysctl -qw net.ipv4.ip_forward=0'],
  ['the host veth down', 'ip link set veth7 down'],
  ['lo down inside', inside('link set lo down')],
  ['eth0 down', inside('link set eth0 down')],
  ['eth0 without its address', inside('addr del 10.128.3.7/24 dev eth0')],
  ['no default route', inside('route del default')],
  ['another default route', inside('route replace default via 10.128.3.99')],
]

let node: TestNode
let project: Project
let right: { dump: string[]; picture: Picture; snapshot: Snapshot; ends: string }

/** The workload's namespace, and its host veth: both stay. */
const ends = (): Promise<string> => node.run('stat -c %i /run/netns/api; ip -o link show veth7 | cut -d: -f1')

beforeAll(async () => {
  node = await TestNode.create()
  project = await Project.on(node)
  for (const each of ALL) await project.deploy(each)
  right = {
    dump: await node.dump(),
    picture: await picture(node, project.net),
    snapshot: await node.snapshot(),
    ends: await ends(),
  }
})

afterAll(async () => {
  project?.[Symbol.dispose]()
  await node?.[Symbol.asyncDispose]()
})

test('what is right stays as it is', async () => {
  for (const each of [...ALL, ...ALL.toReversed()]) {
    expect(await project.deploy(each)).toMatchObject({ workload: each.workload, changes: [] })
  }
  expect(difference(right.snapshot, await node.snapshot())).toEqual([])
})

describe('mended alone', () => {
  test.each(DAMAGES)('%s', async (_, script, ...menders) => {
    await node.run(script)
    expect(difference(right.snapshot, await node.snapshot()), 'the damage shows').not.toEqual([])

    for (const mender of menders.length > 0 ? menders : [api]) {
      expect((await project.deploy(mender)).changes).not.toEqual([])
    }

    expect(await node.dump()).toEqual(right.dump)
    expect(await picture(node, project.net)).toEqual(right.picture)
    expect(await ends()).toBe(right.ends)
    expect((await project.deploy(api)).changes, 'nothing is left to mend').toEqual([])
  })
})

describe('the ARP path of a granted pair', () => {
  const granting: Spec = { ...api, allow: ['globex/default/billing'] }
  const filterOf = (bridge: string, handle: string): string =>
    `dev ${bridge} ingress protocol arp pref 895 handle ${handle} flower`
  const PIECES: readonly (readonly [name: string, script: string])[] = [
    ['a proxy entry', `ip neigh del proxy 10.128.3.9 dev ${ACME}`],
    ['the proxy entry on the other bridge', `ip neigh del proxy 10.128.3.7 dev ${GLOBEX}`],
    ['a filter', `tc filter del ${filterOf(ACME, '0x709')}`],
    ['the filter on the other bridge', `tc filter del ${filterOf(GLOBEX, '0x907')}`],
    ['clsact with the filter', `tc qdisc del dev ${ACME} clsact`],
    ['proxy_delay', `sysctl -qw net.ipv4.neigh.${GLOBEX}.proxy_delay=80`],
    [
      'a filter’s mark',
      `tc filter replace ${filterOf(ACME, '0x709')} arp_op request arp_sip 10.128.3.7 arp_tip 10.128.3.9 action drop`,
    ],
    [
      'nothing, and has an entry too many',
      `ip neigh add proxy 10.128.3.7 dev yah0
       tc filter add ${filterOf(ACME, '0x757')} arp_op request arp_sip 10.128.3.7 arp_tip 10.128.3.87 action skbedit mark 0x2000000/0x2000000`,
    ],
  ]
  /** What it consists of, without the numbers that the kernel gives to actions. */
  const state = async (there: TestNode): Promise<string[]> => {
    const said = await there.run(`
      for bridge in yah0 ${ACME} ${GLOBEX}; do
        tc filter show dev $bridge ingress | sed -E 's/index [0-9]+.*//; s/ *$//' | sed "s/^/$bridge /"
        tc qdisc show dev $bridge | awk '$2 == "clsact" {print $2}' | sed "s/^/$bridge /"
        cat /proc/sys/net/ipv4/neigh/$bridge/proxy_delay | sed "s/^/$bridge /"
      done
      ip neigh show proxy`)
    return lines(said).sort()
  }

  const tagged = ([name]: (typeof PIECES)[number]) => (name === 'clsact with the filter' ? { tags: 'guest' } : {})
  for (const piece of PIECES) {
    test(`that lacks ${piece[0]}`, tagged(piece), (context) => mends(piece, context))
  }

  async function mends([name, script]: (typeof PIECES)[number], context: TestContext): Promise<void> {
    await need(context, 'flower')
    await using there = await TestNode.create()
    using deploys = await Project.on(there)
    for (const each of [acct, granting, billing]) await deploys.deploy(each)
    const whole = { state: await state(there), dump: await there.dump() }
    expect(whole.state.filter((line) => line.includes('arp_sip'))).toHaveLength(2)
    for (const each of [granting, billing]) expect((await deploys.deploy(each)).changes).toEqual([])

    for (const mender of name.includes('too many') ? [granting] : [granting, billing]) {
      await there.run(script)
      expect(await state(there)).not.toEqual(whole.state)
      expect((await deploys.deploy(mender)).changes).not.toEqual([])
      expect({ state: await state(there), dump: await there.dump() }).toEqual(whole)
    }
  }
})
