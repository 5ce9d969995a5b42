/**
 * Sequences of deploys, stops and sweeps, done on one node by the project and on another by the oracle: what the kernels then
 * hold is the same, line for line. Sweeps change sides: what the project wired the oracle sweeps, and the other way round.
 */
import { describe, expect, type TestContext, test } from 'vitest'
import type { ContainerNetOptions } from '../../src/node/net.js'
import { need } from '../support/machine.js'
import { type Backend, TestNode } from '../support/node.js'
import type { Environment } from '../support/process.js'
import { ACME, GLOBEX, oracleArgs, Project, type Spec, spec } from './deploys.js'
import { picture } from './picture.js'
import { sameView } from './slow-view.js'

type Step =
  | Spec
  /** By the oracle on both nodes. */
  | { readonly older: Spec }
  | { readonly stop: string; readonly octet: number }
  /** A workload that was moved leaves a veth, which goes some time after its namespace. */
  | { readonly gone: number }
  | { readonly sweep: 'crossed' | 'own' }
  | { readonly run: string }

interface Sequence {
  readonly name: string
  readonly steps: readonly Step[]
  /** What the oracle does instead: it leaves one copy of a first generation that a killed deploy left. */
  readonly undisturbed?: readonly Step[]
  /** Needs cls_flower and act_skbedit. */
  readonly flower?: true
  readonly net?: ContainerNetOptions
  /** The same for the oracle. */
  readonly env?: Environment
  readonly backends?: readonly Backend[]
  /** With nft in CI in a guest too. */
  readonly guest?: true
}

const api = spec('api', 7, 'acme')
const web = spec('web', 8, 'acme')
const billing = spec('billing', 9, 'globex')
const acct = spec('acct', 2)
const granting: Spec = { ...api, allow: ['globex/default/billing'] }
const stop = (workload: string, octet: number): Step => ({ stop: workload, octet })
const sweep: Step = { sweep: 'crossed' }
const BOTH: readonly Backend[] = ['nft', 'legacy']

const NET = '10.128.3.0/24'
const GRANT = '-m mark ! --mark 0x2000000/0x2000000'
/** The drop between tenants of a bridge, with one generation's tag, as an older deploy that was killed leaves it. */
const drop = (bridge: string, generation: string): string =>
  `-i ${bridge} -d ${NET} ! -o ${bridge} ${GRANT} -m comment --comment yah-isolation-${generation} -j DROP`
const IPT = '"$IPTABLES" -w'

