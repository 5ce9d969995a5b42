/** `netsweep lock`, as it was built. */

import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { TestNode } from '../support/node.js'
import { ended } from '../support/process.js'

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))

test.each([
  ['exit 0', 0],
  ['exit 7', 7],
  ['kill -KILL $$', 137],
  ['kill -TERM $$', 143],
])('the status is that of: sh -c "%s"', async (script, status) => {
  await using node = await TestNode.create()
  expect((await node.netsweep(['lock', '--', 'sh', '-c', script])).status).toBe(status)
})

test.each([
  ['no-such-command', 127, 'netsweep: no-such-command: command not found\n'],
  ['/no/such/file', 127, 'netsweep: /no/such/file: command not found\n'],
  ['/etc/passwd', 126, 'netsweep: /etc/passwd: cannot be run: EACCES\n'],
])('%s', async (command, status, stderr) => {
  await using node = await TestNode.create()
  expect(await node.netsweep(['lock', '--', command])).toMatchObject({ status, stdout: '', stderr })
})

test('stdin, stdout, stderr, arguments and environment are passed on as they are', async () => {
  await using node = await TestNode.create()
  const script = 'cat; printf "%s|" "$@"; echo "$COLOUR" >&2'
  const args = ['lock', '--', 'sh', '-c', script, 'sh', '--json', 'a b', '--', '']
  const answer = await node.exec(process.execPath, [CLI, ...args], { input: 'in', env: { COLOUR: 'blue' } })
  expect(answer).toMatchObject({ status: 0, stdout: 'in--json|a b|--||', stderr: 'blue\n' })
})

const sweepOnce = (node: TestNode) => node.netsweep(['sweep', '--lock-timeout', '0.1'])

/** Starts a command under the lock, and waits until it runs. */
async function holding(node: TestNode, script: string): ReturnType<TestNode['start']> {
  const child = await node.start(process.execPath, [CLI, 'lock', '--', 'sh', '-c', `echo runs; ${script}`])
  if (child.stdout === null) throw new Error('no stdout')
  await once(child.stdout, 'readable')
  return child
}

test('nobody else gets the lock while the command runs, and everybody afterwards', async () => {
  await using node = await TestNode.create()
  const child = await holding(node, 'read -r line')
  const busy = await node.netsweep(['sweep', '--json', '--lock-timeout', '0.1'])
  expect(busy).toMatchObject({ status: 4, json: { error: { code: 'BUSY', hint: expect.stringContaining('fuser') } } })
  const file = `/run/netsweep/${(await node.run("stat -L -c '%d-%i' /proc/self/ns/net")).trim()}.lock`
  expect((await node.tryRun(`flock -n ${file} true`)).status).toBe(1)
  child.stdin?.end('\n')
  expect((await ended(child)).status).toBe(0)
  expect((await sweepOnce(node)).status).toBe(0)
  await node.run(`flock -n ${file} true`)
})

test('the command keeps the lock when netsweep is killed', async () => {
  await using node = await TestNode.create()
  const child = ended(await holding(node, 'exec sleep 30'))
  const command = (await node.run('pgrep -x sleep')).trim()
  const netsweep = (await node.run(`ps -o ppid= -p ${command}`)).trim()
  await node.run(`kill -KILL ${netsweep}`)
  expect((await sweepOnce(node)).status).toBe(4)
  await node.run(`kill ${command}`)
  await child
  expect((await node.netsweep(['sweep', '--lock-timeout', '5'])).status).toBe(0)
})

test.each(['INT', 'TERM', 'HUP'])('SIG%s goes on to the command, whose status it is then', async (signal) => {
  await using node = await TestNode.create()
  const child = await holding(node, `trap "echo told; exit 9" ${signal}; echo ready; while :; do sleep 0.1; done`)
  await sleep(200)
  const netsweep = (await node.run(`pgrep -f 'cli.js lock'`)).trim().split('\n')[0]
  await node.run(`kill -${signal} ${netsweep}`)
  expect(await ended(child)).toMatchObject({ status: 9, stdout: expect.stringContaining('told') })
})

test('SIGINT while it waits for the lock: nothing is run', async () => {
  await using node = await TestNode.create()
  const holder = await holding(node, 'read -r line')
  const waiting = await node.start(process.execPath, [CLI, 'lock', '--', 'echo', 'ran'])
  const isWaiting = `pid=$(pgrep -f '[c]li.js lock -- echo ran' | tail -n 1) && ls -l /proc/$pid/fd 2>/dev/null | grep -q /run/netsweep/`
  await node.run(`until ${isWaiting}; do sleep 0.05; done; pkill -INT -f '[c]li.js lock -- echo ran'`)
  expect(await ended(waiting)).toMatchObject({
    status: 3,
    stdout: '',
    stderr: 'netsweep: cancelled while waiting for the node-state lock\n',
  })
  holder.stdin?.end('\n')
  await ended(holder)
})
