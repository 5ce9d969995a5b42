import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { readSysctl, writeSysctl } from '../../src/kernel/sysctl.js'
import { type Call, recording } from '../support/fake-host.js'
import { TestNode } from '../support/node.js'

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await node.run('ip link add yah0 type bridge; ip link add a.b type bridge')
  host = await openHost({ netns: node.netnsPath })
})

afterAll(async () => {
  host?.close()
  await node?.[Symbol.asyncDispose]()
})

const conf = (link: string, name: string) => ['net', 'ipv4', 'conf', link, name]
const bySysctl = async (link: string) => (await node.run(`cat /proc/sys/net/ipv4/conf/${link}/rp_filter`)).trim()

test('is read in the namespace of the host', async () => {
  await node.run('sysctl -qw net.ipv4.conf.yah0.rp_filter=2')
  expect(await readSysctl(host, conf('yah0', 'rp_filter'))).toBe('2')
})

test('is written there and nowhere else', async () => {
  const own = await readFile('/proc/sys/net/ipv4/conf/all/src_valid_mark', 'utf8')
  await node.run('sysctl -qw net.ipv4.conf.all.src_valid_mark=0')
  expect(await writeSysctl(host, conf('all', 'src_valid_mark'), '1')).toBe(true)
  expect(await node.run('sysctl -n net.ipv4.conf.all.src_valid_mark')).toBe('1\n')
  expect(await readFile('/proc/sys/net/ipv4/conf/all/src_valid_mark', 'utf8')).toBe(own)
})

test('is not written when it has the value', async () => {
  const calls: Call[] = []
  const watched = recording(host, calls)
  const path = '/proc/sys/net/ipv4/conf/yah0/rp_filter'
  await node.run('sysctl -qw net.ipv4.conf.yah0.rp_filter=0')
  expect(await writeSysctl(watched, conf('yah0', 'rp_filter'), '1')).toBe(true)
  expect(await writeSysctl(watched, conf('yah0', 'rp_filter'), '1')).toBe(false)
  expect(calls).toEqual([{ path }, { path, text: '1' }, { path }])
  expect(await bySysctl('yah0')).toBe('1')
})

test('a link whose name has a dot', async () => {
  expect(await writeSysctl(host, conf('a.b', 'rp_filter'), '1')).toBe(true)
  expect(await bySysctl('a.b')).toBe('1')
})

test('of a link that is gone, and with a value that it does not take', async () => {
  await expect(readSysctl(host, conf('gone', 'rp_filter'))).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(writeSysctl(host, conf('gone', 'rp_filter'), '1')).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(writeSysctl(host, conf('yah0', 'rp_filter'), 'much')).rejects.toMatchObject({ code: 'EINVAL' })
  expect(await bySysctl('yah0')).toBe('1')
})

test.each([['..'], ['.'], [''], ['a/b'], ['a\0b']])('a part that would lead elsewhere: %j', async (part) => {
  await expect(readSysctl(host, ['net', part, 'core'])).rejects.toThrow(RangeError)
  await expect(writeSysctl(host, ['net', part, 'core'], '1')).rejects.toThrow(RangeError)
})