const SEQUENCES: readonly Sequence[] = [
  { name: 'a singleton alone', steps: [acct], backends: BOTH },
  { name: 'a tenant alone', steps: [api], backends: BOTH },
  { name: 'two of one tenant', steps: [api, web] },
  { name: 'two tenants and the singleton', steps: [acct, api, billing], backends: BOTH },
  { name: 'the singleton last', steps: [billing, acct] },
  { name: 'a redeploy', steps: [api, api], backends: BOTH },
  { name: 'a redeploy among others', steps: [acct, api, web, billing, api, acct] },
  { name: 'the same identity by name', steps: [{ ...api, identity: 'acme/default/api' }, api] },
  { name: 'an identity of many slashes', steps: [{ ...api, identity: 'acme/prod/a/b' }] },
  {
    name: 'a name that is no namespace name',
    steps: [{ ...api, workload: 'api.v2:blue/é x' }],
    env: { LC_ALL: 'C.UTF-8' },
  },
  { name: 'a name longer than a namespace name', steps: [{ ...api, workload: 'w'.repeat(80) }] },
  {
    name: 'the first and the last octet',
    steps: [
      { ...api, octet: 2 },
      { ...web, octet: 254 },
    ],
  },
  { name: 'an address that another tenant takes over', steps: [api, web, { ...billing, octet: 7 }], backends: BOTH },
  { name: 'an address that another identity takes over', steps: [api, spec('next', 7, 'acme')] },
  { name: 'an address from a tenant to the singleton', steps: [api, { ...acct, octet: 7 }], backends: BOTH },
  { name: 'an address from the singleton to a tenant', steps: [acct, { ...api, octet: 2 }], backends: BOTH },
  { name: 'there and back again', steps: [api, { ...billing, octet: 7 }, { ...acct, octet: 7 }, api] },
  { name: 'a stopped tenant’s address, unswept', steps: [api, web, stop('api', 7), { ...billing, octet: 7 }] },
  { name: 'a stopped tenant’s address, swept', steps: [api, stop('api', 7), sweep, { ...billing, octet: 7 }] },
  { name: 'a stopped singleton’s address', steps: [acct, stop('acct', 2), { ...api, octet: 2 }] },
  { name: 'a workload that moved', steps: [api, web, { ...api, octet: 17 }, { gone: 7 }] },
  { name: 'a workload that moved, swept', steps: [api, { ...api, octet: 17 }, { gone: 7 }, sweep], backends: BOTH },
  { name: 'a workload that moved to where another was', steps: [api, web, { ...api, octet: 8 }, { gone: 7 }, sweep] },
  { name: 'stopped, swept and back', steps: [api, web, stop('api', 7), sweep, api] },
  { name: 'stopped, unswept and back', steps: [api, web, stop('api', 7), api], backends: BOTH },
  { name: 'all stopped and swept', steps: [acct, api, stop('api', 7), stop('acct', 2), sweep], backends: BOTH },
  { name: 'each sweeps its own', steps: [api, billing, stop('billing', 9), { sweep: 'own' }] },
  { name: 'the last of a tenant beside others', steps: [api, billing, stop('api', 7), sweep, web], backends: BOTH },
  {
    name: 'another node bridge, range and singleton',
    steps: [spec('acct', 2, 'main', { base: '10.200.7' }), { ...api, base: '10.200.7' }, stop('api', 7), sweep],
    net: { bridge: 'node0', range: '10.192.0.0/10', singletonTenant: 'main' },
    env: { NODE_BRIDGE: 'node0', NODE_RANGE: '10.192.0.0/10', SINGLETON: 'main' },
  },
  {
    name: 'a node bridge of the longest name',
    steps: [{ ...acct }, api],
    net: { bridge: 'abcdefghijklmno' },
    env: { NODE_BRIDGE: 'abcdefghijklmno' },
  },
  {
    name: 'a node bridge of one letter',
    steps: [acct, api, stop('api', 7), sweep],
    net: { bridge: 'y' },
    env: { NODE_BRIDGE: 'y' },
  },
  {
    name: 'the first generation left by a deploy that was killed',
    steps: [
      { older: api },
      {
        run: `${IPT} -I FORWARD ${drop(ACME, 'a')}; ip rule add priority 1201 iif ${ACME} to ${NET} fwmark 0/0x2000000 prohibit`,
      },
      api,
    ],
    undisturbed: [api],
    backends: BOTH,
  },
  {
    name: 'the first generation alone',
    steps: [
      { older: api },
      {
        run: `${IPT} -I FORWARD ${drop(ACME, 'a')}; ${IPT} -D FORWARD ${drop(ACME, 'b')}
          ip rule add priority 1203 iif ${ACME} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit
          ip rule del priority 1204 iif ${ACME} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit`,
      },
      web,
    ],
    undisturbed: [api, web],
  },
  {
    name: 'the mesh mark missing, which all tenants share',
    steps: [
      { older: api },
      { older: billing },
      {
        run: `${IPT} -t mangle -D PREROUTING -s 100.64.0.0/10 -d ${NET} -m comment --comment yah-isolation-b -j MARK --set-xmark 0x1000000/0x1000000`,
      },
      web,
    ],
  },
  {
    name: 'what an older deploy wired',
    steps: [{ older: acct }, { older: api }, { older: billing }, api, acct, billing, web],
    backends: BOTH,
  },
  {
    name: 'rules of other people’s',
    steps: [
      {
        run: `ip rule add priority 1200 to 10.128.3.7/32 table 77; ip rule add priority 1202 from 192.0.2.0/24 prohibit
          ${IPT} -A FORWARD -i docker0 -j ACCEPT; ${IPT} -t mangle -A PREROUTING -j CONNMARK --restore-mark
          ${IPT} -t nat -A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE; sysctl -qw net.ipv4.ip_forward=1`,
      },
      api,
      { ...billing, octet: 7 },
      acct,
    ],
    backends: BOTH,
  },
  {
    name: 'chains that somebody else’s rules hold',
    steps: [
      granting,
      { run: `${IPT} -t mangle -A OUTPUT -j yah-id-10.128.3.7; ${IPT} -t mangle -A OUTPUT -j yah-gr-10.128.3.7` },
      { ...billing, octet: 7 },
    ],
    backends: BOTH,
  },
  { name: 'a grant to a workload that is not there', steps: [granting], backends: BOTH },
  { name: 'a grant within the tenant, which needs none', steps: [web, { ...api, allow: ['acme/default/web'] }] },
  {
    name: 'grants to several that are not there',
    steps: [acct, { ...api, allow: ['globex/default/z', 'initech/a/b', 'globex/default/a', 'singleton/default/x'] }],
  },
  { name: 'a grant taken back', steps: [granting, api], backends: BOTH },
  { name: 'a grant to another one', steps: [granting, { ...api, allow: ['globex/default/other'] }] },
  { name: 'a grant of an address’s last owner', steps: [granting, web, { ...billing, octet: 7, workload: 'next' }] },
  { name: 'a grant, the granting one first', steps: [granting, billing], flower: true, backends: BOTH, guest: true },
  { name: 'a grant, the admitted one first', steps: [billing, granting], flower: true, backends: BOTH },
  { name: 'grants in both directions', steps: [granting, { ...billing, allow: ['acme/default/api'] }], flower: true },
  { name: 'a grant to the singleton', steps: [acct, { ...api, allow: ['singleton/default/acct'] }], flower: true },
  { name: 'a grant taken back from one that runs', steps: [granting, billing, api], flower: true },
  { name: 'the granting one moved', steps: [granting, billing, { ...granting, octet: 17 }, { gone: 7 }], flower: true },
  { name: 'the admitted one moved', steps: [granting, billing, { ...billing, octet: 19 }, { gone: 9 }], flower: true },
  {
    name: 'the admitted one’s address taken over',
    steps: [granting, billing, spec('ledger', 9, 'globex')],
    flower: true,
  },
  {
    name: 'the granting one stopped and swept',
    steps: [granting, web, billing, stop('api', 7), sweep],
    flower: true,
    backends: BOTH,
  },
  { name: 'redeploys of both', steps: [granting, billing, granting, billing], flower: true },
]

