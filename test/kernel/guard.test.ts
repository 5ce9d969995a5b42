/** The node-state lock: one pass at a time, in one process, between processes, and with scripts. */

import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { ContainerNet, lockNodeState, reconcile } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { GuardError } from '../../src/node/errors.js'
import type { ReconciledJson } from '../../src/node/reconciled.js'
import { delegate } from '../support/fake-host.js'
import { need } from '../support/machine.js'
import { lines, TestNode } from '../support/node.js'
import { ended, type Process } from '../support/process.js'
import { difference } from '../support/snapshot.js'
import { GLOBEX, hooked, machine, pass } from './passes.js'

const net = new ContainerNet()
const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
const INDEX = new URL('../../dist/index.js', import.meta.url).href

/** A node with a dead bridge and a departed address. */
async function stopped(): Promise<TestNode> {
  const node = await TestNode.create()
  await node.run(`
    ip link add yah0 type bridge; ip addr add 10.128.3.1/24 dev yah0; ip link set yah0 up
    ip link add ${GLOBEX} type bridge; ip addr add 10.128.3.1/32 dev ${GLOBEX}; ip link set ${GLOBEX} up
    ip route add 10.128.3.9 dev ${GLOBEX}
    ip rule add priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit`)
  return node
}

/** The lock's file, as interface and sweep documents name it. */
const FILE = '/run/netsweep/$(stat -Lc %d-%i.lock /proc/self/ns/net)'
/** Holds the lock as a script would, says so, and lets it go when its stdin ends. */
async function holdWithFlock(node: TestNode): Promise<Process> {
  const script = `install -d -m 0700 /run/netsweep; exec 9>${FILE}; flock 9; echo held; read -r _ || :`
  const holder = await node.start('bash', ['-c', script])
  await once(holder.stdout, 'data')
  return holder
}

/** Until so many have the lock's file open, its holder among them. */
async function opened(node: TestNode, count: number): Promise<void> {
  await node.run(
    `until (($(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c -- '-> /run/netsweep/') >= ${count})); do sleep 0.05; done`,
  )
}

async function letGo(holder: Process): Promise<void> {
  holder.stdin.end()
  await once(holder, 'close')
}

/** Another machine for each caller: what they share is the namespace alone. */
async function withMachines<T>(node: TestNode, count: number, work: (hosts: Host[]) => Promise<T>): Promise<T> {
  const hosts = await Promise.all(Array.from({ length: count }, () => machine(node)))
  try {
    return await work(hosts)
  } finally {
    for (const host of hosts) host.close()
  }
}

const unclosing = (host: Host): Host => ({ ...delegate(host), close() {} })
const take = (host: Host, options = {}) => lockNodeState(net, { host: unclosing(host), ...options })
const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => 'no failure',
    (error) => error,
  )

test('in one process: callers are let in one by one, in the order in which they came', async () => {
  await using node = await TestNode.create()
  await withMachines(node, 4, async (hosts) => {
    const seen: string[] = []
    await Promise.all(
      hosts.map(async (host, i) => {
        await using lock = await take(host)
        seen.push(`${i} in`)
        await new Promise((resolve) => setTimeout(resolve, 30))
        expect(lock.held).toBe(true)
        seen.push(`${i} out`)
      }),
    )
    expect(seen).toEqual(hosts.flatMap((_, i) => [`${i} in`, `${i} out`]))
  })
})

test('in one process: two passes both succeed, and remove everything once', async () => {
  await using node = await stopped()
  await withMachines(node, 2, async ([a, b]) => {
    let reading = 0
    let most = 0
    const counted = async (host: Host) => {
      await using lock = await take(
        hooked(host, async () => {
          most = Math.max(most, reading)
        }),
      )
      reading++
      const swept = await reconcile(net, lock)
      reading--
      return swept
    }
    const [first, second] = await Promise.all([counted(a as Host), counted(b as Host)])
    expect(most).toBe(1)
    expect(first).toMatchObject({ complete: true, bridges: [GLOBEX], addresses: ['10.128.3.9'] })
    expect(second).toMatchObject({ complete: true, steps: [] })
  })
})

test('of two namespaces: neither waits for the other', async () => {
  await using one = await TestNode.create()
  await using other = await TestNode.create()
  const [a, b] = [await machine(one), await machine(other)]
  await using held = await take(a)
  await using free = await take(b, { timeoutMs: 1 })
  expect([held.held, free.held]).toEqual([true, true])
  a.close()
  b.close()
})

test('two processes: both succeed, and everything is removed once', async () => {
  await using node = await stopped()
  // Both are there before either gets it.
  const holder = await holdWithFlock(node)
  const both = Promise.all([node.netsweep(['sweep', '--json']), node.netsweep(['sweep', '--json'])])
  await opened(node, 3)
  await letGo(holder)
  const swept = await both
  expect(swept.map(({ status, stderr }) => [status, stderr])).toEqual([
    [0, ''],
    [0, ''],
  ])
  const removed = swept.map(({ json }) =>
    (json as ReconciledJson).steps.map(({ object, outcome }) => `${outcome} ${object}`),
  )
  const [some, none] = removed.sort((a, b) => b.length - a.length)
  expect(none).toEqual([])
  expect(some?.filter((step) => !step.startsWith('removed '))).toEqual([])
  expect(some).toContain(`removed bridge ${GLOBEX}`)
})

