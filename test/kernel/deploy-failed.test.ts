/** A deploy of which each write is refused in turn: it is undone, and says what failed. */
import { describe, expect, test } from 'vitest'
import { WiringError } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { type Backend, TestNode } from '../support/node.js'
import { nameOfWrite, onWrites, Project, type Spec, spec } from './deploys.js'

const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
const bystanders = [spec('acct', 2), spec('web', 8, 'acme')]

/** The nth write fails, counted from 1. */
function refusingAt(host: Host, nth: number): Host {
  let seen = 0
  return onWrites(host, async () => (++seen === nth ? 'refuse' : undefined))
}

async function writesOf(before: readonly Spec[], to: Spec, backend: Backend): Promise<string[]> {
  await using node = await TestNode.create({ backend })
  using project = await Project.on(node)
  for (const each of before) await project.deploy(each)
  const writes: string[] = []
  await project.deploy(
    to,
    onWrites(project.host, async (write) => void writes.push(nameOfWrite(write))),
  )
  return writes
}

async function failure(running: Promise<unknown>): Promise<WiringError> {
  const error = await running.then(
    () => expect.fail('it was not refused'),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(WiringError)
  return error as WiringError
}

describe.concurrent('a fresh address', () => {
  test.for<[name: string, before: readonly Spec[], to: Spec, backend: Backend]>([
    ['the first workload of all', [], api, 'nft'],
    ['the first workload of all, a singleton', [], spec('acct', 2), 'nft'],
    ['the first of a tenant', bystanders, spec('lone', 9, 'initech'), 'legacy'],
    ['one more of a tenant', bystanders, api, 'nft'],
  ])('%s', { timeout: 600_000 }, async ([, before, to, backend]) => {
    const writes = await writesOf(before, to, backend)
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    for (const each of before) await project.deploy(each)
    const untouched = await node.dump()

    for (const [at, write] of writes.entries()) {
      // What is the whole node's stays, and the next try would have one write less.
      if (before.length === 0) await node.run('sysctl -qw net.ipv4.ip_forward=0 net.ipv4.conf.all.src_valid_mark=0')
      const error = await failure(project.deploy(to, refusingAt(project.host, at + 1)))

      expect(error.message, write).toMatch(
        new RegExp(`^deploy ${to.workload}: .*refused by the test.*; it was undone$`),
      )
      expect(await node.dump(), write).toEqual(untouched)
      expect(await node.run('ls /run/netns 2>/dev/null || :'), write).not.toMatch(new RegExp(`^${to.workload}$`, 'm'))
    }
    expect((await project.deploy(to)).changes.length).toBeGreaterThan(5)
  })
})

test('an address that changes hands: nothing of either is left, unless nothing was taken from the last owner yet', async () => {
  const next = spec('next', 7, 'acme')
  const writes = await writesOf([...bystanders, api], next, 'nft')
  await using node = await TestNode.create()
  using project = await Project.on(node)
  for (const each of bystanders) await project.deploy(each)
  const without = await node.dump()
  await project.deploy(api)
  const before = await node.dump()
  const left: boolean[] = []
  for (const [at, write] of writes.entries()) {
    await failure(project.deploy(next, refusingAt(project.host, at + 1)))
    const dump = await node.dump()
    left.push(dump.includes('link veth7: master yah0-6jgfqfdnu6'))
    expect(dump, write).toEqual(left.at(-1) ? before : without)
    await project.deploy(api)
  }
  // RTM_DELLINK (linux/rtnetlink.h): the last owner's veth.
  const taken = writes.indexOf('request 17')
  expect(left).toEqual(writes.map((_, at) => at <= taken))
})

test('a workload that moves runs on where it was, when it is not taken from there yet', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(api)
  const before = await node.dump()
  // The bridge's own part is mended first: a rule that is not there makes it the first write.
  await node.run(`"$IPTABLES" -D FORWARD -i yah0-6jgfqfdnu6 -j ACCEPT`)
  const error = await failure(project.deploy({ ...api, octet: 17 }, refusingAt(project.host, 1)))
  expect(error.message).toMatch(/refused by the test/)
  await node.run(`"$IPTABLES" -A FORWARD -i yah0-6jgfqfdnu6 -j ACCEPT`)
  expect(await node.dump()).toEqual(before)
  expect(await node.run('ip -n api -4 -o addr show dev eth0')).toContain('10.128.3.7/24')
})

