/** The kernel is looked at between every two writes of a deploy: a tenant is never without its isolation, nobody inherits. */
import { describe, expect, test } from 'vitest'
import { type Backend, TestNode } from '../support/node.js'
import { ACME, GLOBEX, nameOfWrite, onWrites, oracleArgs, Project, type Spec, spec } from './deploys.js'
import { lacks, type Moment, momentOf } from './moments.js'

const NET = '10.128.3.0/24'
const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
const web = spec('web', 8, 'acme')
const billing = spec('billing', 9, 'globex')
const acct = spec('acct', 2)
const FIRST = (rule: string): string => rule.replace('yah-isolation-b', 'yah-isolation-a')
const DROP = `-i ${ACME} -d ${NET} ! -o ${ACME} -m mark ! --mark 0x2000000/0x2000000 -m comment --comment yah-isolation-b -j DROP`

/** Deploys, and returns what the node was like before each write and behind the last. */
async function watch(project: Project, node: TestNode, what: Spec): Promise<(Moment & { before: string })[]> {
  const moments: (Moment & { before: string })[] = []
  const veth = `veth${what.octet}`
  await project.deploy(
    what,
    onWrites(project.host, async (write) => {
      moments.push({ before: nameOfWrite(write), ...(await momentOf(node, veth)) })
    }),
  )
  moments.push({ before: 'the end', ...(await momentOf(node, veth)) })
  return moments
}

describe.concurrent('a bridge that is up has all of its isolation', () => {
  interface Case {
    readonly name: string
    readonly before?: readonly Spec[]
    readonly script?: string
    readonly deploy: Spec
    readonly backend?: Backend
  }
  const cases: readonly Case[] = [
    { name: 'on the first deploy', deploy: api },
    { name: 'on the first deploy, in legacy iptables', deploy: api, backend: 'legacy' },
    { name: 'on the first of a tenant beside others', before: [acct, billing], deploy: api },
    { name: 'on a redeploy', before: [api, billing], deploy: api },
    { name: 'when a tenant-mate comes', before: [api], deploy: web },
    {
      name: 'when another tenant takes the address over',
      before: [api, web, billing],
      deploy: { ...billing, octet: 7 },
    },
    {
      name: 'where the first generation stands in for the second',
      before: [api],
      script: `
        for t in raw mangle filter; do "$IPTABLES-save" -t $t | sed 's/yah-isolation-b/yah-isolation-a/' | "$IPTABLES-restore" -T $t; done
        ip rule add priority 1201 iif ${ACME} to ${NET} fwmark 0/0x2000000 prohibit; ip rule del priority 1202
        ip rule add priority 1203 iif ${ACME} to 100.64.0.0/10 fwmark 0/0x3000000 prohibit; ip rule del priority 1204`,
      deploy: web,
    },
    {
      name: 'where rules are there twice, and behind what accepts',
      before: [api],
      script: `"$IPTABLES" -A FORWARD ${DROP}; "$IPTABLES" -A FORWARD ${DROP}; "$IPTABLES" -D FORWARD ${DROP}
        "$IPTABLES" -I FORWARD ${FIRST(DROP)}`,
      deploy: api,
    },
    {
      name: 'where rules are there twice, in legacy iptables',
      before: [api],
      script: `"$IPTABLES" -w -A FORWARD ${DROP}; "$IPTABLES" -w -A FORWARD ${DROP}; "$IPTABLES" -w -D FORWARD ${DROP}`,
      deploy: api,
      backend: 'legacy',
    },
  ]
  test.for(cases)('$name', async ({ before = [], script = ':', deploy, backend = 'nft' }) => {
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    for (const each of before) await project.deploy(each)
    await node.run(script)

    const moments = await watch(project, node, deploy)

    if (before.length === 0)
      expect(
        moments.some(({ up }) => !up.includes(ACME)),
        'it was not up at first',
      ).toBe(true)
    expect(moments.at(-1)?.up).toContain(ACME)
    for (const moment of moments) {
      for (const bridge of [ACME, GLOBEX].filter((name) => moment.up.includes(name))) {
        expect(lacks(moment, bridge), `before ${moment.before}`).toEqual([])
      }
    }
  })
})

