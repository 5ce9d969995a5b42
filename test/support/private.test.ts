/** scripts/private.sh: what it runs reaches nothing outside, and nothing of it stays. */
import { chmod, copyFile, mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { need } from './machine.js'
import { firstLine, lines, TestNode } from './node.js'
import { runProcess, start } from './process.js'
import { difference } from './snapshot.js'

const PRIVATE = fileURLToPath(new URL('../../scripts/private.sh', import.meta.url))
/** Becomes a process without the two capabilities, as an ordinary user is. */
const POWERLESS = 'setpriv --bounding-set=-sys_admin,-net_admin --'
/** Makes things, says which namespaces it is in, and stays. */
const STAY = `ip link add yah0 type bridge; ip netns add api; ip link add veth2 type veth peer name vethc2 netns api
  setsid sleep 1000 & echo $(readlink /proc/self/ns/net /proc/self/ns/mnt /proc/self/ns/pid); sleep 1000`

const inPrivate = (...command: string[]) => runProcess('bash', [PRIVATE, ...command])

/** How many processes are in one of these namespaces. */
async function inhabitants(namespaces: readonly string[]): Promise<number> {
  let count = 0
  for (const pid of (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry))) {
    const links = ['net', 'mnt', 'pid'].map((kind) => readlink(`/proc/${pid}/ns/${kind}`).catch(() => ''))
    if ((await Promise.all(links)).some((link) => namespaces.includes(link))) count++
  }
  return count
}

test.for([
  ['private.sh itself', 'bash', [PRIVATE, 'bash', '-c', STAY]],
  ['who started it', 'bash', ['-c', 'bash "$0" "$@"; :', PRIVATE, 'bash', '-c', STAY]],
] as const)('nothing is left when %s is killed', async ([, command, args]) => {
  const killed = await start(command, args)
  const namespaces = (await firstLine(killed)).split(' ')
  expect(namespaces).toHaveLength(3)
  expect(await inhabitants(namespaces)).toBeGreaterThanOrEqual(3)

  killed.kill('SIGKILL')

  await expect.poll(() => inhabitants(namespaces)).toBe(0)
})

test('what the command leaves running ends with it', async () => {
  const { status, stdout } = await inPrivate('bash', '-c', 'setsid sleep 1000 & readlink /proc/self/ns/net; exit 7')
  expect(status).toBe(7)
  expect(stdout).toMatch(/^net:\[\d+\]\n$/)
  await expect.poll(() => inhabitants([stdout.trim()])).toBe(0)
})

test('exit status, signals, stdin and arguments pass through', async () => {
  expect((await inPrivate('sh', '-c', 'exit 42')).status).toBe(42)
  expect((await inPrivate('sh', '-c', 'kill -KILL $$')).status).toBe(128 + 9)
  expect((await inPrivate('/no/such/command')).status).toBe(127)
  expect((await runProcess('bash', [PRIVATE, 'cat'], { input: 'hello' })).stdout).toBe('hello')
  expect((await inPrivate('printf', '%s|', 'a b', '$c', '*')).stdout).toBe('a b|$c|*|')
})

test.for(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s reaches the command', async (signal) => {
  const name = signal.slice(3)
  const script = `trap "echo caught ${name}; exit 9" ${name}; echo ready; while :; do sleep 0.02; done`
  const child = await start('bash', [PRIVATE, 'bash', '-c', script])
  expect(await firstLine(child)).toBe('ready')
  const said = firstLine(child)
  const status = new Promise((resolve) => child.once('exit', resolve))

  child.kill(signal)

  expect(await said).toBe(`caught ${name}`)
  expect(await status).toBe(9)
})

