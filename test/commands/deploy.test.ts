/** `netsweep deploy` as it was built, on nodes of a real kernel. */
import { expect, test } from 'vitest'
import { firstLine, lines, TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

const API = ['--workload', 'api', '--address', '10.128.3.7', '--tenant', 'acme', '--identity', 'acme/prod/api']

const deploy = (node: TestNode, ...args: string[]) => node.netsweep(['deploy', ...args])

test('text: a line for each change, and a summary that counts them; again, there is nothing to change', async () => {
  await using node = await TestNode.create()
  const deployed = await deploy(node, ...API)
  expect(deployed).toMatchObject({ status: 0, stderr: '' })
  const changes = lines(deployed.stdout)
  const summary = changes.pop()
  for (const line of changes) expect(line).toMatch(/^done {4}\S/)
  expect(changes).toContain('done    make bridge yah0-6jgfqfdnu6')
  expect(changes.at(-1)).toBe('done    set veth7 up')
  expect(summary).toMatch(
    new RegExp(
      `^deployed api at 10\\.128\\.3\\.7 on yah0-6jgfqfdnu6, namespace api \\(${changes.length} changes in \\d+ ms\\)$`,
    ),
  )

  const before = await node.snapshot()
  const again = await deploy(node, ...API)
  expect(again).toMatchObject({ status: 0, stderr: '' })
  expect(again.stdout).toMatch(
    /^nothing to change: api at 10\.128\.3\.7 on yah0-6jgfqfdnu6, namespace api \(\d+ ms\)\n$/,
  )
  expect(difference(before, await node.snapshot())).toEqual([])
})

test('--json: one object, and what is on the node is what the oracle wires', async () => {
  await using node = await TestNode.create()
  await using other = await TestNode.create()
  const { status, stderr, json } = await deploy(node, ...API, '--json')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(Object.keys(json as object)).toEqual([
    ...['workload', 'address', 'subnet', 'bridge', 'veth', 'namespace', 'changes', 'notices', 'elapsedMs'],
  ])
  expect(json).toMatchObject({
    workload: 'api',
    address: '10.128.3.7',
    subnet: '10.128.3.0/24',
    bridge: 'yah0-6jgfqfdnu6',
    veth: 'veth7',
    namespace: 'api',
    notices: [],
  })
  const who = ['--tenant', 'acme', '--identity', 'acme/prod/api']
  await other.oracle('deploy', '--workload', 'api', '--addr', '10.128.3.7', ...who)
  expect(await node.dump()).toEqual(await other.dump())
})

test('each option by its variable; --allow holds several', async () => {
  await using node = await TestNode.create()
  const env = {
    NETSWEEP_WORKLOAD: 'api',
    NETSWEEP_ADDRESS: '10.128.3.7',
    NETSWEEP_TENANT: 'acme',
    NETSWEEP_IDENTITY: 'acme/prod/api',
    NETSWEEP_ALLOW: 'globex/prod/a globex/prod/b',
    NETSWEEP_MTU: '1400',
  }
  expect((await node.netsweep(['deploy'], { env })).status).toBe(0)
  const marks = await Promise.all(['a', 'b'].map((name) => node.oracle('identity-mark', `globex/prod/${name}`)))
  const grants = await node.run('iptables-nft -t mangle -S yah-gr-10.128.3.7')
  for (const mark of marks) expect(grants).toContain(`--mark 0x${Number(mark).toString(16)}/0xffff`)
  expect(await node.run('ip -o link show veth7; ip -n api -o link show eth0')).toMatch(/ mtu 1400 .*\n.* mtu 1400 /)
})

test('--file: the whole workload from a file', async () => {
  await using node = await TestNode.create()
  await using other = await TestNode.create()
  const workload = { workload: 'api', address: '10.128.3.7', tenant: 'acme', identity: 'acme/prod/api' }
  await node.run('cat >/run/api.json', { input: JSON.stringify(workload) })
  expect(await deploy(node, '--file', '/run/api.json')).toMatchObject({ status: 0, stderr: '' })
  await deploy(other, ...API)
  expect(await node.dump()).toEqual(await other.dump())
})

test.each<[content: string, line: string]>([
  ['{"workload": "api"', '--file: /run/w.json is no JSON: '],
  ['[]', '/run/w.json: workload: '],
  ['{"address": "10.128.3.7"}', '/run/w.json: workload: is missing\n'],
  ['{"workload": "api"}', '/run/w.json: address: is missing\n'],
  ['{"workload": "api", "adress": "10.128.3.7"}', '/run/w.json: adress: unknown field\n'],
  ['{"workload": "api", "address": "10.1.2.7"}', "/run/w.json: address: 10.1.2.7 is no workload's address "],
  ['{"workload": "api", "address": "10.128.3.7", "mtu": "1400"}', '/run/w.json: mtu: '],
  ['{"workload": "api", "address": "10.128.3.7", "allow": ["globex"]}', '/run/w.json: allow.0: is no identity'],
  [
    '{"workload": "api", "address": "10.128.3.7", "tenant": "acme", "identity": "globex/prod/api"}',
    '/run/w.json: identity: globex/prod/api is not of tenant acme; begin it with acme/\n',
  ],
])('--file with %s', async (content, line) => {
  await using node = await TestNode.create()
  await node.run('cat >/run/w.json', { input: content })
  const { status, stdout, stderr } = await deploy(node, '--file', '/run/w.json')
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr.startsWith(`netsweep: ${line}`), stderr).toBe(true)
  expect(lines(stderr)).toHaveLength(1)
  expect(await node.run('ip -o link show type bridge; ls -A /run')).toBe('w.json\n')
})

