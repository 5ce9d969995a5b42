import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { connectionsOf } from '../../src/kernel/conntrack/conntrack.js'
import type { Host } from '../../src/kernel/host.js'
import { NLM_F_CREATE, RTM_NEWLINK } from '../../src/kernel/linux.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { NetlinkError } from '../../src/kernel/netlink/errors.js'
import { writeRequests } from '../../src/kernel/netlink/message.js'
import { ip, ipLinks, linkDump, linksOf, newLink, openDescriptors, unanswered } from './support.js'

let own: Host
let other: Host

beforeAll(async () => {
  ip('netns', 'add', 'hosted')
  ip('-n', 'hosted', 'link', 'add', 'there', 'type', 'bridge')
  own = await openHost()
  other = await openHost({ netns: 'hosted', timeoutMs: 10_000 })
})
afterAll(() => {
  own.close()
  other.close()
  ip('netns', 'del', 'hosted')
})

const rejection = (code: string) => expect.objectContaining({ name: 'NetlinkError', code })

test('its namespace is the one of the file', () => {
  const idOf = (path: string) => {
    const { dev, ino } = statSync(path)
    return { device: dev, inode: ino }
  }
  expect(own.namespace).toEqual(idOf('/proc/self/ns/net'))
  expect(other.namespace).toEqual(idOf('/run/netns/hosted'))
})

test('links, tools and files are those of its namespace', async () => {
  expect([...linksOf(await own.exchange(linkDump)).keys()]).not.toContain('there')
  expect(linksOf(await other.exchange(linkDump))).toEqual(ipLinks('-n', 'hosted'))
  const shown = await other.run('ip', ['-j', 'link'])
  expect(shown).toMatchObject({ status: 0, signal: null, code: null, stderr: '' })
  expect(JSON.parse(shown.stdout).map((link: { ifname: string }) => link.ifname)).toEqual(['lo', 'there'])
  expect((await own.run('ip', ['-j', 'link'])).stdout).not.toContain('there')
  expect(await other.readFile('/proc/thread-self/net/dev')).toContain('there:')
  expect(await own.readFile('/proc/thread-self/net/dev')).not.toContain('there:')
})

test('a namespace by its path is the same', async () => {
  const host = await openHost({ netns: '/run/netns/hosted' })
  expect(host.namespace).toEqual(other.namespace)
  host.close()
})

test('a namespace that is not there, or is none', async () => {
  await expect(openHost({ netns: 'absent' })).rejects.toMatchObject({
    code: 'ENOENT',
    syscall: 'open /run/netns/absent',
  })
  await expect(openHost({ netns: '/etc/passwd' })).rejects.toThrow('is no network namespace')
})

test('an exchange that does not end in time', async () => {
  await expect(other.exchange(unanswered, { timeoutMs: 30 })).rejects.toThrow(rejection('TIMEOUT'))
  expect(linksOf(await other.exchange(linkDump))).toEqual(ipLinks('-n', 'hosted'))
})

test('an exchange that is aborted, and its neighbours that are not', async () => {
  const controller = new AbortController()
  const first = other.exchange(unanswered, { signal: controller.signal })
  const second = other.exchange(linkDump)
  const third = other.exchange(unanswered, { signal: controller.signal })
  setTimeout(() => controller.abort(new Error('enough')), 30)
  for (const outcome of await Promise.allSettled([first, third])) {
    const reason = outcome.status === 'rejected' ? outcome.reason : undefined
    expect([reason?.name, reason?.code, reason?.cause?.message]).toEqual(['NetlinkError', 'ABORTED', 'enough'])
  }
  expect(linksOf(await second)).toEqual(ipLinks('-n', 'hosted'))
  await expect(other.exchange(linkDump, { signal: controller.signal })).rejects.toBeInstanceOf(NetlinkError)
})

const NETFILTER = { protocol: 'netfilter' } as const
const connections = writeRequests([connectionsOf(['192.0.2.1'])])

