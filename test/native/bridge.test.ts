/** What a bridge says of its ports, against ip-link(8). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { native } from '../../src/kernel/native.js'
import { ip, ipBatch, ipLinks } from './support.js'

const EBADF = 9
const ENODEV = 19
const EOPNOTSUPP = 95
const node = 'bridge-test'
/** The longest name that a link can have. */
const LONGEST = 'abcdefghijklmno'
/** More than the 256 that older tools ask for. */
const MANY = 300
/** In the namespace that the tests themselves run in. */
const HERE = 'bridge-here'

let netns: number
const ports = async (...names: string[]) => native().bridgePorts(netns, names)
const listed = (bridge: string, ...of: string[]) =>
  sorted((JSON.parse(ip(...of, '-j', 'link', 'show', 'master', bridge)) as { ifindex: number }[]).map((l) => l.ifindex))
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
  await expect(native().bridgePorts(1_000_000, ['few'])).rejects.toMatchObject({ errno: EBADF })
})