test('waiting for too long: GuardError BUSY, in time, and nothing was changed', async () => {
  await using node = await stopped()
  await withMachines(node, 2, async ([a, b]) => {
    await using held = await take(a as Host)
    const before = await node.snapshot()
    const started = performance.now()
    const error = await failure(take(b as Host, { timeoutMs: 200 }))
    const waited = performance.now() - started
    expect(error).toBeInstanceOf(GuardError)
    expect(error).toMatchObject({ code: 'BUSY', hint: expect.stringContaining('--lock-timeout') })
    expect((error as Error).message).toMatch(/^somebody else held \/run\/netsweep\/\d+-\d+\.lock for 0\.2 s$/)
    expect(waited).toBeGreaterThanOrEqual(195)
    expect(waited).toBeLessThan(2000)
    expect(held.held).toBe(true)
    expect(difference(before, await node.snapshot())).toEqual([])
  })
})

test('the command that waits for too long ends with 4', async () => {
  await using node = await stopped()
  const holder = await holdWithFlock(node)
  const before = await node.snapshot()
  const busy = await node.netsweep(['sweep', '--lock-timeout', '0.2'])
  expect(busy).toMatchObject({ status: 4, stdout: '' })
  expect(busy.stderr).toMatch(/^netsweep: somebody else held \/run\/netsweep\/\d+-\d+\.lock for 0\.2 s; [^\n]+\n$/)
  const json = await node.netsweep(['sweep', '--json', '--lock-timeout', '0'])
  expect(json).toMatchObject({ status: 4, json: { error: { code: 'BUSY' } } })
  expect(difference(before, await node.snapshot())).toEqual([])
  await letGo(holder)
  expect((await node.netsweep(['sweep'])).status).toBe(0)
})

test('waiting can be cancelled, and whoever waits behind is not held up', async () => {
  await using node = await TestNode.create()
  await withMachines(node, 3, async (hosts) => {
    const [a, b, c] = hosts as [Host, Host, Host]
    const held = await take(a)
    const abort = new AbortController()
    const cancelled = failure(take(b, { signal: abort.signal }))
    const behind = take(c)
    abort.abort()
    expect(await cancelled).toMatchObject({ name: 'GuardError', code: 'ABORTED' })
    await held.release()
    expect((await behind).held).toBe(true)
    await (await behind).release()
  })
})

