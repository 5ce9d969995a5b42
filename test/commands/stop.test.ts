/** `netsweep stop` as it was built, on nodes of a real kernel. */
import { expect, test } from 'vitest'
import { firstLine, lines, TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'

/** Wired by the oracle. */
async function running(): Promise<TestNode> {
  const node = await TestNode.create()
  for (const [name, address] of [
    ['api', '10.128.3.7'],
    ['web', '10.128.3.8'],
  ] as const)
    await node.oracle('deploy', '--workload', name, '--addr', address, '--tenant', 'acme')
  return node
}

const KEYS = ['address', 'veth', 'namespace', 'processes', 'changes', 'elapsedMs']

test('text, and what is left is what the oracle leaves', async () => {
  await using node = await running()
  await using other = await running()
  const { status, stdout, stderr } = await node.netsweep(['stop', 'api'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/^stopped api \(10\.128\.3\.7, veth7\) in \d+ ms\n$/)
  await other.oracle('stop', 'api')
  await other.run('while ip link show veth7; do sleep 0.05; done >/dev/null 2>&1')
  expect(await node.dump()).toEqual(await other.dump())
  expect(await node.run('ip netns list')).toMatch(/^web\b[^\n]*\n$/)
})

test('--json: one object', async () => {
  await using node = await running()
  const { status, stderr, json } = await node.netsweep(['stop', 'api', '--json'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(Object.keys(json as object)).toEqual(KEYS)
  expect(json).toMatchObject({ address: '10.128.3.7', veth: 'veth7', namespace: 'deleted', processes: [] })
  expect((json as { changes: string[] }).changes.slice(-2)).toEqual(['delete veth7', 'delete namespace api'])
})

test('a workload that is not there, and one that was stopped before: nothing to do, and told so', async () => {
  await using node = await running()
  await node.netsweep(['stop', 'api'])
  const before = await node.snapshot()
  for (const name of ['api', 'never']) {
    const text = await node.netsweep(['stop', name])
    expect(text).toMatchObject({ status: 0, stderr: '' })
    expect(text.stdout).toMatch(/^nothing to stop: no network namespace of its name; .*netsweep stop --address\n$/)
    const { json } = await node.netsweep(['stop', name, '--json'])
    expect(json).toMatchObject({ address: null, veth: null, namespace: 'absent', processes: [], changes: [] })
  }
  expect(difference(before, await node.snapshot())).toEqual([])
})

test('the empty file of a deploy that was killed while it made the namespace goes', async () => {
  await using node = await running()
  await node.run('(umask 777; : >/run/netns/half)')
  const { status, stdout, stderr } = await node.netsweep(['stop', 'half'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/^cleared half: no network namespace, but what an interrupted deploy had left at its name\n$/)
  expect(lines(await node.run('ls /run/netns'))).toEqual(['api', 'web'])
})

test('held open by a process: stopped all the same, and who holds it', async () => {
  await using node = await running()
  const holder = await node.start('nsenter', ['--net=/run/netns/api', 'bash', '-c', 'echo $$; exec sleep 1000'])
  const pid = await firstLine(holder)
  const { status, stdout, stderr } = await node.netsweep(['stop', 'api'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(
    new RegExp(`^stopped api \\(10\\.128\\.3\\.7, veth7\\) in \\d+ ms; 1 process still in it: ${pid}\n$`),
  )
  expect(await node.run('! ip link show veth7 2>/dev/null; ip netns list')).not.toContain('api')
  holder.kill()
})

test('--address: when the name is gone already', async () => {
  await using node = await running()
  const holder = await node.start('nsenter', ['--net=/run/netns/api', 'bash', '-c', 'echo in; exec sleep 1000'])
  await firstLine(holder)
  await node.run('ip netns del api')
  const text = await node.netsweep(['stop', '--address', '10.128.3.7'])
  expect(text).toMatchObject({ status: 0, stderr: '' })
  expect(text.stdout).toMatch(
    /^stopped 10\.128\.3\.7 \(10\.128\.3\.7, veth7\) in \d+ ms; its namespace, if there is one, is as it was\n$/,
  )
  const again = await node.netsweep(['stop', '--address', '10.128.3.7'])
  expect(again).toMatchObject({ status: 0, stdout: 'nothing to stop: no host veth has that address\n' })
  const { json } = await node.netsweep(['stop', '--address', '10.128.3.7', '--json'])
  expect(json).toMatchObject({ address: null, veth: null, namespace: 'untouched', changes: [] })
  holder.kill()
})

test("refused: 2, with nothing changed, for somebody else's namespace and what is no address", async () => {
  await using node = await running()
  await node.run('ip netns add wg; ip -n wg link add wg0 type ifb; echo precious >/run/netns/text')
  const before = await node.snapshot()
  for (const [args, line] of [
    [['wg'], /^netsweep: workload: namespace wg was not made for a workload: it holds link wg0; [^\n]+\n$/],
    [['text'], /^netsweep: workload: \/run\/netns\/text is no network namespace; [^\n]+\n$/],
    [['--address', '10.128.3.1'], /^netsweep: --address: 10\.128\.3\.1 is no workload's address in [^\n]+\n$/],
    [['--address', 'api'], /^netsweep: --address: api is no workload's address in [^\n]+\n$/],
    [['api', '--address', '10.128.3.7'], /^netsweep: stop: takes a workload’s name, or --address; [^\n]+\n$/],
    [['api', 'web'], /^netsweep: web: not expected here; [^\n]+\n$/],
  ] as const) {
    const { status, stdout, stderr } = await node.netsweep(['stop', ...args])
    expect({ args, status, stdout }).toEqual({ args, status: 2, stdout: '' })
    expect(stderr).toMatch(line)
    expect((await node.netsweep(['stop', ...args, '--json'])).json).toMatchObject({ error: { code: 'USAGE' } })
  }
  expect(difference(before, await node.snapshot())).toEqual([])
  expect(await node.run('cat /run/netns/text')).toBe('precious\n')
})

test('what fails after something was done: 1, and what was done', async () => {
  await using node = await running()
  await node.run('mount -o remount,ro,bind /run/netns')
  const { status, stdout, stderr } = await node.netsweep(['stop', 'api'])
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  expect(stderr).toMatch(
    /^netsweep: stop api: delete namespace api: write to \/run\/netns: Read-only file system; done before that: .*delete veth7\n$/,
  )
  const { json } = await node.netsweep(['stop', 'web', '--json'])
  expect(json).toMatchObject({ error: { code: 'EROFS', message: expect.stringContaining('done before that') } })
  await node.run('mount -o remount,rw,bind /run/netns')
  expect((await node.netsweep(['stop', 'api'])).stdout).toMatch(/^stopped api \(it had no host veth\) in \d+ ms\n$/)
})

test('--help', async () => {
  await using node = await TestNode.create()
  const { status, stdout, stderr } = await node.netsweep(['stop', '--help'])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toMatch(/^Usage: netsweep stop \[options\] \[workload\]\n/)
  expect(stdout).toMatch(/^ +--address <address> /m)
})
