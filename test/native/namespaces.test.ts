/**
 * Network namespaces, against ip-netns(8).
 *
 * @module-tag guest
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  fstatSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, expect, test } from 'vitest'
import { NETLINK_ROUTE } from '../../src/kernel/linux.js'
import { native } from '../../src/kernel/native.js'
import { ip, linkDump, linksOf, loadAddon } from './support.js'

const ENOENT = 2
const EEXIST = 17
const EBADF = 9
const FOLDER = '/run/netns'

/** Other test files have namespaces of their own in the same folder meanwhile. */
const PREFIX = 'named-test-'
const full = (name: string) => PREFIX + name
const ours = (names: readonly string[]) =>
  names.filter((name) => name.startsWith(PREFIX)).map((name) => name.slice(PREFIX.length))

const create = (name: string) => native().createNamespace(full(name))
const remove = (name: string) => native().deleteNamespace(full(name))
const open = (name: string) => native().openNamespace(full(name))
const listed = async () => ours(await native().listNamespaces())
const listedByIp = () =>
  ours(
    ip('netns', 'list')
      .split('\n')
      .map((line) => line.replace(/ .*/, '')),
  )

afterEach(async () => {
  for (const name of await listed()) await remove(name)
})

test('what is made here, ip netns lists and enters: a loopback that is down', async () => {
  await create('made')
  expect(listedByIp()).toEqual(['made'])
  const [loopback, ...others] = JSON.parse(ip('-n', full('made'), '-j', 'link')) as { flags: string[] }[]
  expect(loopback).toMatchObject({ ifname: 'lo' })
  expect(loopback?.flags).not.toContain('UP')
  expect(others).toEqual([])
  ip('netns', 'del', full('made'))
  expect(await listed()).toEqual([])
})

test('what ip netns made is opened and deleted here', async () => {
  ip('netns', 'add', full('theirs'))
  const path = `${FOLDER}/${full('theirs')}`
  const descriptor = await open('theirs')
  const { dev, ino } = statSync(path)
  expect(fstatSync(descriptor)).toMatchObject({ dev, ino })
  native().closeNamespace(descriptor)
  await remove('theirs')
  expect(listedByIp()).toEqual([])
  expect(existsSync(path)).toBe(false)
})

test('a namespace lives on while somebody holds it', async () => {
  await create('held')
  const descriptor = await open('held')
  await remove('held')
  const socket = await native().openSocket(NETLINK_ROUTE, descriptor)
  native().closeNamespace(descriptor)
  expect([...linksOf((await socket.exchange(linkDump, 5000)).bytes).keys()]).toEqual(['lo'])
  socket.close()
})

test('names are sorted by bytes', async () => {
  for (const name of ['b', 'a10', 'a2', 'B']) await create(name)
  expect(await listed()).toEqual(['B', 'a10', 'a2', 'b'])
  expect(ours(readdirSync(FOLDER)).sort()).toEqual(['B', 'a10', 'a2', 'b'])
})

test('a name that is taken, and one that is not there', async () => {
  await create('taken')
  const taken = `${FOLDER}/${full('taken')}`
  const { ino } = statSync(taken)
  await expect(create('taken')).rejects.toMatchObject({ errno: EEXIST, syscall: `open ${taken}` })
  expect(statSync(taken).ino).toBe(ino)
  await expect(remove('absent')).rejects.toMatchObject({ errno: ENOENT })
  await expect(open('absent')).rejects.toMatchObject({ errno: ENOENT, syscall: `open ${FOLDER}/${full('absent')}` })
})

test.each(['', '.', '..', 'a/b', '../etc', 'a\0b', 'x'.repeat(256)])('%j is no name', async (name) => {
  await expect(native().createNamespace(name)).rejects.toThrow('no name for a network namespace')
  await expect(native().deleteNamespace(name)).rejects.toThrow('no name for a network namespace')
  await expect(native().openNamespace(name)).rejects.toThrow('no name for a network namespace')
})

test('255 bytes are a name', async () => {
  const name = 'x'.repeat(255 - PREFIX.length)
  await create(name)
  expect(await listed()).toEqual([name])
})

/** As a process leaves it that was killed before it mounted the namespace. */
function leavePlaceholder(name: string): string {
  const path = `${FOLDER}/${full(name)}`
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(path, '', { mode: 0 })
  return path
}

test('a placeholder that was left behind is none, is taken over, and is deleted alone', async () => {
  const path = leavePlaceholder('stale')
  await expect(open('stale')).rejects.toMatchObject({ errno: ENOENT })
  await create('stale')
  expect(ip('-n', full('stale'), '-o', 'link')).toContain('lo')
  expect(await native().deletePlaceholder(full('stale'))).toBe(false)
  expect(listedByIp()).toEqual(['stale'])
  await remove('stale')
  leavePlaceholder('stale')
  expect(await native().deletePlaceholder(full('stale'))).toBe(true)
  expect(existsSync(path)).toBe(false)
  expect(await native().deletePlaceholder(full('stale'))).toBe(false)
})

test('one that somebody is making a namespace of is none', async () => {
  const path = leavePlaceholder('busy')
  const flock = spawn('flock', [path, 'sh', '-c', 'echo locked; read -r _'])
  await once(flock.stdout, 'data')
  await expect(create('busy')).rejects.toMatchObject({ errno: EEXIST })
  expect(await native().deletePlaceholder(full('busy'))).toBe(false)
  flock.stdin.end()
  await once(flock, 'exit')
  expect(await native().deletePlaceholder(full('busy'))).toBe(true)
})

