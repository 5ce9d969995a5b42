/** Network namespaces, against ip-netns(8). */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { NETLINK_ROUTE } from '../../src/kernel/linux.js'
import { native } from '../../src/kernel/native.js'
import { ip, ipLinks, linkDump, linksOf, loadAddon } from './support.js'

const ENOENT = 2
const EEXIST = 17
const EBADF = 9
const FOLDER = '/run/netns'

const named = () =>
  ip('netns', 'list')
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(' ')[0])

afterEach(async () => {
  for (const name of await native().listNamespaces()) await native().deleteNamespace(name)
})

test('what is made here, ip netns lists and enters: a loopback that is down', async () => {
  await native().createNamespace('made')
  expect(named()).toEqual(['made'])
  expect(JSON.parse(ip('-n', 'made', '-j', 'link'))).toMatchObject([{ ifname: 'lo', operstate: 'DOWN' }])
  expect(ip('-n', 'made', '-j', 'link')).not.toContain('"UP"')
  ip('netns', 'del', 'made')
  expect(await native().listNamespaces()).toEqual([])
})

test('what ip netns made is opened and deleted here', async () => {
  ip('netns', 'add', 'theirs')
  const descriptor = await native().openNamespace('theirs')
  const { dev, ino } = statSync(`${FOLDER}/theirs`)
  expect(fstatSync(descriptor)).toMatchObject({ dev, ino })
  native().closeNamespace(descriptor)
  await native().deleteNamespace('theirs')
  expect(named()).toEqual([])
  expect(existsSync(`${FOLDER}/theirs`)).toBe(false)
})

test('a namespace lives on while somebody holds it', async () => {
  await native().createNamespace('held')
  const descriptor = await native().openNamespace('held')
  await native().deleteNamespace('held')
  const socket = await native().openSocket(NETLINK_ROUTE, descriptor)
  native().closeNamespace(descriptor)
  expect([...linksOf((await socket.exchange(linkDump, 5000)).bytes).keys()]).toEqual(['lo'])
  socket.close()
})

test('names are sorted by bytes, as they are in the folder', async () => {
  for (const name of ['b', 'a10', 'a2', 'B']) await native().createNamespace(name)
  expect(await native().listNamespaces()).toEqual(['B', 'a10', 'a2', 'b'])
  expect(readdirSync(FOLDER).sort()).toEqual(['B', 'a10', 'a2', 'b'])
})

test('a name that is taken, and one that is not there', async () => {
  await native().createNamespace('taken')
  const { ino } = statSync(`${FOLDER}/taken`)
  await expect(native().createNamespace('taken')).rejects.toMatchObject({
    errno: EEXIST,
    syscall: `open ${FOLDER}/taken`,
  })
  expect(statSync(`${FOLDER}/taken`).ino).toBe(ino)
  await expect(native().deleteNamespace('absent')).rejects.toMatchObject({ errno: ENOENT })
  await expect(native().openNamespace('absent')).rejects.toMatchObject({
    errno: ENOENT,
    syscall: `open ${FOLDER}/absent`,
  })
})

test.each(['', '.', '..', 'a/b', '../etc', 'a\0b', 'x'.repeat(256)])('%j is no name', async (name) => {
  await expect(native().createNamespace(name)).rejects.toThrow('no name for a network namespace')
  await expect(native().deleteNamespace(name)).rejects.toThrow('no name for a network namespace')
  await expect(native().openNamespace(name)).rejects.toThrow('no name for a network namespace')
})

test('255 bytes are a name', async () => {
  const name = 'x'.repeat(255)
  await native().createNamespace(name)
  expect(await native().listNamespaces()).toEqual([name])
})

test('a file that was left behind without its namespace is not opened, and is deleted', async () => {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(`${FOLDER}/stale`, '')
  await expect(native().openNamespace('stale')).rejects.toThrow(`${FOLDER}/stale is no network namespace`)
  await native().deleteNamespace('stale')
  expect(await native().listNamespaces()).toEqual([])
})

test.each(['/proc/self/ns/mnt', '/etc/passwd', '/dev/null'])('%s is no network namespace', async (path) => {
  await expect(native().openNamespace(path)).rejects.toThrow(`${path} is no network namespace`)
})

test('null is the namespace of the process', async () => {
  const descriptor = await native().openNamespace(null)
  expect(readlinkSync('/proc/self/ns/net')).toBe(`net:[${fstatSync(descriptor).ino}]`)
  native().closeNamespace(descriptor)
})

test('descriptors are not inherited by programs', async () => {
  const descriptor = await native().openNamespace(null)
  expect(readdirSync('/proc/self/fd')).toContain(String(descriptor))
  const inherited = spawnSync('sh', ['-c', `readlink /proc/self/fd/${descriptor}`], { encoding: 'utf8' })
  expect(inherited.stdout).not.toContain('net:')
  native().closeNamespace(descriptor)
})

