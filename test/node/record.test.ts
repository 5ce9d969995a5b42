/** The script that would put back what a pass removes; that it does is tried in test/kernel/record.test.ts. */
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { conclude } from '../../src/node/conclude.js'
import { UsageError } from '../../src/node/errors.js'
import { ContainerNet } from '../../src/node/net.js'
import { fileRecorder, undoScript } from '../../src/node/record.js'
import { planSweep } from '../../src/node/sweep.js'
import type { NodeView } from '../../src/node/view.js'
import {
  addressLines,
  bridge,
  bridgeLines,
  bridgeRules,
  filter,
  GLOBEX,
  prohibit,
  proxy,
  reading,
  route,
  SUBNET,
  saved,
  view,
} from './views.js'

const node = bridge('yah0', 3)
const dead = reading([node, bridge(GLOBEX, 5)])
const script = (view: NodeView): string[] => undoScript(view, planSweep(view, conclude(view, SUBNET))).split('\n')
/** Behind the shell functions that it calls. */
const calls = (lines: string[]): string[] => lines.slice(lines.indexOf('') + 1)

test('it says what it is', () => {
  const lines = script(view(dead))
  expect(lines.slice(0, 2)).toEqual(['#!/bin/sh', '# What netsweep removed from 10.128.3.0/24, to be put back.'])
  const there = script({ ...view(dead), net: new ContainerNet({ netns: 'blue' }) })
  expect(there[1]).toBe('# What netsweep removed from 10.128.3.0/24 in network namespace "blue", to be put back.')
})

test('the bridge, with what its deploy gave it', () => {
  expect(calls(script(view(dead)))).toEqual([
    `bridge ${GLOBEX}`,
    `run ip addr replace 10.128.3.1/32 dev ${GLOBEX}`,
    `no_ipv6 ${GLOBEX}`,
    `run sysctl -qw net/ipv4/conf/${GLOBEX}/rp_filter=1`,
    `run ip link set ${GLOBEX} up`,
    '',
  ])
})

test('first what others need: links, rules, routes, tables, proxies and filters', () => {
  const lines = script(
    view(dead, {
      routes: [route('10.128.3.9', 5), route('10.128.3.8', 5, { protocol: 4 })],
      rules: [prohibit(1200, 'yah0', '10.128.3.9/32'), ...bridgeRules(GLOBEX)],
      proxies: [proxy('10.128.3.7', 5)],
      filters: [filter(5, '10.128.3.9', '10.128.3.7')],
      iptables: new Map([['nft' as const, saved({ raw: bridgeLines(GLOBEX).raw })]]),
    }),
  )
  const at = (line: string): number => {
    expect(lines).toContain(line)
    return lines.indexOf(line)
  }
  const order = [
    at(`bridge ${GLOBEX}`),
    at('prohibit 1200 yah0 10.128.3.9/32 0/0x2000000'),
    at(`prohibit 1202 ${GLOBEX} 10.128.3.0/24 0/0x2000000`),
    at(`route 10.128.3.9/32 dev ${GLOBEX} proto boot scope link`),
    at(`route 10.128.3.8/32 dev ${GLOBEX} proto static scope link`),
    at(`rule nft raw ${bridgeLines(GLOBEX).raw[0]?.replace(/^-A/, '-I').replace('!', "'!'")}`),
    at(`run tc qdisc replace dev ${GLOBEX} clsact`),
    at(
      `run tc filter replace dev ${GLOBEX} ingress protocol arp pref 895 handle 0x907 flower arp_op request arp_sip 10.128.3.9 arp_tip 10.128.3.7 action skbedit mark 33554432/33554432`,
    ),
    at(`run sysctl -qw net/ipv4/neigh/${GLOBEX}/proxy_delay=0`),
    at(`run ip neigh replace proxy 10.128.3.7 dev ${GLOBEX}`),
  ]
  expect(order).toEqual([...order].sort((a, b) => a - b))
})

test('what is held is not removed, so it is not put back', () => {
  const ours = prohibit(1202, GLOBEX, '10.128.3.0/24')
  const lines = script(view(dead, { rules: [{ ...ours, mark: 0x2000000 }, ours] }))
  expect(lines.filter((line) => line.startsWith('prohibit 1'))).toEqual([])
})

describe('tables', () => {
  const tables = bridgeLines(GLOBEX)
  const mangle = [...tables.mangle, ...addressLines('10.128.3.9', GLOBEX, 6249)]
  const lines = script(view(dead, { iptables: new Map([['nft' as const, saved({ ...tables, mangle })]]) }))
  const of = (table: string): string[] =>
    lines.flatMap((line) => line.match(`^(?:chain|rule) nft ${table} (.*)$`)?.[1]?.replaceAll("'!'", '!') ?? [])

  test('chains are made before rules jump to them', () => {
    expect(of('mangle').slice(0, 2)).toEqual(['yah-id-10.128.3.9', 'yah-gr-10.128.3.9'])
    expect(of('mangle')).toContain('-I PREROUTING -s 10.128.3.9/32 -j yah-id-10.128.3.9')
    expect(of('mangle')).toContain(
      `-A yah-id-10.128.3.9 -s 10.128.3.9/32 -d 10.128.3.0/24 -i ${GLOBEX} -j MARK --set-xmark 0x1869/0xffff`,
    )
  })

  test('what stood at the top goes there, in its old order; the ACCEPTs go to the end', () => {
    const filter = of('filter')
    expect(filter.filter((line) => line.startsWith('-A'))).toEqual(tables.filter.slice(-2))
    const inserted = filter.filter((line) => line.startsWith('-I FORWARD')).map((line) => line.replace(/^-I/, '-A'))
    const before = tables.filter.filter((line) => line.startsWith('-A FORWARD') && line.includes('yah-isolation'))
    // Each is inserted above the one before it.
    expect(inserted.reverse()).toEqual(before)
  })
})

describe('to a file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'record-'))
  })
  afterAll(async () => {
    await rm(folder, { recursive: true })
  })

  test('each record is added to it; nobody else reads it', async () => {
    const path = join(folder, 'new')
    const recorder = fileRecorder(path)
    await recorder.record('one\n')
    await recorder.record('two\n')
    expect(await readFile(path, 'utf8')).toBe('one\ntwo\n')
    expect((await stat(path)).mode & 0o777).toBe(0o600)
  })

  test('one that is there already is not written over, and one that cannot be made is an error', async () => {
    const path = join(folder, 'old')
    await writeFile(path, 'precious')
    const refused = fileRecorder(path).record('one\n')
    await expect(refused).rejects.toBeInstanceOf(UsageError)
    await expect(refused).rejects.toThrow(/--record: .*old is there already; nothing was removed/)
    expect(await readFile(path, 'utf8')).toBe('precious')
    await expect(fileRecorder(join(folder, 'no/such')).record('x')).rejects.toThrow(/cannot be written: ENOENT/)
  })
})
