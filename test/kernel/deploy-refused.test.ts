/** What a deploy will not take: it says whose it is, by the field that named it, and changes nothing. */
import { describe, expect, test } from 'vitest'
import { UsageError } from '../../src/index.js'
import { lack } from '../support/machine.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { ACME, Project, type Spec, spec } from './deploys.js'

const api = spec('api', 7, 'acme')
const web = spec('web', 8, 'acme')

interface Case {
  readonly name: string
  /** Deployed before. */
  readonly others?: readonly Spec[]
  readonly script?: string
  readonly deploy?: Spec | object
  /** The field that is named, and what is said of it. */
  readonly field: string
  readonly reason: RegExp
}

const CASES: readonly Case[] = [
  {
    name: 'a namespace in which another identity runs',
    others: [api],
    deploy: { ...api, octet: 9, identity: 'acme/other/api' },
    field: 'workload',
    reason: /namespace api .*another identity.* 10\.128\.3\.7/,
  },
  {
    name: 'the same at the same address',
    others: [api],
    deploy: { ...api, identity: 'acme/other/api' },
    field: 'workload',
    reason: /namespace api .*another identity/,
  },
  {
    name: 'another tenant’s workload of the same name',
    others: [api],
    deploy: spec('api', 9, 'globex'),
    field: 'workload',
    reason: /namespace api .*another identity/,
  },
  {
    name: 'two names that give one namespace name, while the first lives',
    others: [spec('api.v2', 7, 'acme')],
    deploy: spec('api-v2', 9, 'acme'),
    field: 'workload',
    reason: /namespace api-v2 .*another identity.* 10\.128\.3\.7/,
  },
  {
    name: 'an unknown workload in the namespace, at another address',
    others: [web],
    script: `ip netns add api; ip link add veth20 master ${ACME} type veth peer name eth0 netns api`,
    field: 'workload',
    reason: /namespace api .* 10\.128\.3\.20/,
  },
  {
    name: 'a namespace with a link of somebody else’s in it, down',
    script: 'ip netns add api; ip -n api link add wg0 type bridge',
    field: 'workload',
    reason: /namespace api .*wg0/,
  },
  {
    name: 'a running workload’s namespace with a link of somebody else’s in it',
    others: [api],
    script: 'ip -n api link add tun7 type ifb; ip -n api link set tun7 up',
    field: 'workload',
    reason: /namespace api .*tun7/,
  },
  {
    name: 'a namespace whose eth0 hangs on somebody else’s bridge',
    script:
      'ip netns add api; ip link add docker0 type bridge; ip link add vethab master docker0 type veth peer name eth0 netns api',
    field: 'workload',
    reason: /namespace api .*vethab/,
  },
  {
    name: 'a namespace whose eth0 is no veth',
    script: 'ip netns add api; ip -n api link add eth0 type ifb',
    field: 'workload',
    reason: /namespace api .*ifb/,
  },
  {
    name: 'a namespace whose eth0 is linked with another one',
    script: 'ip netns add api; ip netns add far; ip -n api link add eth0 type veth peer name eth0 netns far',
    field: 'workload',
    reason: /namespace api .*not in this network namespace/,
  },
  {
    // The index of its eth0's other end, in the other namespace, is that of a host veth here.
    name: 'a namespace whose eth0 is linked with another one, at an index that means something here',
    others: [web],
    script: `ip netns add api; ip netns add far
      index=$(ip -o link show veth8 | cut -d: -f1)
      ip -n far link add eth0 index "$index" type veth peer name eth0 netns api`,
    field: 'workload',
    reason: /namespace api .*not in this network namespace/,
  },
  { name: 'veth<n> that is no veth', script: 'ip link add veth7 type ifb', field: 'address', reason: /veth7.*ifb/ },
  {
    name: 'veth<n> on somebody else’s bridge',
    script: 'ip link add docker0 type bridge; ip link add veth7 master docker0 type veth peer name x7',
    field: 'address',
    reason: /veth7 .*none of this node's bridges/,
  },
  {
    name: 'veth<n> and vethc<n> as a pair, on somebody else’s bridge',
    script: 'ip link add docker0 type bridge; ip link add veth7 master docker0 type veth peer name vethc7',
    field: 'address',
    reason: /veth7 .*none of this node's bridges/,
  },
  {
    name: 'veth<n> and vethc<n> as a pair, the latter on somebody else’s bridge',
    script: 'ip link add docker0 type bridge; ip link add vethc7 master docker0 type veth peer name veth7',
    field: 'address',
    reason: /vethc7 /,
  },
  {
    name: 'veth<n> that hangs on nothing, with another name at its other end',
    script: 'ip link add veth7 type veth peer name other',
    field: 'address',
    reason: /veth7 .*none of this node's bridges/,
  },
  {
    name: 'veth<n> that hangs on nothing, with its other end elsewhere',
    script: 'ip netns add far; ip link add veth7 type veth peer name vethc7 netns far',
    field: 'address',
    reason: /veth7 .*none of this node's bridges/,
  },
  {
    name: 'veth<n> that hangs on nothing, at whose index elsewhere vethc<n> is here',
    script: `ip netns add far; ip link add vethc7 type ifb
      index=$(ip -o link show vethc7 | cut -d: -f1)
      ip -n far link add there index "$index" type veth peer name veth7 index 500; ip -n far link set veth7 netns 1`,
    field: 'address',
    reason: /veth7 /,
  },
  {
    name: 'veth<n> and vethc<n> as a pair that hangs on nothing and has an address',
    script: 'ip link add veth7 type veth peer name vethc7; ip addr add 192.168.50.1/24 dev veth7',
    field: 'address',
    reason: /veth7 .*192\.168\.50\.1/,
  },
  {
    name: 'a namespace that somebody routes over a veth<n> on no bridge',
    script: `ip netns add api; ip link add veth10 type veth peer name eth0 netns api
      ip addr add 192.168.50.1/24 dev veth10; ip link set veth10 up
      ip -n api addr add 192.168.50.2/24 dev eth0; ip -n api link set eth0 up`,
    field: 'workload',
    reason: /namespace api .*veth10.* 192\.168\.50\.1/,
  },
  { name: 'vethc<n> that is no veth', script: 'ip link add vethc7 type ifb', field: 'address', reason: /vethc7 / },
  {
    name: 'vethc<n> that is somebody else’s beside a veth<n> of ours',
    others: [api],
    script: 'ip link add vethc7 type ifb',
    field: 'address',
    reason: /vethc7 /,
  },
  {
    name: 'a tenant bridge’s name that no bridge bears',
    script: `ip link add ${ACME} type ifb`,
    field: 'tenant',
    reason: new RegExp(`${ACME} .*ifb`),
  },
  {
    name: 'a tenant bridge’s name that is another link’s second name',
    script: `ip link add other type bridge; ip link property add dev other altname ${ACME}`,
    field: 'tenant',
    reason: new RegExp(`${ACME} .*other`),
  },
  {
    name: 'a tenant bridge’s name on a bridge of somebody else’s, by its port',
    others: [spec('acct', 2)],
    script: `ip link add ${ACME} type bridge; ip -6 addr add 2001:db8::1/64 dev ${ACME} nodad
      ip link add tap0 type veth peer name tap0p; ip link set tap0 master ${ACME}; ip link set ${ACME} up`,
    field: 'tenant',
    reason: new RegExp(`${ACME} .*port tap0`),
  },
  {
    name: 'the same, by its address',
    others: [spec('acct', 2)],
    script: `ip link add ${ACME} type bridge; ip addr add 192.168.7.1/24 dev ${ACME}`,
    field: 'tenant',
    reason: new RegExp(`${ACME} .*address 192\\.168\\.7\\.1/24`),
  },
  {
    name: 'the node bridge’s name that no bridge bears',
    script: 'ip link add yah0 type ifb',
    deploy: spec('acct', 2),
    field: 'tenant',
    reason: /yah0 .*ifb/,
  },
  {
    name: 'another node’s address',
    others: [web],
    deploy: { ...api, base: '10.128.4' },
    field: 'address',
    reason: /10\.128\.4\.7 .*10\.128\.3\.0\/24/,
  },
  { name: 'the gateway’s address', deploy: { ...api, octet: 1 }, field: 'address', reason: /10\.128\.3\.1 / },
  { name: 'an address out of the range', deploy: { ...api, base: '10.1.2' }, field: 'address', reason: /10\.1\.2\.7 / },
  {
    name: 'an identity of another tenant',
    deploy: { ...api, identity: 'globex/a/b' },
    field: 'identity',
    reason: /globex\/a\/b .*acme/,
  },
  { name: 'no workload at all', deploy: {}, field: 'workload', reason: /./ },
]