test('netfilter is asked in the same namespace, beside rtnetlink', async () => {
  const within = (...command: string[]) =>
    execFileSync('ip', ['netns', 'exec', 'hosted', ...command], { stdio: 'pipe' })
  within('iptables-nft', '-A', 'INPUT', '-m', 'conntrack', '--ctstate', 'NEW', '-j', 'ACCEPT')
  within('conntrack', '-I', ...'-p udp -s 192.0.2.1 -d 192.0.2.2 --sport 9 --dport 53 -t 60'.split(' '))
  const [links, [here], [elsewhere]] = await Promise.all([
    other.exchange(linkDump),
    ask(other, [connectionsOf(['192.0.2.1'])], NETFILTER),
    ask(own, [connectionsOf(['192.0.2.1'])], NETFILTER),
  ])
  expect(linksOf(links)).toEqual(ipLinks('-n', 'hosted'))
  expect(here).toMatchObject({ error: null, items: [{ original: { source: '192.0.2.1', destinationPort: 53 } }] })
  expect(elsewhere).toEqual({ error: null, items: [], interrupted: false })
})

test('the socket for netfilter is opened when it is asked, and closed with the host', async () => {
  const before = openDescriptors()
  const host = await openHost({ netns: 'hosted' })
  await host.exchange(linkDump)
  const opened = openDescriptors()
  await host.exchange(connections, NETFILTER)
  const asked = openDescriptors()
  expect(asked).toBeGreaterThan(opened)
  await host.exchange(connections, NETFILTER)
  expect(openDescriptors()).toBe(asked)
  host.close()
  await expect.poll(openDescriptors).toBe(before)
  await expect(host.exchange(connections, NETFILTER)).rejects.toThrow('closed')
})

test('a closed host lets its namespace go, with what is in it', async () => {
  ip('netns', 'add', 'passing')
  ip('link', 'add', 'passing0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', 'passing')
  const host = await openHost({ netns: 'passing' })
  await host.exchange(linkDump)
  await host.exchange(connections, NETFILTER)
  ip('netns', 'del', 'passing')
  expect(ipLinks().has('passing0')).toBe(true)
  expect(linksOf(await host.exchange(linkDump)).has('eth0')).toBe(true)
  host.close()
  await expect.poll(() => ipLinks().has('passing0')).toBe(false)
})

test('a host that is closed while that socket opens', async () => {
  const before = openDescriptors()
  const host = await openHost({ netns: 'hosted' })
  const pending = host.exchange(connections, NETFILTER)
  host.close()
  await expect(pending).rejects.toThrow()
  await expect.poll(openDescriptors).toBe(before)
})

test('a question to netfilter that is aborted, while its socket opens too', async () => {
  const host = await openHost({ netns: 'hosted' })
  const controller = new AbortController()
  const pending = host.exchange(connections, { ...NETFILTER, signal: controller.signal })
  controller.abort()
  await expect(pending).rejects.toThrow(rejection('ABORTED'))
  expect((await ask(host, [connectionsOf(['192.0.2.1'])], NETFILTER))[0].error).toBeNull()
  host.close()
})

test('a batch that is not well-formed is refused', async () => {
  await expect(own.exchange(newLink('x', 'bridge', NLM_F_CREATE))).rejects.toThrow('NLM_F_ACK')
  expect(newLink('x', 'bridge', 0).readUInt16LE(4)).toBe(RTM_NEWLINK)
})

test('a closed host refuses, and closing it again does nothing', async () => {
  const host = await openHost()
  const pending = host.exchange(unanswered)
  host.close()
  host.close()
  await expect(pending).rejects.toThrow(rejection('ABORTED'))
  await expect(host.exchange(linkDump)).rejects.toThrow('closed')
  await expect(host.run('true', [])).rejects.toThrow('closed')
  await expect(host.readFile('/proc/stat')).rejects.toThrow('closed')
})

test('files that cannot be read have the codes of Node', async () => {
  await expect(own.readFile('/proc/absent')).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(own.readFile('/proc')).rejects.toMatchObject({ code: 'EISDIR' })
})

// Tools, the same in both.

const hosts = [
  ['its own namespace', () => own],
  ['another namespace', () => other],
] as const

test.each(hosts)('in %s: status, output and input', async (_, host) => {
  const ran = await host().run('sh', ['-c', 'cat; echo said >&2; exit 3'], { input: 'given\n' })
  expect(ran).toEqual({ status: 3, signal: null, code: null, stdout: 'given\n', stderr: 'said\n' })
})

test.each(hosts)('in %s: a tool that is not there', async (_, host) => {
  expect(await host().run('no-such-tool', [])).toMatchObject({ status: null, signal: null, code: 'ENOENT' })
})

