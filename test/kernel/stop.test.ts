/** Stopping: the host veth goes first, so that a sweep straight afterwards sees it gone; then the namespace. */
import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { ReadError, UsageError } from '../../src/index.js'
import { firstLine, lines, TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { ACME, nameOfWrite, onWrites, Project, type Spec, spec } from './deploys.js'
import { hooked } from './passes.js'

const api = spec('api', 7, 'acme')
const web = spec('web', 8, 'acme')

const exists = async (node: TestNode, link: string): Promise<boolean> =>
  (await node.tryRun(`ip link show ${link}`)).status === 0
const namespaces = async (node: TestNode): Promise<string[]> => lines(await node.run('ls /run/netns 2>/dev/null || :'))

describe.concurrent('stop', () => {
  test('the host veth first, and then the namespace', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of [api, web]) await project.deploy(each)
    const seen: string[] = []
    const host = onWrites(project.host, async (write) => {
      seen.push(`${nameOfWrite(write)}: veth7 ${(await exists(node, 'veth7')) ? 'there' : 'gone'}`)
    })

    const stopped = await project.stop('api', host)

    expect(stopped).toMatchObject({ address: '10.128.3.7', veth: 'veth7', namespace: 'deleted', processes: [] })
    // RTM_DELLINK (linux/rtnetlink.h)
    expect(seen).toEqual(['request 17: veth7 there', 'namespace delete api: veth7 gone'])
    expect(await namespaces(node)).toEqual(['web'])
    // No wait in between: the sweep sees it gone.
    expect(await project.sweep()).toMatchObject({ addresses: ['10.128.3.7'], complete: true })
    await using fresh = await TestNode.create()
    using there = await Project.on(fresh)
    await there.deploy(web)
    expect(await node.dump()).toEqual(await fresh.dump())
  })

  test('one whose namespace a process holds: gone from the node, and the process is named', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of [api, web]) await project.deploy(each)
    const holder = await node.start('nsenter', ['--net=/run/netns/api', 'bash', '-c', 'echo in; exec sleep 1000'])
    expect(await firstLine(holder)).toBe('in')
    const commandOf = async (pid: number) => (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ')

    const stopped = await project.stop('api')

    expect(stopped).toMatchObject({
      address: '10.128.3.7',
      namespace: 'held',
      changes: ['delete veth7', 'delete namespace api'],
    })
    expect(await Promise.all(stopped.processes.map(commandOf))).toEqual(['sleep 1000 '])
    expect(await exists(node, 'veth7')).toBe(false)
    expect(await namespaces(node)).toEqual(['web'])
    expect((await project.sweep()).addresses).toEqual(['10.128.3.7'])
    // And its name is free.
    expect((await project.deploy(api)).changes).not.toEqual([])
    holder.kill()
  })

  test('one that was never there, and one that was stopped before, are told apart from one that was', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    const none = { address: null, veth: null, namespace: 'absent', processes: [], changes: [] }
    expect(await project.stop('never')).toMatchObject(none)
    expect(await project.stop('api')).toMatchObject({ namespace: 'deleted' })
    expect(await project.stop('api')).toMatchObject(none)
  })

  test('one whose veth is gone: its namespace goes', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    await node.run('ip link del veth7')
    expect(await project.stop('api')).toMatchObject({ address: null, veth: null, namespace: 'deleted' })
    expect(await namespaces(node)).toEqual([])
  })

  test('one whose bridge was deleted by hand: the veth that hangs on nothing goes with it', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of [api, spec('acct', 2)]) await project.deploy(each)
    await node.run(`ip link del ${ACME}`)
    expect(await exists(node, 'veth7')).toBe(true)
    const stopped = await project.stop('api')
    expect(stopped).toMatchObject({ namespace: 'deleted', changes: ['delete veth7', 'delete namespace api'] })
    expect(await exists(node, 'veth7')).toBe(false)
    await project.sweep()
    expect((await node.dump()).filter((line) => line.includes('10.128.3.7') || line.includes(ACME))).toEqual([])
  })

  test('one on nothing where no gateway tells the /24', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    await node.run(`ip link del ${ACME}; ip addr flush dev yah0 2>/dev/null || :`)
    expect(await project.stop('api')).toMatchObject({ changes: ['delete veth7', 'delete namespace api'] })
  })

  test('by a name that only after cleaning is the namespace’s', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy({ ...api, workload: 'a/b c' })
    expect(await namespaces(node)).toEqual(['a-b-c'])
    expect(await project.stop('a/b c')).toMatchObject({ address: '10.128.3.7', namespace: 'deleted' })
  })

  test('one that an older deploy left without a name for its end', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(web)
    await node.run(`ip netns add api; ip link add veth7 master ${ACME} type veth peer name vethc7 netns api`)
    expect(await project.stop('api')).toMatchObject({ address: '10.128.3.7', veth: 'veth7', namespace: 'deleted' })
    expect(await exists(node, 'veth7')).toBe(false)
  })

  test.for<[name: string, script: string]>([
    ['renamed', 'ip link set veth7 down; ip link set veth7 name theirs'],
    ['put on another bridge', 'ip link add docker0 type bridge; ip link set veth7 master docker0'],
  ])('a veth that was %s since it was read stays, and so does the rest', async ([, script]) => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of [api, web]) await project.deploy(each)
    let changed = false
    const host = hooked(project.host, async ({ requests = [] }) => {
      // RTM_GETLINK (linux/rtnetlink.h): the look at the veth and its bridge right before it is deleted.
      if (changed || requests.length !== 3 || !requests.every(({ type }) => type === 18)) return
      changed = true
      await node.run(script)
    })
    const error = await project.stop('api', host).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(ReadError)
    expect(error).toMatchObject({ code: 'INTERRUPTED', message: expect.stringMatching(/^veth veth7: /) })
    expect(await node.run('ip -n api -o link show eth0')).toMatch(/ eth0@/)
  })

  test.for<[name: string, script: string]>([
    ['holds somebody else’s link', 'ip netns add api; ip -n api link add wg0 type ifb'],
    [
      'hangs on somebody else’s bridge',
      'ip netns add api; ip link add docker0 type bridge; ip link add veth7 master docker0 type veth peer name eth0 netns api',
    ],
    [
      'is linked with another one',
      'ip netns add api; ip netns add far; ip -n api link add eth0 type veth peer name eth0 netns far',
    ],
    [
      'is routed by somebody over a veth<n> on no bridge',
      `ip netns add api; ip link add veth10 type veth peer name eth0 netns api
       ip addr add 192.168.50.1/24 dev veth10; ip link set veth10 up
       ip -n api addr add 192.168.50.2/24 dev eth0; ip -n api link set eth0 up`,
    ],
    [
      'is somebody’s by the address in it alone',
      `ip netns add api; ip link add veth10 type veth peer name eth0 netns api
       ip link set veth10 up; ip -n api addr add 192.168.50.2/24 dev eth0`,
    ],
  ])('refuses a namespace that %s', async ([, script]) => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(web)
    await node.run(script)
    const before = await node.snapshot()
    const error = await project.stop('api').catch((error: unknown) => error)
    expect(error).toBeInstanceOf(UsageError)
    expect(error).toMatchObject({ option: 'workload', message: expect.stringMatching(/namespace api /) })
    expect(difference(before, await node.snapshot())).toEqual([])
  })

  test('by address, once the namespace’s name is gone and a process holds it', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    for (const each of [api, web]) await project.deploy(each)
    const holder = await node.start('nsenter', ['--net=/run/netns/api', 'bash', '-c', 'echo in; exec sleep 1000'])
    await firstLine(holder)
    await node.run('ip netns del api')
    expect(await exists(node, 'veth7')).toBe(true)
    expect(await project.stop('api')).toMatchObject({ namespace: 'absent', changes: [] })

    expect(await project.stopAddress('10.128.3.7')).toMatchObject({
      address: '10.128.3.7',
      veth: 'veth7',
      namespace: 'untouched',
      changes: ['delete veth7'],
    })
    expect(await exists(node, 'veth7')).toBe(false)
    expect((await project.sweep()).addresses).toEqual(['10.128.3.7'])
    expect(await project.stopAddress('10.128.3.7')).toMatchObject({ address: null, veth: null, changes: [] })
    holder.kill()
  })

  test('by address: no address of a workload, and a veth of that name which is somebody else’s', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(web)
    for (const address of ['10.128.3.1', '10.1.2.7', 'api', '10.128.3.07'])
      await expect(project.stopAddress(address)).rejects.toMatchObject({ name: 'UsageError', option: '--address' })
    await node.run('ip link add docker0 type bridge; ip link add veth7 master docker0 type veth peer name other')
    const before = await node.snapshot()
    expect(await project.stopAddress('10.128.3.7')).toMatchObject({ address: null, changes: [] })
    expect(difference(before, await node.snapshot())).toEqual([])
  })

  test('by address: another node’s is not this one’s of the same octet', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await project.deploy(api)
    expect(await project.stopAddress('10.128.4.7')).toMatchObject({ address: null, changes: [] })
    expect(await exists(node, 'veth7')).toBe(true)
  })
})