async function refusal(running: Promise<unknown>): Promise<UsageError> {
  const error = await running.then(
    (value) => expect.fail(`it was not refused: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(UsageError)
  return error as UsageError
}

describe.concurrent('refused, with nothing changed', () => {
  test.for(CASES)('$name', async ({ others = [], script = ':', deploy = api, field, reason }) => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of others) await project.deploy(each)
    await node.run(script)
    // A deploy asks nft, which makes its tables.
    await node.run('for t in raw mangle nat filter; do iptables-nft -t $t -S >/dev/null; done')
    const before = await node.snapshot()

    const error = await refusal(project.deploy(deploy))

    expect(error.option).toBe(field)
    expect(error.message).toMatch(reason)
    expect(difference(before, await node.snapshot())).toEqual([])
  })
})

test('a veth of its own that hangs on nothing, since its bridge was deleted by hand: after a stop it is taken', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(api)
  await node.run(`ip link del ${ACME}`)
  const error = await refusal(project.deploy(api))
  expect(error).toMatchObject({ option: 'address', hint: expect.stringContaining('netsweep stop api') })
  await project.stop('api')
  await project.deploy(api)
  await using fresh = await TestNode.create()
  using there = await Project.on(fresh)
  await there.deploy(api)
  expect(await node.dump()).toEqual(await fresh.dump())
})

test('a tenant bridge that was wired, and to which somebody added a port: used, with a notice', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(api)
  await node.run(`ip link add tap0 type veth peer name tap0p; ip link set tap0 master ${ACME}`)
  const reason = expect.stringContaining('foreign: port tap0')
  for (const each of [api, web])
    expect((await project.deploy(each)).notices).toContainEqual({ object: `bridge ${ACME}`, reason })
})

describe('a grant', () => {
  const granting: Spec = { ...api, allow: ['globex/default/billing'] }
  const billing = spec('billing', 9, 'globex')

  test('is refused where the kernel cannot filter ARP, by either side, and changes nothing', async (context) => {
    if ((await lack('flower')) === undefined) context.skip('this kernel has cls_flower and act_skbedit')
    for (const [first, second] of [
      [granting, billing],
      [billing, granting],
    ] as const) {
      await using node = await TestNode.create()
      using project = await Project.on(node)
      await project.deploy(first)
      const before = await node.snapshot()
      const error = await refusal(project.deploy(second))
      expect(error.option).toBe('allow')
      expect(error.message).toMatch(/cls_flower and act_skbedit/)
      expect(difference(before, await node.snapshot())).toEqual([])
      // What needs no ARP path is none of its concern.
      await project.deploy(spec('ledger', 10, 'globex'))
    }
  })

  test('is refused where somebody else’s plain ingress qdisc sits in clsact’s place', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(granting)
    await node.run(`tc qdisc add dev ${ACME} ingress`)
    const before = await node.snapshot()
    const error = await refusal(project.deploy(billing))
    expect(error.option).toBe('allow')
    expect(error.message).toMatch(new RegExp(`${ACME}.*ingress`))
    expect(difference(before, await node.snapshot())).toEqual([])
  })
})

describe.concurrent('taken all the same', () => {
  const TAKEN: readonly { readonly name: string; readonly script: string; readonly others?: readonly Spec[] }[] = [
    { name: 'a bridge that is half-made', script: `ip link add ${ACME} type bridge` },
    { name: 'an empty namespace', script: 'ip netns add api' },
    { name: 'the pair that an older deploy left unfinished', script: 'ip link add veth7 type veth peer name vethc7' },
    {
      name: 'that pair, on its bridge',
      script: `ip link add veth7 master ${ACME} type veth peer name vethc7; ip link set veth7 up`,
      others: [web],
    },
    {
      name: 'that pair, its end in the namespace and not named yet',
      script: `ip netns add api; ip link add veth7 master ${ACME} type veth peer name vethc7 netns api; ip link set veth7 up`,
      others: [web],
    },
    {
      name: 'that pair, its end named and without an address',
      script: `ip netns add api; ip link add veth7 master ${ACME} type veth peer name eth0 netns api; ip link set veth7 up`,
      others: [web],
    },
    {
      name: 'the second name once the first one stopped',
      script: 'ip netns del a-p-i; ip link del veth30 2>/dev/null || :',
      others: [spec('a.p.i', 30, 'acme')],
    },
    {
      name: 'the namespace of a workload whose veth is gone',
      script: 'ip link del veth20',
      others: [{ ...api, octet: 20 }, web],
    },
    {
      name: 'a namespace that holds what the kernel puts into each',
      script: 'ip netns add api; ip -n api link add sit0 type ifb',
    },
  ]
  test.for(TAKEN)('$name', async ({ script, others = [] }) => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of others) await project.deploy(each)
    await node.run(script)
    await project.deploy(api)
    await project.sweep()

    await using fresh = await TestNode.create()
    using there = await Project.on(fresh)
    for (const each of [...others.filter((each) => each === web), api]) await there.deploy(each)
    expect(await node.dump()).toEqual(await fresh.dump())
    expect(await node.run('ip -n api -o link show')).toMatch(/ eth0@/)
  })
})