test('cancelled before it began, it does not even begin', async () => {
  await using node = await TestNode.create()
  await withMachines(node, 1, async ([host]) => {
    const error = await failure(take(host as Host, { signal: AbortSignal.abort() }))
    // A slow machine may still be reading.
    expect(error).toMatchObject({ code: 'ABORTED' })
    const lock = await take(host as Host)
    expect(lock.held).toBe(true)
    await lock.release()
  })
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  '%s ends a command that waits: nothing was changed, status 3',
  async (signal) => {
    await using node = await stopped()
    const holder = await holdWithFlock(node)
    const before = await node.snapshot()
    const { stdout, stderr } = await node.tryRun(`
    ${process.execPath} '${CLI}' sweep & sweep=$!
    until ls -l /proc/$sweep/fd 2>/dev/null | grep -q /run/netsweep/; do sleep 0.05; done
    kill -${signal} $sweep; wait $sweep; echo "status $?"`)
    expect(stdout).toBe('status 3\n')
    expect(stderr).toMatch(/^netsweep: cancelled while waiting for the node-state lock\n$/)
    expect(difference(before, await node.snapshot())).toEqual([])
    await letGo(holder)
  },
)

test('the lock dies with its holder, however that dies', async () => {
  await using node = await stopped()
  const script = `const { ContainerNet, lockNodeState } = await import(${JSON.stringify(INDEX)})
    const lock = await lockNodeState(new ContainerNet())
    console.log('held'); setInterval(() => {}, 1000)`
  const holder = await node.start(process.execPath, ['--input-type=module', '-e', script])
  await once(holder.stdout, 'data')
  expect((await node.netsweep(['sweep', '--lock-timeout', '0'])).status).toBe(4)
  holder.kill('SIGKILL')
  await once(holder, 'close')
  expect((await node.netsweep(['sweep', '--lock-timeout', '1'])).status).toBe(0)
})

test('a script with flock(1) on the same file keeps us out, and we keep it out', async () => {
  await using node = await stopped()
  const held = await node.netsweep(['lock', '--', 'bash', '-c', `flock -n ${FILE} true || echo busy`])
  expect(held).toMatchObject({ status: 0, stdout: 'busy\n' })
  const free = await node.run(`flock -n ${FILE} ${process.execPath} -e 'console.log("got it")'`)
  expect(free).toBe('got it\n')
  const nested = await node.run(`flock -n ${FILE} ${process.execPath} '${CLI}' sweep --lock-timeout 0 || echo $?`)
  expect(nested).toBe('4\n')
})

test('its file is named after the namespace, in a folder of root’s alone', async () => {
  await using node = await stopped()
  expect((await node.netsweep(['sweep', '--dry-run'])).status).toBe(0)
  expect(await node.run(`stat -c '%a %u' /run/netsweep; stat -c '%a %u' ${FILE}; ls /run/netsweep | wc -l`)).toBe(
    '700 0\n600 0\n1\n',
  )
})

test.each([
  ['open to others', 'mkdir -m 0755 /run/netsweep', /\/run\/netsweep is not a folder of root's with mode 0700/],
  ['writable by others', 'mkdir -m 0770 /run/netsweep', /not a folder of root's with mode 0700/],
  ['no folder', 'touch /run/netsweep; chmod 700 /run/netsweep', /not a folder of root's/],
  ['a link to a folder', 'mkdir -m 0700 /run/other; ln -s other /run/netsweep', /not a folder of root's/],
  ['one with a link for a lock', `mkdir -m 0700 /run/netsweep; ln -s /run/victim ${FILE}`, /ELOOP/],
  ['one with a folder for a lock', `mkdir -m 0700 /run/netsweep; mkdir ${FILE}`, /EISDIR/],
])('the folder of locks is %s: nobody is trusted with it, and nothing was changed', async (_, make, says) => {
  await using node = await stopped()
  await node.run(make)
  const before = await node.snapshot()
  const { status, stdout, stderr } = await node.netsweep(['sweep'])
  expect({ status, stdout }).toEqual({ status: 3, stdout: '' })
  expect(stderr).toMatch(/^netsweep: [^\n]+\n$/)
  expect(stderr).toMatch(says)
  expect(difference(before, await node.snapshot())).toEqual([])
  expect(await node.run('ls /run/victim 2>/dev/null || :')).toBe('')
})

test('the folder of locks is somebody else’s', async (context) => {
  await need(context, 'root')
  await using node = await stopped()
  await node.run('install -d -m 0700 -o nobody /run/netsweep')
  const { status, stderr } = await node.netsweep(['sweep'])
  expect(status).toBe(3)
  expect(stderr).toMatch(/not a folder of root's with mode 0700; look who made it/)
})

test('the file is removed under its holder: whoever waits goes for the new one', async () => {
  await using node = await stopped()
  const first = await holdWithFlock(node)
  const waiting = await node.start(process.execPath, [CLI, 'lock', '--', 'echo', 'ran'])
  let ran = false
  const end = ended(waiting).then((result) => {
    ran = true
    return result
  })
  await opened(node, 2)
  await node.run(`rm ${FILE}`)
  const second = await holdWithFlock(node)
  await letGo(first)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(ran).toBe(false)
  await letGo(second)
  expect(await end).toMatchObject({ status: 0, stdout: 'ran\n' })
})

test('a function that reads and then writes cannot be called without it', async () => {
  await using node = await stopped()
  await withMachines(node, 1, async ([host]) => {
    const lock = await take(host as Host)
    expect(await failure(reconcile(new ContainerNet({ netns: 'elsewhere' }), lock))).toMatchObject({
      name: 'GuardError',
      code: 'NOT_HELD',
      message: expect.stringContaining('not for elsewhere'),
    })
    await lock.release()
    await lock.release()
    expect(await failure(reconcile(net, lock))).toMatchObject({ name: 'GuardError', code: 'NOT_HELD' })
    expect((await pass(host as Host)).complete).toBe(true)
  })
})

test('cancelled while the node is left to settle', async () => {
  await using node = await stopped()
  await withMachines(node, 1, async ([host]) => {
    const before = await node.snapshot()
    const abort = new AbortController()
    setTimeout(() => abort.abort(), 400)
    const error = await failure(pass(host as Host, { settleMs: 60_000, signal: abort.signal }))
    // A slow machine may still be reading.
    expect(error).toMatchObject({ code: 'ABORTED' })
    expect(difference(before, await node.snapshot())).toEqual([])
    // And it is free.
    await (await take(host as Host, { timeoutMs: 100 })).release()
  })
})

test('after settling, somebody else holds the lock for too long', async () => {
  await using node = await stopped()
  await withMachines(node, 2, async (hosts) => {
    const [a, b] = hosts as [Host, Host]
    const lock = await take(a, { timeoutMs: 150 })
    const running = failure(reconcile(net, lock, { settleMs: 300 }))
    await using other = await take(b)
    expect(await running).toMatchObject({ name: 'GuardError', code: 'BUSY' })
    expect(other.held).toBe(true)
    expect(lock.held).toBe(false)
    expect(lines(await node.run('ip -br link show type bridge')).length).toBe(2)
  })
})