async function take(project: Project, node: TestNode, step: Step, by: 'netsweep' | 'oracle', env: Environment) {
  if ('older' in step) await node.oracle(...oracleArgs(step.older), env)
  else if ('stop' in step) {
    if (by === 'netsweep') await project.stop(step.stop)
    else await node.oracle('stop', step.stop, env)
    await gone(node, step.octet)
  } else if ('gone' in step) await gone(node, step.gone)
  else if ('sweep' in step) {
    const own = step.sweep === 'own'
    if ((by === 'netsweep') === own) expect(await project.sweep()).toMatchObject({ complete: true })
    else await node.oracle('sweep', env)
  } else if ('run' in step) await node.run(step.run, { env })
  else if (by === 'netsweep') await project.deploy(step)
  else await node.oracle(...oracleArgs(step), env)
}

async function gone(node: TestNode, octet: number): Promise<void> {
  await node.run(`while ip link show veth${octet} >/dev/null 2>&1; do sleep 0.02; done`)
}

/** The picture of a node after the sequence. */
async function play(sequence: Sequence, backend: Backend, by: 'netsweep' | 'oracle') {
  await using node = await TestNode.create({ backend })
  using project = await Project.on(node, sequence.net)
  const env = { ...sequence.env, ...(sequence.flower ? { ARP_PATH: '1' } : {}) }
  const steps = by === 'oracle' ? (sequence.undisturbed ?? sequence.steps) : sequence.steps
  for (const step of steps) await take(project, node, step, by, env)
  if (by === 'netsweep') await sameView(node, { iptables: backend, ...sequence.net })
  return { dump: await node.dump({ env }), picture: await picture(node, project.net) }
}

async function compare(context: TestContext, sequence: Sequence, backend: Backend): Promise<void> {
  if (sequence.flower) await need(context, 'flower')
  const [ours, theirs] = await Promise.all([play(sequence, backend, 'netsweep'), play(sequence, backend, 'oracle')])
  expect(ours.dump).toEqual(theirs.dump)
  expect(ours.picture).toEqual(theirs.picture)
  expect(theirs.dump).not.toEqual([])
}

describe.concurrent('the kernel holds what it holds after the oracle', () => {
  const cases = SEQUENCES.flatMap((sequence) =>
    (sequence.backends ?? ['nft']).map((backend) => ({ ...sequence, backend, title: `${sequence.name} (${backend})` })),
  )
  for (const sequence of cases) {
    test(sequence.title, sequence.guest && sequence.backend === 'nft' ? { tags: 'guest' } : {}, (context) =>
      compare(context, sequence, sequence.backend),
    )
  }
})

test('the bridges of the tenants are those that this file names', async () => {
  await using node = await TestNode.create()
  expect([await node.oracle('bridge-name', 'acme'), await node.oracle('bridge-name', 'globex')]).toEqual([
    `${ACME}\n`,
    `${GLOBEX}\n`,
  ])
})