test('--file that is not there, and beside other options', async () => {
  await using node = await TestNode.create()
  const missing = await deploy(node, '--file', '/run/none.json')
  expect(missing).toMatchObject({ status: 2, stdout: '' })
  expect(missing.stderr).toMatch(/^netsweep: --file: \/run\/none\.json cannot be read: ENOENT[^\n]*\n$/)
  const both = await deploy(node, '--file', '/run/none.json', '--tenant', 'acme')
  expect(both).toMatchObject({
    status: 2,
    stderr: 'netsweep: --tenant: does not go with --file; put it into the file\n',
  })
})

test('refused: 2, by the option that names what is in the way, in both forms, with nothing changed', async () => {
  await using node = await TestNode.create()
  await deploy(node, ...API)
  await node.run('ip link add veth9 type ifb; ip netns add wg; ip -n wg link add wg0 type ifb')
  await node.run('echo precious >/run/netns/text')
  const before = await node.snapshot()
  const refused: readonly [args: readonly string[], line: RegExp][] = [
    [
      ['--workload', 'api', '--address', '10.128.3.8', '--tenant', 'globex'],
      /^netsweep: --workload: namespace api is somebody else's: a workload of another identity runs there at 10\.128\.3\.7; /,
    ],
    [
      ['--workload', 'wg', '--address', '10.128.3.8', '--tenant', 'acme'],
      /^netsweep: --workload: namespace wg is somebody else's: it holds link wg0; /,
    ],
    [
      ['--workload', 'text', '--address', '10.128.3.8', '--tenant', 'acme'],
      /^netsweep: --workload: \/run\/netns\/text is no network namespace; /,
    ],
    [
      ['--workload', 'web', '--address', '10.128.3.9', '--tenant', 'acme'],
      /^netsweep: --address: 10\.128\.3\.9 cannot be wired: veth9 is somebody else's: /,
    ],
    [
      ['--workload', 'web', '--address', '10.128.4.9', '--tenant', 'acme'],
      /^netsweep: --address: 10\.128\.4\.9 is not in this node's 10\.128\.3\.0\/24; /,
    ],
  ]
  for (const [args, line] of refused) {
    const text = await deploy(node, ...args)
    expect({ args, status: text.status, stdout: text.stdout }).toEqual({ args, status: 2, stdout: '' })
    expect(text.stderr).toMatch(line)
    expect(lines(text.stderr)).toHaveLength(1)
    const { status, json } = await deploy(node, ...args, '--json')
    expect({ args, status }).toEqual({ args, status: 2 })
    expect(json).toEqual({
      error: {
        code: 'USAGE',
        message: expect.any(String),
        hint: expect.toSatisfy((hint) => hint === null || hint !== ''),
      },
    })
  }
  expect(difference(before, await node.snapshot())).toEqual([])
  expect(await node.run('cat /run/netns/text')).toBe('precious\n')
})

