/** Without CAP_NET_ADMIN: what is missing, and how to get it. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { need } from '../support/machine.js'
import { TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { GLOBEX } from './passes.js'

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))

async function stopped(): Promise<TestNode> {
  const node = await TestNode.create()
  await node.run(`
    ip link add ${GLOBEX} type bridge; ip addr add 10.128.3.1/32 dev ${GLOBEX}; ip link set ${GLOBEX} up
    ip route add 10.128.3.9 dev ${GLOBEX}
    iptables-nft -t mangle -N yah-id-10.128.3.9`)
  return node
}

async function without(node: TestNode, how: readonly string[], args: readonly string[] = ['sweep']) {
  const before = await node.snapshot()
  const ended = await node.exec('setpriv', [...how, '--', process.execPath, CLI, ...args])
  expect(difference(before, await node.snapshot())).toEqual([])
  return ended
}

const LINE =
  /^netsweep: privileges: CAP_NET_ADMIN is missing: [^\n]+; run as root [^\n]+AmbientCapabilities=CAP_NET_ADMIN[^\n]*\n$/

test('root whom somebody took the capability', async () => {
  await using node = await stopped()
  const bounded = ['--bounding-set', '-net_admin', '--inh-caps', '-net_admin']
  for (const args of [['sweep'], ['sweep', '--dry-run'], ['show'], ['sweep', '--netns', '/proc/self/ns/net']]) {
    const { status, stdout, stderr } = await without(node, bounded, args)
    expect({ args, status, stdout }).toEqual({ args, status: 3, stdout: '' })
    expect(stderr).toMatch(LINE)
  }
  const json = await without(node, bounded, ['sweep', '--json'])
  expect(json.status).toBe(3)
  expect(JSON.parse(json.stdout)).toEqual({
    error: {
      code: 'PRIVILEGE',
      message: expect.stringContaining('CAP_NET_ADMIN is missing'),
      hint: expect.stringContaining('run as root'),
    },
  })
})

test('an ordinary user', async (context) => {
  await need(context, 'root')
  await using node = await stopped()
  const { status, stdout, stderr } = await without(node, ['--reuid', 'nobody', '--clear-groups', '--inh-caps=-all'])
  expect({ status, stdout }).toEqual({ status: 3, stdout: '' })
  expect(stderr).toMatch(LINE)
})

test('an ordinary user who was given the capabilities', async (context) => {
  await need(context, 'root')
  await using node = await stopped()
  await node.run('install -d -m 0700 -o nobody /run/netsweep')
  const ambient = '+net_admin,+net_raw'
  const how = ['--reuid', 'nobody', '--clear-groups', `--inh-caps=${ambient}`, `--ambient-caps=${ambient}`]
  const { status, stderr } = await node.exec('setpriv', [...how, '--', process.execPath, CLI, 'sweep'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(await node.run('ip -br link show type bridge')).toBe('')
})