test('what was wired before is as it was, when mending it fails', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(api)
  await node.run('ip route del 10.128.3.7; ip rule del priority 1200')
  const before = await node.dump()
  const error = await failure(project.deploy(api, refusingAt(project.host, 1)))
  expect(error.message).toMatch(/add route 10\.128\.3\.7\/32.*; what was wired before is as it was$/)
  expect(error.code).toBe('EPERM')
  expect(await node.dump()).toEqual(before)
})

test('when mending it fails later, what was done before is told', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(api)
  await node.run('ip route del 10.128.3.7; ip rule del priority 1200')
  const error = await failure(project.deploy(api, refusingAt(project.host, 2)))
  expect(error.message).toMatch(
    /add rule priority 1200 .*; it runs on; done before that: add route 10\.128\.3\.7\/32 [^,]*$/,
  )
  expect(await node.run('ip route show 10.128.3.7')).toContain('10.128.3.7 dev yah0-6jgfqfdnu6')
})

test('cancelled on the way, it is undone as well', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  for (const each of bystanders) await project.deploy(each)
  const before = await node.dump()
  const abort = new AbortController()
  let seen = 0
  const host = onWrites(project.host, async () => {
    if (++seen === 4) abort.abort()
  })
  const error = await failure(project.deploy(api, host, { signal: abort.signal }))
  expect(error.message).toMatch(/; it was undone$/)
  expect(await node.dump()).toEqual(before)
})

describe.concurrent('undoing takes nothing that somebody brought meanwhile', () => {
  const acct = spec('acct', 2)
  const port = (bridge: string) => `ip link add tap0 type ifb; ip link set tap0 master ${bridge}`
  test.for<[what: string, to: Spec, at: string, script: string, stays: string, left: RegExp]>([
    [
      'a port of the node bridge',
      acct,
      'namespace add acct',
      port('yah0'),
      'ip -o link show tap0 master yah0',
      /undoing it left bridge yah0, which somebody else made or uses$/,
    ],
    [
      'a port of a tenant bridge',
      api,
      'namespace add api',
      port('yah0-6jgfqfdnu6'),
      'ip -o link show tap0 master yah0-6jgfqfdnu6',
      /undoing it left bridge yah0-6jgfqfdnu6, which somebody else made or uses$/,
    ],
    [
      'a node bridge of that name',
      acct,
      'request 16',
      'ip link add yah0 type bridge',
      'ip -o link show yah0',
      /EEXIST.*undoing it left bridge yah0, which somebody else made or uses$/,
    ],
    [
      'a tenant bridge of that name',
      api,
      'request 16',
      'ip link add yah0-6jgfqfdnu6 type bridge',
      'ip -o link show yah0-6jgfqfdnu6',
      /EEXIST/,
    ],
    [
      'a namespace of that name',
      acct,
      'namespace add acct',
      'ip netns add acct',
      'ip netns list',
      /EEXIST|File exists/,
    ],
    [
      'a veth of that name',
      acct,
      'namespace add acct',
      'ip link add veth2 type veth peer name other',
      'ip -o link show veth2',
      /EEXIST/,
    ],
  ])('%s', async ([what, to, at, script, stays, left]) => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    let came = false
    const somebody = onWrites(project.host, async (write) => {
      // RTM_NEWLINK is 16 (linux/rtnetlink.h): the bridge comes first.
      if (came && what.startsWith('a port') && nameOfWrite(write) === 'request 16') return 'refuse'
      if (!came && nameOfWrite(write) === at) await node.run(script)
      came ||= nameOfWrite(write) === at
      return undefined
    })
    const error = await failure(project.deploy(to, somebody))
    expect(error.message).toMatch(left)
    expect(await node.run(stays)).not.toBe('')
  })
})