test.each(hosts)('in %s: a tool that takes too long is killed', async (_, host) => {
  const begun = performance.now()
  const ran = await host().run('sh', ['-c', 'echo begun; sleep 60'], { timeoutMs: 200 })
  expect(ran).toEqual({ status: null, signal: 'timeout', code: null, stdout: 'begun\n', stderr: '' })
  expect(performance.now() - begun).toBeLessThan(5000)
  // With what it started.
  await expect.poll(commandLines).not.toContain('sleep 60')
})

test.each(hosts)('in %s: a tool that is aborted is killed', async (_, host) => {
  const ran = await host().run('sleep', ['61'], { signal: AbortSignal.timeout(100) })
  expect(ran).toMatchObject({ status: null, signal: 'aborted', code: null })
  await expect.poll(commandLines).not.toContain('sleep 61')
})

test.each(hosts)('in %s: a tool that ends by a signal of its own', async (_, host) => {
  expect(await host().run('sh', ['-c', 'kill -9 $$'])).toMatchObject({ status: null, signal: 'SIGKILL', code: null })
})

test.each(hosts)('in %s: a tool that does not read its input', async (_, host) => {
  const input = 'x'.repeat(4 * 1024 * 1024)
  expect(await host().run('true', [], { input })).toMatchObject({ status: 0, code: null })
})

test.each(hosts)('in %s: much output comes whole', async (_, host) => {
  const { stdout } = await host().run('head', ['-c', String(20 * 1024 * 1024), '/dev/zero'])
  expect(stdout.length).toBe(20 * 1024 * 1024)
})

test.each(hosts)('in %s: messages are in English', async (_, host) => {
  expect((await host().run('sh', ['-c', 'echo "$LC_ALL"'])).stdout).toBe('C\n')
})

test('a tool that prints much is heard while it goes on, in whole characters', async () => {
  const parts: string[] = []
  const script =
    'i=0; while [ $i -lt 3 ]; do head -c 50001 /dev/zero | tr "\\0" x; printf é; i=$((i+1)); done; echo bad >&2; exit 5'
  const ran = await own.run('sh', ['-c', script], { take: (part) => parts.push(part) })
  expect(ran).toEqual({ status: 5, signal: null, code: null, stdout: '', stderr: 'bad\n' })
  expect(parts.join('')).toBe(`${'x'.repeat(50001)}é`.repeat(3))
  expect(parts.length).toBeGreaterThan(3)
})

test('a tool whose output somebody fails over is ended', async () => {
  const fail = () => {
    throw new Error('not what was expected')
  }
  const running = own.run('sh', ['-c', 'seq 20000; sleep 6108'], { take: fail })
  await expect(running).rejects.toThrow('not what was expected')
  await expect.poll(() => spawnSync('pgrep', ['-f', '^sleep 6108$']).status).toBe(1)
})

test('a call that is aborted before it begins starts nothing', async () => {
  const ran = await own.run('sh', ['-c', 'echo run'], { signal: AbortSignal.abort() })
  expect(ran).toEqual({ status: null, signal: 'aborted', code: null, stdout: '', stderr: '' })
})

test.each(hosts)('in %s: a file that may not be run is no tool', async (_, host) => {
  const folder = mkdtempSync(join(tmpdir(), 'tool-'))
  const tool = join(folder, 'tool')
  writeFileSync(tool, '#!/bin/sh\necho run')
  expect(await host().run(tool, [])).toMatchObject({ status: null, code: 'ENOENT' })
  chmodSync(tool, 0o755)
  expect(await host().run(tool, [])).toMatchObject({ status: 0, code: null, stdout: 'run\n' })
  rmSync(folder, { recursive: true })
})

test('a tool is looked for in PATH and nowhere else, and where tools are when there is no PATH', async () => {
  const path = process.env.PATH
  try {
    for (const folders of ['/nowhere', '', 'node_modules/.bin']) {
      process.env.PATH = folders
      expect(await own.run('tc', ['-V'])).toMatchObject({ status: null, code: 'ENOENT' })
      expect(await own.run('vitest', [])).toMatchObject({ status: null, code: 'ENOENT' })
    }
    delete process.env.PATH
    expect(await own.run('tc', ['-V'])).toMatchObject({ status: 0, code: null, stderr: '' })
  } finally {
    process.env.PATH = path
  }
})

test('the arguments reach the tool as they are', async () => {
  const args = ['--help', '--', 'a b', '"', '$HOME', '']
  const { stdout } = await other.run('printf', ['%s|', ...args])
  expect(stdout).toBe(args.map((arg) => `${arg}|`).join(''))
})

function commandLines(): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return [readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()]
      } catch {
        return [] // it has just ended
      }
    })
}
