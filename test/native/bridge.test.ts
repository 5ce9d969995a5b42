/** What the bridge module says of bridges, and they of their ports, against ip-link(8). */
import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { native } from '../../src/kernel/native.js'
import { ip, ipBatch, ipLinks, loadAddon } from './support.js'

const EBADF = 9
const ENOMEM = 12
const ENODEV = 19
const EOPNOTSUPP = 95
const node = 'bridge-test'
/** The longest name that a link can have. */
const LONGEST = 'abcdefghijklmno'
/** More than the 256 that older tools ask for. */
const MANY = 300
/** As much as the kernel takes. */
const ROOM = 2047
/** In the namespace that the tests themselves run in. */
const HERE = 'bridge-here'

/** Prints what is told of the caller's own namespace. */
const TELL = `${loadAddon} native.bridgeNames(-1, 2047).then((found) => console.log('told ' + JSON.stringify(found)))`

let netns: number
const ports = async (...names: string[]) => native().bridgePorts(netns, names)
const listed = (bridge: string, ...of: string[]) =>
  sorted((JSON.parse(ip(...of, '-j', 'link', 'show', 'master', bridge)) as { ifindex: number }[]).map((l) => l.ifindex))
const bridges = (...of: string[]) =>
  (JSON.parse(ip(...of, '-j', 'link', 'show', 'type', 'bridge')) as { ifindex: number; ifname: string }[])
    .map(({ ifindex, ifname }) => ({ index: ifindex, name: ifname }))
    .sort(byIndex)
const byIndex = (one: { index: number }, other: { index: number }) => one.index - other.index
const sorted = (indexes: readonly number[] = []) => [...indexes].sort((a, b) => a - b)

beforeAll(async () => {
  ip('netns', 'add', node)
  const veths = Array.from({ length: MANY / 2 }, (_, i) => [`p${i}`, `q${i}`] as const)
  ipBatch(
    ['-n', node],
    [
      ...['few', 'many', 'none', LONGEST].map((name) => `link add name ${name} type bridge`),
      ...veths.map(([one, other]) => `link add ${one} type veth peer name ${other}`),
      ...veths.flat().map((name) => `link set ${name} master many`),
      'link add loose type veth peer name held',
      'link add veth7 type veth peer name veth300',
      'link set veth7 master few',
      'link set veth300 master few',
      `link set held master ${LONGEST}`,
      'link property add dev few altname another',
    ],
  )
  netns = await native().openNamespace(node)
})
afterAll(() => {
  native().closeNamespace(netns)
  ip('netns', 'del', node)
})

test('the bridges are those that ip lists, by their own names', async () => {
  const found = await native().bridgeNames(netns, ROOM)
  expect([...(found ?? [])].sort(byIndex)).toEqual(bridges('-n', node))
  expect(found?.map(({ name }) => name).sort()).toEqual([LONGEST, 'few', 'many', 'none'].sort())
})

test('a bridge that comes, one that goes, and one that is called something else', async () => {
  ip('-n', node, 'link', 'add', 'name', 'fresh', 'type', 'bridge')
  expect((await native().bridgeNames(netns, ROOM))?.map(({ name }) => name)).toContain('fresh')
  ip('-n', node, 'link', 'set', 'fresh', 'name', 'renamed')
  expect([...((await native().bridgeNames(netns, ROOM)) ?? [])].sort(byIndex)).toEqual(bridges('-n', node))
  ip('-n', node, 'link', 'del', 'renamed')
  expect([...((await native().bridgeNames(netns, ROOM)) ?? [])].sort(byIndex)).toEqual(bridges('-n', node))
})

test('a namespace without a bridge has none', async () => {
  const empty = `${node}-empty`
  ip('netns', 'add', empty)
  const descriptor = await native().openNamespace(empty)
  try {
    expect(await native().bridgeNames(descriptor, ROOM)).toEqual([])
  } finally {
    native().closeNamespace(descriptor)
    ip('netns', 'del', empty)
  }
})

test('as many as may be all that fits: nothing is told', async () => {
  expect(await native().bridgeNames(netns, 5)).toHaveLength(4)
  expect(await native().bridgeNames(netns, 4)).toBeNull()
  expect(await native().bridgeNames(netns, 3)).toBeNull()
})