test('the same name at the same time: one gets it', async () => {
  for (let round = 0; round < 20; round++) {
    const made = await Promise.allSettled(Array.from({ length: 5 }, () => create('one')))
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await remove('one')
    expect(existsSync(`${FOLDER}/${full('one')}`)).toBe(false)
  }
})

test.each<[what: string, make: (path: string) => void, unmake: (path: string) => void]>([
  ['a file with something in it', (path) => writeFileSync(path, 'precious'), (path) => rmSync(path)],
  ['a folder', (path) => mkdirSync(path), (path) => rmdirSync(path)],
  ['a link to nowhere', (path) => symlinkSync('nowhere', path), (path) => rmSync(path)],
  [
    'an empty file that something is mounted on',
    (path) => {
      writeFileSync(path, '')
      writeFileSync(`${path}-other`, '')
      execFileSync('mount', ['--no-mtab', '--bind', `${path}-other`, path])
    },
    (path) => {
      execFileSync('umount', [path])
      for (const file of [path, `${path}-other`]) rmSync(file)
    },
  ],
])("%s is somebody else's", async (_what, make, unmake) => {
  const path = `${FOLDER}/${full('theirs')}`
  mkdirSync(FOLDER, { recursive: true })
  make(path)
  try {
    await expect(create('theirs')).rejects.toThrow()
    await expect(remove('theirs')).rejects.toThrow()
    await native()
      .deletePlaceholder(full('theirs'))
      .then(
        (was) => expect(was).toBe(false),
        () => {},
      )
  } finally {
    unmake(path)
  }
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
  await create('other')
  ip('-n', full('other'), 'link', 'add', 'there', 'type', 'bridge')
  const descriptor = await open('other')
  const devices = async (netns: number) => (await native().readFileIn(netns, '/proc/thread-self/net/dev')).toString()
  expect(await devices(descriptor)).toContain('there:')
  expect(await devices(-1)).not.toContain('there:')

  const forward = '/proc/sys/net/ipv4/ip_forward'
  const before = (await native().readFileIn(-1, forward)).toString()
  await native().writeFileIn(descriptor, forward, '1\n')
  expect(execFileSync('ip', ['netns', 'exec', full('other'), 'cat', forward], { encoding: 'utf8' })).toBe('1\n')
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
  await create('elsewhere')
  const descriptor = await open('elsewhere')
  const own = readlinkSync('/proc/self/ns/net')
  const socket = await native().openSocket(NETLINK_ROUTE, descriptor)
  await native().readFileIn(descriptor, '/proc/thread-self/net/dev')
  const elsewhere = () => namespacesOfThreads().filter((namespace) => namespace !== own)
  // The socket's thread alone; the reader's ends just after it has answered.
  await expect.poll(() => elsewhere().length).toBe(1)
  socket.close()
  native().closeNamespace(descriptor)
  await expect.poll(elsewhere).toEqual([])
})

function namespacesOfThreads(): string[] {
  return readdirSync('/proc/self/task').flatMap((id) => {
    try {
      return [readlinkSync(`/proc/self/task/${id}/ns/net`)]
    } catch {
      return [] // it has just ended
    }
  })
}

/** A process that has a mount namespace of its own, as `ip netns exec` and PrivateTmp= give it. */
function elsewhere(unshare: string[], script: string): { status: number | null; stdout: string; stderr: string } {
  const body = `${loadAddon}(async () => { ${script} })().catch((error) => { console.error(error); process.exit(1) })`
  const run = 'mount -t tmpfs tmpfs /run && exec "$@"'
  return spawnSync('unshare', [...unshare, '--', 'sh', '-c', run, 'sh', process.execPath, '-e', body], {
    encoding: 'utf8',
  })
}

test('names are those of PID 1, whatever mount namespace the caller is in', async () => {
  await create('before')
  const { status, stdout, stderr } = elsewhere(
    ['--mount'],
    `await native.createNamespace('${full('within')}')
     await native.deleteNamespace('${full('before')}')
     await native.openNamespace('${full('within')}')
     console.log(JSON.stringify([await native.listNamespaces(), require('fs').readdirSync('/run')]))`,
  )
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  const [names, ownRun] = JSON.parse(stdout)
  expect(ours(names)).toEqual(['within'])
  expect(ownRun).toEqual([])
  expect(listedByIp()).toEqual(['within'])
  expect(JSON.parse(ip('-n', full('within'), '-j', 'link'))).toMatchObject([{ ifname: 'lo' }])
})

test('without the privilege to enter that of PID 1, they are those of the own', async (context) => {
  const nested = ['--user', '--map-root-user', '--mount', '--net']
  const probe = spawnSync('unshare', [...nested, '--', 'true'], { encoding: 'utf8' })
  if (probe.status !== 0) context.skip(`user namespaces do not nest here (${probe.stderr.trim()})`)

  const { status, stdout, stderr } = elsewhere(
    nested,
    `const before = await native.listNamespaces()
     await native.createNamespace('${full('within')}')
     console.log(JSON.stringify([before, await native.listNamespaces(), require('fs').readdirSync('/run/netns')]))`,
  )
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(JSON.parse(stdout)).toEqual([[], [full('within')], [full('within')]])
  expect(await listed()).toEqual([])
})

test('many are made and deleted at the same time', async () => {
  const names = Array.from({ length: 20 }, (_, i) => `n${String(i).padStart(2, '0')}`)
  await Promise.all(names.map(create))
  expect(await listed()).toEqual(names)
  // One mount that makes the folder shared, however many threads saw that it was missing.
  const mounts = execFileSync('grep', ['-c', ` ${FOLDER} `, '/proc/self/mountinfo'], { encoding: 'utf8' })
  expect(mounts).toBe('1\n')
  await Promise.all(names.map(remove))
  expect(await listed()).toEqual([])
})