describe.concurrent('an address that changes hands', () => {
  // FNV-1a 64 modulo 65535, plus 1, by the oracle.
  const marks: Record<string, number> = {}
  const identity = ({ workload, tenant = 'singleton', identity = `${tenant}/default/${workload}` }: Spec) => identity
  const markOf = async (node: TestNode, who: Spec) => {
    marks[identity(who)] ??= Number(await node.oracle('identity-mark', identity(who)))
    return `0x${marks[identity(who)]?.toString(16)}/0xffff`
  }
  const bridgeOf = ({ tenant }: Spec): string => (tenant === 'acme' ? ACME : tenant === 'globex' ? GLOBEX : 'yah0')
  const cases: readonly (readonly [name: string, from: Spec, to: Spec, backend?: Backend])[] = [
    ['tenant to tenant', api, { ...billing, octet: 7, workload: 'next' }],
    ['tenant to tenant, in legacy iptables', api, { ...billing, octet: 7, workload: 'next' }, 'legacy'],
    ['tenant to singleton', api, { ...acct, octet: 7, workload: 'next' }],
    ['singleton to tenant', { ...acct, octet: 7, workload: 'old', allow: ['globex/default/absent'] }, api],
    ['one identity to another', api, spec('next', 7, 'acme')],
    ['one name to another', { ...api, identity: 'acme/a/same', workload: 'old' }, { ...api, identity: 'acme/a/other' }],
  ]
  test.for(cases)('%s', async ([, from, to, backend = 'nft']) => {
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    for (const each of [acct, web, billing]) await project.deploy(each)
    // By the oracle, so that what is withdrawn is not only what the project itself would have written.
    await node.oracle(...oracleArgs(from))
    const track = '-I -p tcp --state ESTABLISHED -t 3600 --sport 4000 --dport 80'
    await node.run(`
      conntrack ${track} -s 10.128.3.7 -d 192.0.2.9 2>&1
      conntrack ${track} -s 192.0.2.9 -d 10.128.3.7 --mark 0x2000000 2>&1
      conntrack ${track} -s 10.128.3.8 -d 192.0.2.9 2>&1`)
    const old = await momentOf(node, 'veth7')
    const oldMark = await markOf(node, from)
    const newMark = await markOf(node, to)
    const names = (line: string): boolean => /\b10\.128\.3\.7\b/.test(line)
    expect(old.connections.filter(names)).toHaveLength(2)

    const moments = await watch(project, node, to)

    expect(new Set(moments.map(({ veth }) => veth?.index)).size, 'the old veth, none, the new one').toBe(3)
    for (const { before, veth, tables, rules, routes, connections } of moments) {
      const where = `before ${before}`
      const own = tables.filter(names)
      if (veth?.index === old.veth?.index) {
        // The last owner runs: with all that is its own.
        expect(own, where).toEqual(old.tables.filter(names))
        expect(connections.filter(names), where).toHaveLength(2)
      } else if (veth !== null) {
        expect(
          own.filter((line) => line.includes(oldMark)),
          where,
        ).toEqual([])
        if (bridgeOf(from) !== bridgeOf(to))
          expect(
            own.filter((line) => line.includes(` ${bridgeOf(from)} `)),
            where,
          ).toEqual([])
        if (to.allow === undefined)
          expect(
            own.filter((line) => line.includes('0x2000000')),
            where,
          ).toEqual([])
        expect(
          routes.filter(names).filter((line) => !line.includes(bridgeOf(to))),
          where,
        ).toEqual([])
        if (to.tenant === undefined) expect(rules.filter(names), where).toEqual([])
        expect(connections.filter(names), where).toEqual([])
      }
      if (veth?.up && veth.index !== old.veth?.index) {
        expect(
          own.filter((line) => line.includes(newMark)),
          where,
        ).toHaveLength(1)
        expect(
          own.filter((line) => line.includes('-j yah-id-10.128.3.7')),
          where,
        ).toHaveLength(1)
        const tenants = to.tenant === undefined ? 0 : 1
        expect(
          [routes.filter(names), rules.filter(names)].map(({ length }) => length),
          where,
        ).toEqual([tenants, tenants])
      }
      expect(
        connections.filter((line) => line.includes('10.128.3.8')),
        'others keep theirs',
      ).toHaveLength(1)
    }
    expect(moments.at(-1)?.veth?.up).toBe(true)
  })
})
