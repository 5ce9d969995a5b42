/** The MTU of a workload's link, the back end that is written to, and the warning about its resolver. */
import { describe, expect, test } from 'vitest'
import { need } from '../support/machine.js'
import { lines, TestNode } from '../support/node.js'
import { ACME, oracleArgs, Project, type Spec, spec } from './deploys.js'

const api = spec('api', 7, 'acme')

describe.concurrent('an MTU', () => {
  const mtus = async (node: TestNode): Promise<number[]> => {
    const said = await node.run('cat <(ip -o link show veth7) <(ip -n api -o link show eth0) | grep -oE "mtu [0-9]+"')
    return lines(said).map((line) => Number(line.slice(4)))
  }

  test('is that of both ends, and the kernel’s own when left out', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    expect(await mtus(node)).toEqual([1500, 1500])
    await project.deploy({ ...api, octet: 8, workload: 'small', mtu: 1280 })
    expect(await node.run('ip -o link show veth8; ip -n small -o link show eth0')).toMatch(/mtu 1280 [\s\S]*mtu 1280 /)
    // The rest of the bridge does not follow: a bridge takes the smallest of its ports' by itself.
    expect(await mtus(node)).toEqual([1500, 1500])
  })

  test('is changed in place, and again nothing is left to do', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    const index = await node.run('ip -o link show veth7 | cut -d: -f1')
    expect((await project.deploy({ ...api, mtu: 1380 })).changes).toHaveLength(2)
    expect(await mtus(node)).toEqual([1380, 1380])
    expect(await node.run('ip -o link show veth7 | cut -d: -f1')).toBe(index)
    expect((await project.deploy({ ...api, mtu: 1380 })).changes).toEqual([])
    // Left out, it says nothing of what is there.
    expect((await project.deploy(api)).changes).toEqual([])
  })
})

describe.concurrent('the back end that is written to', () => {
  const rules = async (node: TestNode, backend: string): Promise<number> =>
    lines(await node.run(`iptables-${backend}-save 2>/dev/null | grep -E 'yah' || :`)).length
  const bystander: Spec = spec('web', 8, 'acme')

  test('is legacy where legacy holds what was wired, and no nft rule is made', async (context) => {
    await need(context, 'legacy')
    await using node = await TestNode.create({ backend: 'legacy' })
    using project = await Project.on(node, { iptables: 'auto' })
    await node.oracle(...oracleArgs(bystander))
    await project.deploy(api)
    expect(await rules(node, 'nft')).toBe(0)
    await using other = await TestNode.create({ backend: 'legacy' })
    await other.oracle(...oracleArgs(bystander))
    await other.oracle(...oracleArgs(api))
    expect(await node.dump()).toEqual(await other.dump())
  })

  test('is nft on an empty node, and asking legacy makes no tables', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node, { iptables: 'auto' })
    await project.deploy(api)
    expect(await node.run('cat /proc/net/ip_tables_names 2>/dev/null || :')).toBe('')
    expect(await rules(node, 'nft')).toBeGreaterThan(10)
  })

  test('is nft beside legacy tables of somebody else’s', async (context) => {
    await need(context, 'legacy')
    await using node = await TestNode.create()
    using project = await Project.on(node, { iptables: 'auto' })
    await node.run('iptables-legacy -A FORWARD -i docker0 -j ACCEPT')
    await project.deploy(api)
    expect(await rules(node, 'legacy')).toBe(0)
    expect(await rules(node, 'nft')).toBeGreaterThan(10)
  })

  test('of the last owner’s chains none is left in either, whichever it is', async (context) => {
    await need(context, 'legacy')
    await using node = await TestNode.create()
    using project = await Project.on(node, { iptables: 'auto' })
    await node.oracle(...oracleArgs(bystander))
    await node.oracle(...oracleArgs(api), { IPTABLES: 'iptables-legacy' })
    await project.deploy(spec('next', 7, 'globex'))
    expect(await node.run('iptables-legacy-save -t mangle | grep 10.128.3.7 || :')).toBe('')
    expect(lines(await node.run('iptables-nft-save -t mangle | grep -- "-j yah-id-10.128.3.7"'))).toHaveLength(1)
  })
})

describe('a resolver in the mesh pool', () => {
  const deploy = async (node: TestNode, ...more: string[]): Promise<{ notices: { object: string }[] }> => {
    const { status, stderr, json } = await node.netsweep([
      'deploy',
      '--json',
      '--workload',
      'api',
      '--address',
      '10.128.3.7',
      ...more,
    ])
    expect(status, stderr).toBe(0)
    return json as { notices: { object: string }[] }
  }

  test('is warned of for a tenant, from its own file before the node’s', async () => {
    await using node = await TestNode.create()
    // A copy of /etc, seen in this node alone.
    await node.run(`cp -a /etc /run/etc && mount --bind /run/etc /etc
      rm -f /etc/resolv.conf; echo 'nameserver 100.64.0.53' >/etc/resolv.conf`)
    const { notices } = await deploy(node, '--tenant', 'acme')
    expect(notices).toEqual([
      { object: '/etc/resolv.conf', reason: expect.stringMatching(/100\.64\.0\.53 .*100\.64\.0\.0\/10/) },
    ])

    await node.run('mkdir -p /etc/netns/api; echo "nameserver 192.0.2.53" >/etc/netns/api/resolv.conf')
    expect((await deploy(node, '--tenant', 'acme')).notices).toEqual([])
    await node.run('echo "nameserver 100.100.100.100" >/etc/netns/api/resolv.conf; : >/etc/resolv.conf')
    expect((await deploy(node, '--tenant', 'acme')).notices).toEqual([
      { object: '/etc/netns/api/resolv.conf', reason: expect.stringContaining('100.100.100.100') },
    ])
  })

  test('is none of the singleton’s concern', async () => {
    await using node = await TestNode.create()
    await node.run(`cp -a /etc /run/etc && mount --bind /run/etc /etc
      rm -f /etc/resolv.conf; echo 'nameserver 100.64.0.53' >/etc/resolv.conf`)
    expect((await deploy(node)).notices).toEqual([])
    expect(await node.run(`ip -o link show ${ACME} 2>&1 || :`)).toContain('does not exist')
  })
})