test('a deploy that fails on the way: 1, what failed, and that it was undone', async () => {
  await using node = await TestNode.create()
  await node.run('mkdir /run/netns; mount -t tmpfs -o ro tmpfs /run/netns')
  const line =
    /^netsweep: deploy api: make namespace api: open \/run\/netns\/api: Read-only file system; it was undone\n$/
  const text = await deploy(node, ...API)
  expect(text).toMatchObject({ status: 1, stdout: '', stderr: expect.stringMatching(line) })
  const { status, json } = await deploy(node, ...API, '--json')
  expect({ status, json }).toEqual({
    status: 1,
    json: { error: { code: 'EROFS', message: expect.stringContaining('it was undone'), hint: null } },
  })
  expect(await node.run('ip -o link show type bridge; iptables-nft-save | grep yah || :')).toBe('')
})

test('another program keeps the folder of the namespaces locked: some seconds later the deploy gives up, and is undone', async () => {
  await using node = await TestNode.create()
  await node.run('mkdir /run/netns')
  const holder = await node.start('flock', ['--no-fork', '/run/netns', 'sh', '-c', 'echo held; exec sleep 60'])
  expect(await firstLine(holder)).toBe('held')
  const { status, json } = await deploy(node, ...API, '--json')
  expect({ status, json }).toEqual({
    status: 1,
    json: {
      error: {
        code: 'EAGAIN',
        message: expect.stringMatching(
          /make namespace api: flock \/run\/netns, which another program has kept locked for 5 s: .*; it was undone$/,
        ),
        hint: 'try again; `fuser -v /run/netns` says who has it open',
      },
    },
  })
  expect(holder.exitCode, 'it was held all the time').toBe(null)
  expect(await node.run('ls /run/netns; ip -o link show type bridge; iptables-nft-save | grep yah || :')).toBe('')

  const later = deploy(node, ...API)
  setTimeout(() => holder.kill(), 1000)
  expect(await later).toMatchObject({ status: 0, stderr: '' })
})

test('the empty file of a deploy that was killed while it made the namespace is taken over', async () => {
  await using node = await TestNode.create()
  await node.run('mkdir /run/netns; (umask 777; : >/run/netns/api)')
  expect(await deploy(node, ...API)).toMatchObject({ status: 0, stderr: '' })
  expect(await node.run('ip -n api -o -4 addr show dev eth0')).toContain('10.128.3.7/24')
})

test("a tenant's resolver in the mesh pool is a notice; one that cannot be read as well", async () => {
  await using node = await TestNode.create()
  await node.run(
    'cp -a /etc /run/etc; rm -rf /run/etc/netns; mount --bind /run/etc /etc; echo nameserver 100.64.0.53 >/etc/resolv.conf',
  )
  const text = await deploy(node, ...API)
  expect(text).toMatchObject({ status: 0, stderr: '' })
  expect(text.stdout).toMatch(/^notice {2}\/etc\/resolv\.conf: nameserver 100\.64\.0\.53 lies in the mesh pool /m)
  await node.run('mkdir -p /etc/netns/api/resolv.conf')
  const { json } = await deploy(node, ...API, '--json')
  expect(json).toMatchObject({
    notices: [{ object: '/etc/netns/api/resolv.conf', reason: expect.stringMatching(/^cannot be read: EISDIR/) }],
  })
  await node.run('rmdir /etc/netns/api/resolv.conf; rm /etc/resolv.conf')
  expect((await deploy(node, ...API, '--json')).json).toMatchObject({ notices: [] })
  const singleton = await deploy(node, '--workload', 'acct', '--address', '10.128.3.2', '--json')
  expect(singleton.json).toMatchObject({ notices: [], bridge: 'yah0' })
})

test('while somebody holds the lock: 4', async () => {
  await using node = await TestNode.create()
  const holder = await node.start(process.execPath, [
    ...['dist/cli.js', 'lock', '--', 'sh', '-c', 'echo held; exec sleep 60'],
  ])
  expect(await firstLine(holder)).toBe('held')
  for (const args of [
    ['deploy', ...API],
    ['stop', 'api'],
  ]) {
    const { status, stderr } = await node.netsweep([...args, '--lock-timeout', '0.1'])
    expect({ args, status }).toEqual({ args, status: 4 })
    expect(stderr).toMatch(/^netsweep: somebody else held \/run\/netsweep\/[^ ]+ for 0\.1 s; /)
  }
  holder.kill()
})

test('--help names every option', async () => {
  await using node = await TestNode.create()
  const { status, stdout, stderr } = await node.netsweep(['deploy', '--help'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  for (const option of ['workload', 'address', 'tenant', 'identity', 'allow', 'mtu', 'file', 'bridge', 'json'])
    expect(stdout).toMatch(new RegExp(`^ +--${option}\\b`, 'm'))
})
