/**
 * Which rule or route the kernel takes is predicted before each deletion, and read afterwards: random lists, made by
 * ip(8), deleted one by one in random order. A prediction that is wrong once is somebody else's rule, gone.
 */
import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { deleteRoute, type Route, routes, routeTakenFirst } from '../../src/kernel/rtnetlink/route.js'
import { allRules, deleteRule, ruleTakenFirst } from '../../src/kernel/rtnetlink/rule.js'
import { TestNode } from '../support/node.js'

/** A node of its own for each list: what one leaves behind would be in the way of the next. */
async function onFreshNode(lines: readonly string[], work: (host: Host) => Promise<void>): Promise<void> {
  await using node = await TestNode.create()
  await node.run(`
    for name in br-a br-b; do ip link add $name type bridge; ip link set $name up; done
    ip addr add 10.128.3.1/24 dev br-a
    ip addr add 192.0.2.1/24 dev br-b
    ip nexthop add id 12 via 192.0.2.9 dev br-b
    ip rule add priority 40000 table 1
  `)
  // What cannot be (the same rule twice, a route whose gateway cannot be reached) is passed over.
  const { status, stderr } = await node.tryRun('ip -force -batch -', {
    input: lines.map((line) => `${line}\n`).join(''),
  })
  // A line that ip itself does not understand ends it, and the rest of the list would be missing.
  if (status === 255) throw new Error(stderr)
  const host = await openHost({ netns: node.netnsPath })
  try {
    await work(host)
  } finally {
    host.close()
  }
}

async function listed<T>(host: Host, request: Request<T>): Promise<readonly T[]> {
  const [{ items, error }] = await ask(host, [request])
  if (error !== null) throw error
  return items
}

/**
 * Deletes each of `wanted` that is still listed, in this order. After each, exactly the predicted one has gone; where
 * none was predicted, the kernel refuses and nothing has. Returns how often somebody else went.
 */
async function deleteInTurn<T extends object>(
  host: Host,
  list: () => Promise<readonly T[]>,
  wanted: readonly T[],
  remove: (item: T) => Request<never>,
  takenFirst: (all: readonly T[], item: T) => T | undefined,
): Promise<number> {
  let others = 0
  let all = await list()
  for (const item of wanted) {
    const taken = takenFirst(all, item)
    const [{ error }] = await ask(host, [remove(item)])
    const rest = await list()
    expect(rest).toEqual(all.filter((other) => other !== taken))
    expect(error?.code ?? null).toEqual(taken === undefined ? expect.stringMatching(/ENOENT|ESRCH/) : null)
    if (taken !== undefined && !isDeepStrictEqual(taken, item)) others++
    all = rest
  }
  return others
}

const aRule = fc
  .tuple(
    fc.constantFrom('priority 1202', 'priority 1202', 'priority 1200'),
    // Few selectors at a time, or no two rules would ever agree.
    fc.subarray(
      [
        fc.constant('not'),
        fc.constantFrom('from 192.0.2.0/24', 'from 192.0.2.0/25'),
        fc.constantFrom('to 10.128.3.0/24', 'to 10.128.3.7', 'to 100.64.0.0/10'),
        fc.constantFrom('iif br-a', 'iif br-gone'),
        fc.constant('oif br-b'),
        fc.constantFrom('fwmark 0/0x2000000', 'fwmark 0x2000000/0x2000000', 'fwmark 5', 'fwmark 5/0'),
        fc.constant('tos 0x10'),
        fc.constantFrom('ipproto tcp', 'ipproto udp', 'ipproto tcp sport 10-20', 'ipproto tcp dport 443'),
        fc.constantFrom('uidrange 5-9', 'uidrange 0-4294967294'),
        fc.constantFrom('protocol 4', 'protocol 99'),
        fc.constant('tun_id 77'),
        fc.constant('realms 3/4'),
      ],
      { maxLength: 3 },
    ),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('prohibit') },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          'unreachable',
          'blackhole',
          'nop',
          'goto 40000',
          'table 100',
          'table 1000 suppress_prefixlength 0',
          'table 1000 suppress_ifgroup 3',
        ),
      },
    ),
  )
  .chain(([priority, selectors, action]) =>
    fc.tuple(...selectors).map((words) => `rule add ${words.join(' ')} ${priority} ${action}`),
  )

