/** Sockets, threads and processes that end: in their time, and leaving nothing behind. */
import { execFileSync, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { firstLine, TestNode } from '../support/node.js'
import { ip, loadAddon, openDescriptors, threads } from './support.js'

const MINUTE = 60_000
const requests = `
const message = (flags) => {
  const bytes = Buffer.alloc(32)
  bytes.writeUInt32LE(32, 0); bytes.writeUInt16LE(18, 4); bytes.writeUInt16LE(flags, 6)
  return bytes
}
const dump = message(0x301), unanswered = message(0);`
const script = (body: string) => `${loadAddon}${requests}(async () => {${body}})()`

function run(body: string, ...options: string[]) {
  return spawnSync(process.execPath, [...options, '-e', script(body)], { encoding: 'utf8', timeout: 10_000 })
}

beforeAll(() => {
  ip('netns', 'add', 'lifetime-test')
  ip('-n', 'lifetime-test', 'link', 'add', 'one', 'type', 'veth', 'peer', 'name', 'two')
})
afterAll(() => {
  ip('netns', 'del', 'lifetime-test')
})

test('an open socket alone does not keep the process alive', () => {
  const { status, signal, stderr } = run('await native.openSocket(0, -1)')
  expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' })
})

test('a pending exchange does, until it ends', () => {
  const { status, stdout } = run(`
    const socket = await native.openSocket(0, -1)
    console.log((await socket.exchange(unanswered, 300)).end)`)
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'timeout\n' })
})

test('a process may exit in the middle of an exchange', () => {
  const { status, signal, stderr } = run(`
    const socket = await native.openSocket(0, -1)
    socket.exchange(unanswered, ${MINUTE}); socket.exchange(dump, ${MINUTE})
    setTimeout(() => process.exit(7), 50)`)
  expect({ status, signal, stderr }).toEqual({ status: 7, signal: null, stderr: '' })
})

test('a socket that nobody refers to any more is closed', () => {
  const { status, stdout, stderr } = run(
    `
    const { readdirSync, readlinkSync } = require('fs')
    const sockets = () => readdirSync('/proc/self/fd').filter((fd) => {
      try { return readlinkSync('/proc/self/fd/' + fd).startsWith('socket:') } catch { return false }
    }).length
    const before = sockets()
    await (async () => {
      for (let i = 0; i < 5; i++) await (await native.openSocket(0, -1)).exchange(dump, 1000)
    })()
    const opened = sockets() - before
    for (let i = 0; i < 200 && sockets() > before; i++) { gc(); await new Promise((done) => setTimeout(done, 10)) }
    console.log(opened, sockets() - before)`,
    '--expose-gc',
  )
  expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '5 0\n', stderr: '' })
})

test('a socket that nobody refers to is not closed under its exchange', () => {
  const { status, stdout } = run(
    `
    const pending = (await native.openSocket(0, -1)).exchange(unanswered, 500)
    for (let i = 0; i < 20; i++) { gc(); await new Promise((done) => setTimeout(done, 10)) }
    console.log((await pending).end)`,
    '--expose-gc',
  )
  expect({ status, stdout }).toEqual({ status: 0, stdout: 'timeout\n' })
})

test('several worker threads load the addon, and exit', async () => {
  const body = `
    const { parentPort } = require('worker_threads')
    const netns = await native.openNamespace('lifetime-test')
    const socket = await native.openSocket(0, netns)
    const { end, bytes } = await socket.exchange(dump, ${MINUTE})
    let messages = 0
    for (let at = 0; at < bytes.length; at += (bytes.readUInt32LE(at) + 3) & ~3) messages++
    native.closeNamespace(netns)
    parentPort.postMessage({ end, links: messages - 1 })`
  const answers = await Promise.all(
    Array.from({ length: 6 }, async () => {
      const worker = new Worker(script(body), { eval: true })
      const [[answer], [status]] = await Promise.all([once(worker, 'message'), once(worker, 'exit')])
      return { ...answer, status }
    }),
  )
  expect(answers).toEqual(Array.from({ length: 6 }, () => ({ end: 'complete', links: 3, status: 0 })))
})

test('a worker thread may be terminated in the middle of an exchange', async () => {
  const terminate = async () => {
    const body = `
      const { parentPort } = require('worker_threads')
      const [one, other] = [await native.openSocket(0, -1), await native.openSocket(0, -1)]
      one.exchange(unanswered, ${MINUTE}); one.exchange(dump, ${MINUTE})
      parentPort.postMessage('ready')
      for (;;) await other.exchange(dump, ${MINUTE})`
    const worker = new Worker(script(body), { eval: true })
    await once(worker, 'message')
    await worker.terminate()
  }
  await terminate()
  const before = { descriptors: openDescriptors(), threads: threads() }
  for (let round = 0; round < 20; round++) await terminate()
  expect({ descriptors: openDescriptors(), threads: threads() }).toEqual(before)
}, 30_000)

test('a worker thread may be terminated while somebody else keeps /run/netns locked', async () => {
  await using node = await TestNode.create()
  await node.run('mkdir /run/netns')
  const holder = await node.start('flock', ['--no-fork', '/run/netns', 'sh', '-c', 'echo held; exec sleep 60'])
  expect(await firstLine(holder)).toBe('held')
  const inWorker = script("native.createNamespace('late'); require('worker_threads').parentPort.postMessage('ready')")
  const body = `
    const { Worker } = require('worker_threads')
    const worker = new Worker(${JSON.stringify(inWorker)}, { eval: true })
    worker.on('message', () => setTimeout(async () => {
      const began = performance.now()
      await worker.terminate()
      console.log(performance.now() - began)
    }, 300))`
  const { status, stdout, stderr } = await node.exec(process.execPath, ['-e', body])
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  // Not to the end of the five seconds that it would wait by itself.
  expect(Number(stdout)).toBeLessThan(3000)
  expect(await node.run('ls /run/netns')).toBe('')
})

test('loading the addon opens nothing and starts no thread', () => {
  const body = `
    const { readdirSync } = require('fs')
    const count = () => [readdirSync('/proc/self/fd').length, readdirSync('/proc/self/task').length].join()
    const before = count()
    ${loadAddon}
    console.log(before === count())`
  expect(execFileSync(process.execPath, ['-e', body], { encoding: 'utf8' })).toBe('true\n')
})