test('files below /proc/thread-self/net and /proc/sys/net are those of the namespace', async () => {
  await native().createNamespace('other')
  ip('-n', 'other', 'link', 'add', 'there', 'type', 'bridge')
  const descriptor = await native().openNamespace('other')
  const devices = async (netns: number) => (await native().readFileIn(netns, '/proc/thread-self/net/dev')).toString()
  expect(await devices(descriptor)).toContain('there:')
  expect(await devices(-1)).not.toContain('there:')

  const forward = '/proc/sys/net/ipv4/ip_forward'
  const before = (await native().readFileIn(-1, forward)).toString()
  await native().writeFileIn(descriptor, forward, '1\n')
  expect(execFileSync('ip', ['netns', 'exec', 'other', 'cat', forward], { encoding: 'utf8' })).toBe('1\n')
  await native().writeFileIn(descriptor, forward, '0')
  expect((await native().readFileIn(descriptor, forward)).toString()).toBe('0\n')
  expect((await native().readFileIn(-1, forward)).toString()).toBe(before)
  native().closeNamespace(descriptor)
})

test('what cannot be read says which call refused', async () => {
  await expect(native().readFileIn(-1, '/proc/absent')).rejects.toMatchObject({
    errno: ENOENT,
    syscall: 'open /proc/absent',
  })
  expect(() => native().readFileIn(-2, '/proc/stat')).toThrow(RangeError)
  await expect(native().readFileIn(1_000_000, '/proc/stat')).rejects.toMatchObject({ errno: EBADF })
})

test('a file that is longer than one read comes whole', async () => {
  const path = process.execPath
  expect((await native().readFileIn(-1, path)).length).toBe(statSync(path).size)
})

test('no thread of the process is left in another namespace', async () => {
  await native().createNamespace('elsewhere')
  const descriptor = await native().openNamespace('elsewhere')
  const own = readlinkSync('/proc/self/ns/net')
  const socket = await native().openSocket(NETLINK_ROUTE, descriptor)
  await native().readFileIn(descriptor, '/proc/thread-self/net/dev')
  const namespacesOfThreads = () =>
    readdirSync('/proc/self/task').map((id) => readlinkSync(`/proc/self/task/${id}/ns/net`))
  expect(namespacesOfThreads().filter((namespace) => namespace !== own)).toHaveLength(1)
  socket.close()
  native().closeNamespace(descriptor)
  await expect.poll(() => namespacesOfThreads().filter((namespace) => namespace !== own)).toEqual([])
  expect(linksOf((await (await native().openSocket(NETLINK_ROUTE, -1)).exchange(linkDump, 5000)).bytes)).toEqual(
    ipLinks(),
  )
})

/** A process that has a mount namespace of its own, as `ip netns exec` and PrivateTmp= give it. */
function elsewhere(unshare: string[], script: string): { status: number | null; stdout: string; stderr: string } {
  const body = `${loadAddon}(async () => { ${script} })().catch((error) => { console.error(error); process.exit(1) })`
  const run = 'mount -t tmpfs tmpfs /run && exec "$@"'
  return spawnSync('unshare', [...unshare, '--', 'sh', '-c', run, 'sh', process.execPath, '-e', body], {
    encoding: 'utf8',
  })
}

test('names are those of PID 1, whatever mount namespace the caller is in', async () => {
  await native().createNamespace('before')
  const { status, stdout, stderr } = elsewhere(
    ['--mount'],
    `await native.createNamespace('within')
     await native.deleteNamespace('before')
     await native.openNamespace('within')
     console.log(JSON.stringify([await native.listNamespaces(), require('fs').readdirSync('/run')]))`,
  )
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(JSON.parse(stdout)).toEqual([['within'], []])
  expect(named()).toEqual(['within'])
  expect(JSON.parse(ip('-n', 'within', '-j', 'link'))).toMatchObject([{ ifname: 'lo' }])
})

const nested = ['--user', '--map-root-user', '--mount', '--net']
const nests = spawnSync('unshare', [...nested, '--', 'true']).status === 0

test.skipIf(!nests)(
  'without the privilege to enter PID 1, they are the own (skipped where user namespaces do not nest)',
  async () => {
    const { status, stdout, stderr } = elsewhere(
      nested,
      `await native.createNamespace('within')
     console.log(JSON.stringify([await native.listNamespaces(), require('fs').readdirSync('/run/netns')]))`,
    )
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(JSON.parse(stdout)).toEqual([['within'], ['within']])
    expect(await native().listNamespaces()).toEqual([])
  },
)

test('many are made and deleted at the same time', async () => {
  const names = Array.from({ length: 20 }, (_, i) => `n${String(i).padStart(2, '0')}`)
  await Promise.all(names.map((name) => native().createNamespace(name)))
  expect(await native().listNamespaces()).toEqual(names)
  // One mount that makes the folder shared, however many threads saw that it was missing.
  const mounts = execFileSync('grep', ['-c', ` ${FOLDER} `, '/proc/self/mountinfo'], { encoding: 'utf8' })
  expect(mounts).toBe('1\n')
  await Promise.all(names.map((name) => native().deleteNamespace(name)))
  expect(await native().listNamespaces()).toEqual([])
})