describe.concurrent('tracked connections', () => {
  const TRACK = 'conntrack -I -p tcp --state ESTABLISHED -t 3600 --sport 4000 --dport 80'
  const insert = (source: string, destination: string, more = ''): string =>
    `${TRACK} -s ${source} -d ${destination} ${more} 2>&1`
  const tracked = async (node: TestNode): Promise<string[]> =>
    lines(await node.run('conntrack -L -p tcp 2>/dev/null | grep -oE "src=[^ ]+ dst=[^ ]+" | awk "NR % 2" | sort'))
  const CONNECTIONS = [
    insert('10.128.3.7', '192.0.2.9'),
    insert('192.0.2.8', '10.128.3.7', '--mark 0x2000000'),
    // Behind NAT the address stands in the reply alone.
    insert('192.0.2.7', '198.51.100.1', '-r 10.128.3.7 -q 192.0.2.7 --reply-port-src 80 --reply-port-dst 4000'),
    insert('10.128.3.8', '192.0.2.9'),
    insert('10.128.4.7', '192.0.2.9'),
  ].join('\n')
  const OTHERS = ['src=10.128.3.8 dst=192.0.2.9', 'src=10.128.4.7 dst=192.0.2.9']

  async function prepared(node: TestNode, project: Project, ...specs: Spec[]): Promise<void> {
    for (const each of specs) await project.deploy(each)
    await node.run(CONNECTIONS)
    expect(await tracked(node)).toHaveLength(5)
  }

  test('of a stopped workload’s address go with the sweep', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await prepared(node, project, api, web)
    await project.stop('api')
    expect(await tracked(node)).toHaveLength(5)
    const { steps } = await project.sweep()
    expect(await tracked(node)).toEqual(OTHERS)
    expect(steps.filter(({ action }) => action === 'delete-conntrack')).toHaveLength(1)
  })

  test('of an address that changes hands go before its next owner has a veth', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await prepared(node, project, api, web)
    await project.deploy(spec('next', 7, 'acme'))
    expect(await tracked(node)).toEqual(OTHERS)
  })

  test('of a stopped and unswept workload’s address go when the next one takes it', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await prepared(node, project, api, web)
    await project.stop('api')
    await project.deploy(spec('next', 7, 'globex'))
    expect(await tracked(node)).toEqual(OTHERS)
  })

  test('of a workload that is deployed again stay', async () => {
    await using node = await TestNode.create()
    using project = await Project.on(node)
    await prepared(node, project, api, web)
    await project.deploy(api)
    expect(await tracked(node)).toHaveLength(5)
  })
})