test('the terminal stays, and what is typed at it arrives once', async () => {
  const program = `process.on('SIGINT', () => console.log('caught')); console.log('terminal ' + process.stdin.isTTY)
    setTimeout(() => console.log('end'), 800)`
  const [node, typed] = [process.execPath, `bash "$PRIVATE" "$NODE" -e "$PROGRAM"`]
  const env = { PRIVATE, NODE: node, PROGRAM: program, SHELL: '/bin/sh' }
  const child = await start('script', ['-qec', typed, '/dev/null'], { env })
  expect((await firstLine(child)).trim()).toBe('terminal true')
  const rest = text(child.stdout)

  child.stdin.write('\x03')

  expect((await rest).match(/caught|end/g)).toEqual(['caught', 'end'])
})

test('/run is empty and lo is up', async () => {
  const { stdout } = await inPrivate('bash', '-c', 'ls /run/netns /run/xtables.lock 2>&1 | wc -l; ip -o link; echo $$')
  const [absent, ...rest] = lines(stdout)
  expect(absent).toBe('2')
  expect(rest).toHaveLength(2)
  expect(rest[0]).toMatch(/^1: lo: <LOOPBACK,UP,LOWER_UP>/)
})

test('nothing changes where it was started', async () => {
  await using machine = await TestNode.create()
  await machine.oracle('deploy', '--workload', 'api', '--addr', '10.128.3.7', '--tenant', 'acme')
  const listed = 'find /run | sort'
  const [before, files] = [await machine.snapshot(), await machine.run(listed)]

  await machine.run(`bash '${PRIVATE}' bash -euc '
    ip link add yah0 type bridge; ip netns add api; ip rule add priority 1200 iif yah0 prohibit
    iptables-nft -w -A FORWARD -j DROP; sysctl -qw net.ipv4.ip_forward=0; mkdir /run/netsweep'`)

  expect(difference(before, await machine.snapshot())).toEqual([])
  expect(await machine.run(listed)).toBe(files)
})

test('an ordinary user gets the same, in a user namespace', async (context) => {
  await need(context, 'root')
  const folder = await mkdtemp(join(tmpdir(), 'private-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  // A copy where anybody may read: the checkout may lie in root's own folder.
  await chmod(folder, 0o755)
  await copyFile(PRIVATE, join(folder, 'private.sh'))
  const script = `id -u; ip link add yah0 type bridge; ip netns add api; ls /run/netns; iptables-nft -w -A FORWARD -i yah0 -j DROP
    iptables-nft -S FORWARD | tail -n 1; cat /proc/net/ip_tables_names >/dev/null && echo readable`
  const args = ['--reuid=65534', '--regid=65534', '--clear-groups', '--', 'bash', join(folder, 'private.sh')]
  const { status, stdout, stderr } = await runProcess('setpriv', [...args, 'bash', '-euc', script], { cwd: '/' })
  expect(stderr).toBe('')
  expect(lines(stdout)).toEqual(['0', 'api', '-A FORWARD -i yah0 -j DROP', 'readable'])
  expect(status).toBe(0)
})

async function needUserNamespaces(context: TestContext): Promise<void> {
  const { status, stderr } = await runProcess('unshare', ['--user', '--map-root-user', '--', 'true'])
  if (status !== 0) context.skip(`no user namespaces (${stderr.trim()})`)
}

test('says what to do where user namespaces are switched off', async (context) => {
  await needUserNamespaces(context)
  const script = `echo 0 >/proc/sys/user/max_user_namespaces; ${POWERLESS} bash '${PRIVATE}' echo ran`
  const answer = await runProcess('unshare', ['--user', '--map-root-user', '--', 'bash', '-c', script])
  expect(answer).toMatchObject({ status: 125, stdout: '' })
  expect(answer.stderr).toMatch(
    /^private\.sh: cannot make the namespaces: .* as root: sysctl -w user\.max_user_namespaces=/,
  )
})

test('says so where /proc is masked', async (context) => {
  await needUserNamespaces(context)
  await using container = await TestNode.create()
  const script = `mount --bind /dev/null /proc/cpuinfo; ${POWERLESS} bash '${PRIVATE}' echo ran`
  const answer = await container.tryRun(script)
  expect(answer).toMatchObject({ status: 125, stdout: '' })
  expect(answer.stderr).toMatch(/^private\.sh: cannot mount \/proc .* hidden here/)
})