test('rules', { timeout: 60_000 }, async () => {
  let others = 0
  let deleted = 0
  await fc.assert(
    fc.asyncProperty(fc.array(aRule, { minLength: 20, maxLength: 40 }), fc.infiniteStream(fc.nat()), (lines, dice) =>
      onFreshNode(lines, async (host) => {
        const list = () => listed(host, allRules())
        const mine = (await list()).filter(({ priority }) => priority === 1200 || priority === 1202)
        others += await deleteInTurn(
          host,
          list,
          shuffled(mine, dice),
          (rule) => deleteRule(rule, 'rule'),
          ruleTakenFirst,
        )
        deleted += mine.length
      }),
    ),
    { numRuns: 20, endOnFailure: true },
  )
  expect(deleted).toBeGreaterThan(100)
  // The lists were such that the kernel did take another rule than the one that was meant.
  expect(others).toBeGreaterThan(0)
})

const aRoute = fc
  .tuple(
    fc.constantFrom('append', 'append', 'prepend', 'add'),
    fc.constantFrom('10.128.3.7/32', '10.128.3.7/32', '10.128.3.6/31', 'local 10.128.3.7/32', 'prohibit 10.128.3.7/32'),
    fc.oneof(
      { weight: 3, arbitrary: fc.constant('dev br-a') },
      {
        weight: 2,
        arbitrary: fc.constantFrom(
          'dev br-a scope host',
          'dev br-a scope global',
          'dev br-b',
          'via 192.0.2.9',
          'via 192.0.2.8 dev br-b',
          'nhid 12',
          'scope link nexthop dev br-a nexthop dev br-b',
          'scope link nexthop dev br-b nexthop dev br-a',
        ),
      },
    ),
    fc.subarray(
      [
        fc.constantFrom('metric 100', 'metric 50'),
        fc.constantFrom('proto 4', 'proto 42'),
        fc.constantFrom('src 10.128.3.1', 'src 192.0.2.1'),
        fc.constant('mtu 1300'),
        fc.constant('tos 0x10'),
        fc.constant('table 1000'),
      ],
      { maxLength: 3 },
    ),
  )
  .chain(([how, destination, hops, options]) =>
    // Hops stand last, or ip takes what follows for theirs.
    fc.tuple(...options).map((words) => `route ${how} ${destination} ${words.join(' ')} ${hops}`),
  )

test('routes', { timeout: 60_000 }, async () => {
  let others = 0
  let deleted = 0
  await fc.assert(
    fc.asyncProperty(fc.array(aRoute, { minLength: 20, maxLength: 50 }), fc.infiniteStream(fc.nat()), (lines, dice) =>
      onFreshNode(lines, async (host) => {
        const list = () => allRoutes(host)
        const mine = (await list()).filter(
          ({ destination, prefix }) => /^10\.128\.3\./.test(destination) && prefix !== 24,
        )
        const order = shuffled(mine.filter(isDeletable), dice)
        others += await deleteInTurn(host, list, order, (route) => deleteRoute(route, 'route'), routeTakenFirst)
        deleted += order.length
      }),
    ),
    { numRuns: 20, endOnFailure: true },
  )
  expect(deleted).toBeGreaterThan(60)
  expect(others).toBeGreaterThan(0)
})

async function allRoutes(host: Host): Promise<readonly Route[]> {
  const [main, other] = await ask(host, [routes({ table: 254 }), routes({ table: 1000 })])
  if (main.error !== null) throw main.error
  // A table is not there before its first route.
  if (other.error !== null && other.error.code !== 'ENOENT') throw other.error
  return [...main.items, ...other.items]
}

/** Those that deleteRoute takes; the others stay, and must not go either. */
function isDeletable(route: Route): boolean {
  return (
    route.hops === 1 && route.nexthopId === 0 && route.encapsulation === 0 && !(route.gateway ?? '').startsWith('via')
  )
}

function shuffled<T>(items: readonly T[], dice: Iterator<number>): T[] {
  return items
    .map((item) => ({ item, at: dice.next().value as number }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}