test('room for more than the kernel takes is refused by it, and for none by us', async () => {
  expect(await native().bridgeNames(netns, ROOM)).toHaveLength(4)
  await expect(native().bridgeNames(netns, ROOM + 1)).rejects.toMatchObject({ errno: ENOMEM })
  for (const room of [0, -1, 1.5, ROOM + 2]) expect(() => native().bridgeNames(netns, room)).toThrow(/^room /)
})

test('where the module is not loaded nothing is told', () => {
  const script = 'mount --no-mtab -t tmpfs none /sys/module && exec "$0" -e "$1"'
  const told = execFileSync('unshare', ['--mount', 'bash', '-c', script, process.execPath, TELL], { encoding: 'utf8' })
  expect(told).toBe('told null\n')
})

test('the ports are those that ip lists, each bridge’s in its place', async () => {
  const found = await ports('few', 'none', 'many', LONGEST, 'few')
  expect(found.map(({ errno }) => errno)).toEqual([0, 0, 0, 0, 0])
  expect(found.map(({ indexes }) => indexes.length)).toEqual([2, 0, MANY, 1, 2])
  for (const [i, bridge] of ['few', 'none', 'many', LONGEST, 'few'].entries())
    expect(sorted(found[i]?.indexes), bridge).toEqual(listed(bridge, '-n', node))
})

test('a port that leaves is none, nor is one that comes back under another number missed', async () => {
  const [left, index] = ['p0', ipLinks('-n', node).get('p0') ?? 0]
  ip('-n', node, 'link', 'set', left, 'nomaster')
  const [without] = await ports('many')
  expect(without?.indexes).toHaveLength(MANY - 1)
  expect(without?.indexes).not.toContain(index)
  ip('-n', node, 'link', 'set', left, 'master', 'many')
  expect(sorted((await ports('many'))[0]?.indexes)).toEqual(listed('many', '-n', node))
})

test('no such link, and links that are no bridge: an errno each, and the others answer', async () => {
  expect(await ports('absent', 'lo', 'loose', 'none')).toEqual([
    { indexes: [], errno: ENODEV },
    { indexes: [], errno: EOPNOTSUPP },
    { indexes: [], errno: EOPNOTSUPP },
    { indexes: [], errno: 0 },
  ])
})

test('an alternative name is answered for too', async () => {
  const [own, other] = await ports('few', 'another')
  expect(own?.indexes).toHaveLength(2)
  expect(other).toEqual(own)
})

test('no names, no answers', async () => {
  expect(await ports()).toEqual([])
})

test('the namespace is the descriptor’s; -1 is the caller’s own', async () => {
  ip('link', 'add', 'name', HERE, 'type', 'bridge')
  try {
    ip('link', 'add', `${HERE}0`, 'type', 'veth', 'peer', 'name', `${HERE}1`)
    ip('link', 'set', `${HERE}0`, 'master', HERE)
    const [here, few] = await native().bridgePorts(-1, [HERE, 'few'])
    expect(here).toEqual({ indexes: listed(HERE), errno: 0 })
    expect(here?.indexes).toHaveLength(1)
    expect(few?.errno).toBe(ENODEV)
    expect((await ports(HERE))[0]?.errno).toBe(ENODEV)
    expect([...((await native().bridgeNames(-1, ROOM)) ?? [])].sort(byIndex)).toEqual(bridges())
    expect(bridges().map(({ name }) => name)).toContain(HERE)
  } finally {
    ip('link', 'del', HERE)
    ip('link', 'del', `${HERE}0`)
  }
})

test.each([
  ['no array', 'few', TypeError],
  ['no string', ['few', 7], TypeError],
  ['empty', ['few', ''], RangeError],
  ['longer than a link’s can be', [`${LONGEST}p`], RangeError],
  ['cut by a NUL', ['few\0'], RangeError],
])('names that are wrong are refused: %s', (_, names, kind) => {
  expect(() => native().bridgePorts(netns, names as string[])).toThrow(kind)
})

test('descriptors that are wrong', async () => {
  expect(() => native().bridgePorts(-2, ['few'])).toThrow(RangeError)
  expect(() => native().bridgeNames(-2, ROOM)).toThrow(RangeError)
  await expect(native().bridgeNames(1_000_000, ROOM)).rejects.toMatchObject({ errno: EBADF })
  await expect(native().bridgePorts(1_000_000, ['few'])).rejects.toMatchObject({ errno: EBADF })
})
