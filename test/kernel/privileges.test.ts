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

test('root without CAP_SYS_ADMIN, which takes namespaces: told before anything is changed; the rest works', async () => {
  await using node = await TestNode.create()
  const api = ['deploy', '--workload', 'api', '--address', '10.128.3.7', '--tenant', 'acme']
  expect((await node.netsweep(api)).status).toBe(0)
  await node.run('ip netns add other')
  const bounded = ['--bounding-set', '-sys_admin', '--inh-caps', '-sys_admin']
  const calls = [
    api,
    ['deploy', '--workload', 'web', '--address', '10.128.3.8', '--tenant', 'acme', '--allow', 'globex/default/x'],
    ['stop', 'api'],
    ['sweep', '--netns', 'other'],
    ['show', '--netns', '/run/netns/other'],
  ]
  for (const args of calls) {
    const { status, stdout, stderr } = await without(node, bounded, [...args, '--json'])
    expect({ args, status, error: JSON.parse(stdout) }).toEqual({
      args,
      status: 3,
      error: {
        error: { code: 'PRIVILEGE', message: expect.any(String), hint: expect.stringMatching(/ CAP_SYS_ADMIN/) },
      },
    })
    expect(stderr).toMatch(/^netsweep: [^\n]+\n$/)
  }
  for (const args of [['show'], ['stop', '--address', '10.128.3.7'], ['sweep']]) {
    const { status, stderr } = await node.exec('setpriv', [...bounded, '--', process.execPath, CLI, ...args])
    expect({ args, status, stderr }).toEqual({ args, status: 0, stderr: '' })
  }
  expect(await node.run('ip -br link show type veth; ip -br link show type bridge')).toBe('')
})

test('names of namespaces that may not be written: what was done is undone, or said', async (context) => {
  await need(context, 'root')
  await using node = await TestNode.create()
  await node.run('install -d -m 0700 -o nobody /run/netsweep')
  const caps = '+net_admin,+net_raw,+sys_admin'
  const how = ['--reuid', 'nobody', '--clear-groups', `--inh-caps=${caps}`, `--ambient-caps=${caps}`]
  const api = ['--workload', 'api', '--address', '10.128.3.7', '--tenant', 'acme']
  const before = await node.dump()
  const call = (...args: string[]) => node.exec('setpriv', [...how, '--', process.execPath, CLI, ...args])
  expect(await call('deploy', ...api)).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(
      /^netsweep: deploy api: make namespace api: mkdir \/run\/netns: Permission denied; it was undone; run as root /,
    ),
  })
  // ip_forward is the node's, and stays.
  expect(
    (await node.dump()).filter((line) => !before.includes(line) && !/ip_forward|src_valid_mark/.test(line)),
  ).toEqual([])

  await node.oracle('deploy', '--workload', 'api', '--addr', '10.128.3.7', '--tenant', 'acme')
  expect(await call('stop', 'api')).toMatchObject({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^netsweep: stop api: [^\n]*write to \/run\/netns: Permission denied; done before that: [^\n]*delete veth7; run as root /,
    ),
  })
  expect(await node.run('ip netns list; rm -r /run/netsweep')).toMatch(/^api/)
  expect((await node.netsweep(['stop', 'api'])).stdout).toMatch(/^stopped api \(it had no host veth\)/)
})

test('a /run that cannot be written to: the lock cannot be had, and nothing was changed', async () => {
  await using node = await TestNode.create()
  await node.run('mount -o remount,ro /run')
  for (const args of [['sweep'], ['stop', 'api'], ['deploy', '--workload', 'api', '--address', '10.128.3.7']]) {
    const { status, stderr } = await without(node, [], args)
    expect({ args, status }).toEqual({ args, status: 3 })
    expect(stderr).toMatch(/^netsweep: \/run\/netsweep[^:]*: EROFS: [^\n]*; \/run has to be writable\n$/)
  }
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
