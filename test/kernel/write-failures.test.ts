/**
 * Each write made to fail in turn: the report names it, the rest is done all the same, and the next pass finishes the job.
 * Which writes there are is taken from a pass that was recorded, and what is left in the end from one that nobody disturbed.
 */
import { constants } from 'node:os'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Host, Ran } from '../../src/kernel/host.js'
import { RTM_DELLINK, RTM_NEWLINK } from '../../src/kernel/linux.js'
import { NetlinkError } from '../../src/kernel/netlink/errors.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import type { Reconciled, ReconciledStep } from '../../src/node/reconciled.js'
import { call } from '../commands/call.js'
import {
  delegate,
  type ExchangeFault,
  failExchange,
  failRun,
  lost,
  type RunCall,
  refused,
  rejected,
} from '../support/fake-host.js'
import { lines, TestNode } from '../support/node.js'
import {
  ACME,
  GLOBEX,
  hooked,
  INITECH,
  isRead,
  isRequest,
  isRestore,
  leftBehind,
  machine,
  pass,
  recorded,
  stop,
  UMBRELLA,
} from './passes.js'

const { EPERM, EBUSY, ENOENT, ESRCH, ENODEV, EADDRNOTAVAIL, EOPNOTSUPP } = constants.errno

let node: TestNode
/** Two dead bridges go in one step; here they cannot, so that each write is one step's alone. */
let host: Host
let together: Host
/** The oracle's dump with everything left behind, and after an undisturbed sweep. */
let dirty: string[]
let clean: string[]
/** Puts back what a sweep removes, with plain tools. */
let putBack: string
/** Every write of an undisturbed pass. */
let writes: Message[]
let steps: readonly ReconciledStep[]

beforeAll(async () => {
  node = await TestNode.create()
  await leftBehind(node)
  together = await machine(node)
  host = failExchange(together, { of: isOfGroup }, refused(EOPNOTSUPP))
  dirty = await node.dump()
  await node.run('iptables-nft-save >/run/dirty.rules')
  putBack = await undo()
  const { calls, swept } = await recorded(host)
  expect(swept.complete).toBe(true)
  steps = swept.steps
  writes = calls.filter(isRequest).filter((request) => !isRead(request) && !isOfGroup(request))
  clean = await node.dump()
})

beforeEach(async () => {
  await node.run(putBack)
  expect(await node.dump()).toEqual(dirty)
})

afterAll(async () => {
  host.close()
  await node[Symbol.asyncDispose]()
})

/** A script from what ip says, so that it shares nothing with what is tested. */
async function undo(): Promise<string> {
  const rules = lines(await node.run('ip rule show')).filter((line) => /^120\d:/.test(line))
  const proxies = lines(await node.run('ip neigh show proxy'))
  return `
    for bridge in ${GLOBEX} ${INITECH}; do
      ip link show $bridge >/dev/null 2>&1 || {
        ip link add $bridge type bridge; ip addr add 10.128.3.1/32 dev $bridge; ip link set $bridge up; }
    done
    ${rules.map((rule) => `ip rule add priority ${rule.replace(':', '').replace('[detached]', '')} 2>/dev/null || :`).join('\n')}
    ${proxies.map((proxy) => `ip neigh replace proxy ${proxy.replace('proxy', '')}`).join('\n')}
    ip route replace 10.128.3.8 dev ${ACME}; ip route replace 10.128.3.9 dev ${GLOBEX}; ip route replace 10.128.3.11 dev ${INITECH}
    ip neigh replace 10.128.3.8 lladdr 02:00:00:00:00:08 dev ${ACME} nud stale
    echo hello >/dev/udp/10.128.3.8/9
    iptables-nft-restore </run/dirty.rules`
}

const of = ({ steps }: Reconciled, outcome: string) => steps.filter((step) => step.outcome === outcome)
const objects = (steps: readonly ReconciledStep[]) => steps.map(({ object }) => object)

/** Lines of the dump that an undisturbed sweep would have removed. */
async function leftOver(): Promise<string[]> {
  const now = await node.dump()
  // What lives, and what is not ours, is all there.
  expect(now).toEqual(expect.arrayContaining(clean))
  const left = now.filter((line) => !clean.includes(line))
  expect(dirty).toEqual(expect.arrayContaining(left))
  return left
}

/** The next pass, which nobody disturbs, finishes; and there is nothing to do for the one after it. */
async function finished(): Promise<void> {
  expect((await pass(host)).complete).toBe(true)
  expect(await node.dump()).toEqual(clean)
  expect((await pass(host)).steps).toEqual([])
}

/**
 * Neighbours and connections name no departed address: once nothing else of it is left, they stay until they expire, or until
 * something names the address again. Then they go.
 */
async function named({ action, object }: ReconciledStep): Promise<void> {
  const address = /10[.0-9]+/.exec(object)?.[0]
  await node.run(`iptables-nft -t mangle -N yah-id-${address}`)
  const swept = await pass(host)
  expect(swept).toMatchObject({ complete: true, addresses: [address] })
  expect(swept.steps.map((step) => step.action)).toContain(action)
}

/** The nth write of all. */
function failWrite(host: Host, nth: number, fault: ExchangeFault): Host {
  let written = 0
  return failExchange(host, { of: (request) => !isRead(request) && !isOfGroup(request) && written++ === nth }, fault)
}

/** A link put into a group, which is all that a sweep changes of one, or a group deleted. */
function isOfGroup({ type, bytes, payload }: Message): boolean {
  return type === RTM_NEWLINK || (type === RTM_DELLINK && bytes.readInt32LE(payload + 4) === 0)
}

test('an undisturbed pass writes at least one of every kind', async () => {
  await finished()

  const kinds = new Set(steps.map(({ action }) => action))
  for (const kind of [
    'delete-proxy',
    'restore',
    'delete-route',
    'delete-rule',
    'delete-neighbour',
    'delete-conntrack',
    'delete-link',
  ])
    expect(kinds).toContain(kind)
  expect(writes.length).toBeGreaterThanOrEqual(steps.filter(({ action }) => action !== 'restore').length)
  expect(steps.map(({ outcome }) => outcome)).toEqual(Array(steps.length).fill('removed'))
})

describe('a request to the kernel', () => {
  const faults = [
    { code: 'EPERM', fault: refused(EPERM, 'Not yours'), says: /EPERM.*: Not yours$/ },
    { code: 'EBUSY', fault: refused(EBUSY, 'In use elsewhere'), says: /EBUSY.*: In use elsewhere$/ },
  ]
  test.each(faults)('each refused in turn: $code', { timeout: 900_000 }, async ({ code, fault, says }) => {
    const failedObjects: string[] = []
    for (const nth of writes.keys()) {
      if (nth > 0) await node.run(putBack)
      const swept = await pass(failWrite(host, nth, fault))
      const [failed, ...more] = of(swept, 'failed')
      const what = failed?.object ?? ''
      expect(more, what).toEqual([])
      expect(failed, String(nth)).toMatchObject({ error: { code } })
      expect(failed?.error?.message, what).toMatch(says)
      expect(swept.complete, what).toBe(false)
      failedObjects.push(what)
      // A bridge whose rules would not go keeps its link, and nothing else is kept.
      const [bridge] = failed?.action === 'delete-rule' ? (/yah0-\S{10}/.exec(what) ?? []) : []
      const held = bridge !== undefined && bridge !== UMBRELLA ? [`bridge ${bridge}`] : []
      expect(objects(of(swept, 'kept')), what).toEqual(held)
      expect(swept.steps.length).toBe(steps.length)
      const left = await leftOver()
      if (failed?.action === 'delete-rule') {
        const [, priority, to] = /priority (\d+) .* to (\S+)/.exec(what) ?? []
        expect(left, what).toContainEqual(
          expect.stringMatching(`^rule ${priority}:.* to ${to?.replace('/32', '')} .*prohibit$`),
        )
        expect(left.filter((line) => line.startsWith('rule'))).toHaveLength(1)
        expect(left.filter((line) => line.startsWith('link'))).toEqual(
          held.map((name) => `${name.replace('bridge', 'link')}:`),
        )
      } else if (failed?.action === 'delete-link') {
        const name = what.replace('bridge ', '')
        expect(left.sort(), what).toEqual([`addr ${name} 10.128.3.1/32`, `link ${name}:`])
      } else if (what.endsWith(ACME)) {
        // On a bridge that stays: exactly that object. What is on one that goes, goes with it.
        expect(left.length, what).toBe(/^(route|proxy)/.test(what) ? 1 : 0)
      }
      await finished()
      if (failed?.action === 'delete-conntrack' || failed?.action === 'delete-neighbour') await named(failed)
    }
    expect(new Set(failedObjects)).toEqual(new Set(objects(steps.filter(({ action }) => action !== 'restore'))))
  })

  test('already gone, by any of its names, is what was wanted', async () => {
    for (const [i, errno] of [ENOENT, ESRCH, ENODEV, EADDRNOTAVAIL].entries()) {
      if (i > 0) await node.run(putBack)
      const swept = await pass(failExchange(host, { of: (request) => !isRead(request) }, refused(errno)))
      expect(swept.complete).toBe(true)
      expect(of(swept, 'gone').length).toBe(steps.filter(({ action }) => action !== 'restore').length)
      expect(of(swept, 'failed')).toEqual([])
      await finished()
    }
  })

  test('an exchange that does not come to its end: all of it has failed, and the rest goes on', async () => {
    const timeout = new NetlinkError({ operation: 'netlink exchange', code: 'TIMEOUT' })
    let kinds = 0
    for (const fault of [rejected(timeout), lost(timeout)]) {
      for (const action of ['delete-proxy', 'delete-route', 'delete-link']) {
        if (kinds++ > 0) await node.run(putBack)
        const first = objects(steps.filter((step) => step.action !== 'restore')).indexOf(
          steps.find((step) => step.action === action)?.object ?? '',
        )
        const swept = await pass(failWrite(host, first, fault))
        const failed = of(swept, 'failed')
        expect(failed.map(({ error }) => error?.code)).toEqual(Array(failed.length).fill('TIMEOUT'))
        expect(failed.map((step) => step.action)).toContain(action)
        expect(swept.complete).toBe(false)
        expect(of(swept, 'removed').filter((step) => step.action === 'restore')).toHaveLength(
          steps.filter((step) => step.action === 'restore').length,
        )
        await finished()
      }
    }
  })

  test('the command ends with 1 and says what failed', async () => {
    const nth = writes.length - 1
    const openNode = async () => ({ ...failWrite(host, nth, refused(EBUSY, 'In use elsewhere')), close() {} })
    const { status, json } = await call(['sweep', '--json'], { openNode })
    expect(status).toBe(1)
    expect(json()).toMatchObject({
      complete: false,
      steps: expect.arrayContaining([
        expect.objectContaining({
          outcome: 'failed',
          object: `bridge ${INITECH}`,
          error: { code: 'EBUSY', message: expect.stringContaining('In use elsewhere') },
        }),
      ]),
    })
    await node.run(putBack)
    const text = await call(['sweep'], { openNode })
    expect(text.status).toBe(1)
    expect(text.stdout).toMatch(new RegExp(`failed .*bridge ${INITECH}.*EBUSY`))
    await finished()
  })
})

describe('links that go together', () => {
  const isDeletion = (request: Message) => isOfGroup(request) && request.type === RTM_DELLINK
  const timeout = new NetlinkError({ operation: 'netlink exchange', code: 'TIMEOUT' })
  let nth = 0

  test('are deleted by one request, and the links of other groups stay', async () => {
    await node.run(`ip link add other0 type bridge; ip link set other0 group 1073741824`)
    const { calls, swept } = await recorded(together)
    expect(swept.complete).toBe(true)
    expect(calls.filter(isRequest).filter(({ type }) => type === RTM_DELLINK)).toHaveLength(1)
    await node.run('ip link del other0')
    await finished()
  })

  test.each([
    { what: 'the group is not deleted', of: isDeletion, fault: refused(EOPNOTSUPP) },
    { what: 'nobody hears whether it was', of: isDeletion, fault: lost(timeout) },
    { what: 'the request is lost', of: isDeletion, fault: rejected(timeout) },
    {
      what: 'one of them does not get into it',
      of: (request: Message) => isOfGroup(request) && nth++ === 0,
      fault: refused(EPERM),
    },
    { what: 'none gets into it', of: (request: Message) => request.type === RTM_NEWLINK, fault: refused(EPERM) },
  ])('$what: each by itself', async ({ of, fault }) => {
    nth = 0
    const swept = await pass(failExchange(together, { of }, fault))
    expect(swept.complete).toBe(true)
    expect(swept.bridges).toEqual(expect.arrayContaining([GLOBEX, INITECH]))
    await finished()
  })

  test('one that is used again by the time stays alone', async () => {
    await node.run('ip link add tap0 type veth peer name tap1')
    let asked = 0
    const swept = await pass({
      ...delegate(together),
      async bridgePorts(names) {
        // The third time is right before they go.
        if (++asked === 3) await node.run(`ip link set tap0 master ${INITECH}`)
        return together.bridgePorts(names)
      },
    })
    expect(of(swept, 'kept')).toMatchObject([
      { object: `bridge ${INITECH}`, reason: expect.stringContaining('port tap0 came meanwhile') },
    ])
    expect(await node.run('ip -o link show type bridge')).not.toContain(GLOBEX)
    await node.run('ip link del tap0')
    await finished()
  })
})

describe('iptables-restore', () => {
  const ended = (fields: Partial<Ran>): Ran => ({
    status: null,
    signal: null,
    code: null,
    stdout: '',
    stderr: '',
    ...fields,
  })
  const tool = 'iptables-nft-restore'
  const batchOf = (table: string) => (run: RunCall) => isRestore(run) && (run.input ?? '').startsWith(`*${table}\n`)
  const failures: { kind: string; ran: Ran }[] = [
    {
      kind: 'STALE',
      ran: ended({ status: 1, stderr: `${tool}: line 2: Bad rule (does a matching rule exist in that chain?).\n` }),
    },
    {
      kind: 'BUSY',
      ran: ended({ status: 4, stderr: `${tool}: line 9: CHAIN_DEL failed (Device or resource busy): chain x\n` }),
    },
    { kind: 'OTHER', ran: ended({ status: 1, stderr: `${tool}: line 2 failed\n` }) },
    { kind: 'LOCKED', ran: ended({ status: 4, stderr: 'Another app is currently holding the xtables lock.\n' }) },
    { kind: 'DENIED', ran: ended({ status: 4, stderr: 'Permission denied (you must be root)\n' }) },
    { kind: 'KILLED', ran: ended({ signal: 'SIGKILL' }) },
    { kind: 'TIMEOUT', ran: ended({ signal: 'timeout' }) },
  ]

  describe.each(['mangle', 'raw', 'filter'])('of %s', (table) => {
    test.each(failures)('$kind', async ({ kind, ran }) => {
      let runs = 0
      const swept = await pass(
        failRun(host, { of: batchOf(table) }, async () => {
          runs++
          return ran
        }),
      )
      const failed = of(swept, 'failed')
      const own = steps.filter(({ object }) => object.startsWith(`nft ${table}: `))
      expect(objects(failed).sort()).toEqual(objects(own).sort())
      for (const { error } of failed)
        expect(error).toMatchObject({ code: kind, message: expect.stringMatching(/^[^\n]+$/) })
      expect(objects(of(swept, 'kept'))).toEqual([`bridge ${GLOBEX}`, `bridge ${INITECH}`])
      expect(of(swept, 'removed').length + failed.length + 2).toBe(steps.length)
      // Whoever is merely in the way is tried again, and then in pieces; nothing else is.
      expect(runs).toBe(['STALE', 'BUSY', 'OTHER'].includes(kind) ? 4 + (own.length > 1 ? own.length : 0) : 1)
      const left = await leftOver()
      expect(left.filter((line) => !new RegExp(`^${table} `).test(line)).sort()).toEqual(
        [GLOBEX, INITECH].flatMap((name) => [`addr ${name} 10.128.3.1/32`, `link ${name}:`]).sort(),
      )
      await finished()
    })
  })

  test('it is not installed any more', async () => {
    const missing = failRun(host, { of: ({ command }) => command.endsWith('-restore') }, async () =>
      ended({ code: 'ENOENT' }),
    )
    const swept = await pass(missing)
    expect(new Set(of(swept, 'failed').map(({ error }) => error?.code))).toEqual(new Set(['MISSING']))
    expect(of(swept, 'failed').map(({ action }) => action)).toEqual(Array(of(swept, 'failed').length).fill('restore'))
    await finished()
  })

  test('the batch took effect, and nobody was told', async () => {
    const swept = await pass(
      failRun(host, { of: batchOf('mangle') }, async (_, forward) => {
        expect(await forward()).toMatchObject({ status: 0 })
        return ended({ signal: 'SIGKILL' })
      }),
    )
    expect(swept.complete).toBe(false)
    expect((await leftOver()).filter((line) => line.startsWith('mangle'))).toEqual([])
    await finished()
  })

  test('one stuck chain does not keep the rest: the batch is tried in pieces', async () => {
    const stuck = 'yah-id-10.128.3.9'
    const swept = await pass(
      failRun(host, { of: (run) => isRestore(run) && (run.input ?? '').includes(`-X ${stuck}`) }, async () =>
        ended({ status: 4, stderr: `${tool}: line 9: CHAIN_DEL failed (Device or resource busy): chain ${stuck}\n` }),
      ),
    )
    expect(of(swept, 'failed')).toEqual([
      expect.objectContaining({
        object: expect.stringContaining(stuck),
        error: { code: 'BUSY', message: expect.stringContaining(stuck) },
      }),
    ])
    expect(of(swept, 'kept')).toEqual([])
    for (const line of await leftOver()) expect(line).toContain('10.128.3.9')
    await finished()
  })

  test('a restore that fails once is planned again', async () => {
    for (const [i, { kind, ran }] of failures.slice(0, 3).entries()) {
      if (i > 0) await node.run(putBack)
      const swept = await pass(failRun(host, { of: batchOf('mangle'), nth: 1 }, async () => ran))
      expect(swept.complete, kind).toBe(true)
      expect(objects(swept.steps).sort()).toEqual(objects(steps).sort())
      expect(await node.dump()).toEqual(clean)
    }
  })
})

describe('somebody else changes a table between reading and restoring', () => {
  /** Once, right before the batch of that table. */
  const meanwhile = (table: string, change: string, whose = node, host_ = host): Host => {
    let changed = false
    return hooked(host_, async ({ run }) => {
      if (changed || run === undefined || !isRestore(run) || !run.input?.startsWith(`*${table}\n`)) return
      changed = true
      await whose.run(change)
    })
  }

  test.each([
    ['a jump of ours is deleted', 'mangle', 'iptables-nft -t mangle -D PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9'],
    ['a chain of ours is emptied', 'mangle', 'iptables-nft -t mangle -F yah-id-10.128.3.9'],
    ['the whole table is flushed', 'raw', 'iptables-nft -t raw -F'],
    ['an ACCEPT is deleted', 'filter', `iptables-nft -D FORWARD -i ${GLOBEX} -j ACCEPT`],
  ])('%s: it is planned again', async (_, table, change) => {
    const swept = await pass(meanwhile(table, change))
    expect(of(swept, 'failed')).toEqual([])
    expect(swept.complete).toBe(true)
    const now = await node.dump()
    if (table === 'raw') expect(now).toEqual(clean.filter((line) => !line.startsWith('raw')))
    else expect(now).toEqual(clean)
  })

  test('a chain of somebody else’s that jumps to ours is added: ours is kept, and the report names the other', async () => {
    const change = 'iptables-nft -t mangle -N theirs; iptables-nft -t mangle -A theirs -j yah-id-10.128.3.9'
    const swept = await pass(meanwhile('mangle', change))
    expect(of(swept, 'failed')).toEqual([])
    expect(of(swept, 'kept')).toEqual([
      expect.objectContaining({
        object: 'nft mangle: chain yah-id-10.128.3.9',
        reason: expect.stringContaining("held by somebody else's rule: -A theirs -j yah-id-10.128.3.9"),
      }),
    ])
    const now = await node.dump()
    expect(now.filter((line) => !clean.includes(line)).sort()).toEqual([
      'mangle -A theirs -j yah-id-10.128.3.9',
      'mangle :yah-id-10.128.3.9 -',
    ])
    await node.run('iptables-nft -t mangle -F theirs; iptables-nft -t mangle -X theirs')
    await finished()
  })

  test('a workload is deployed there: nothing of it goes', async () => {
    await using other = await TestNode.create()
    await other.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
    await other.oracle('deploy', '--workload', 'old', '--addr', '10.128.3.8', '--tenant', 'acme')
    await stop(other, 'old', 8)
    const own = await machine(other)
    try {
      const redeploy = `
        iptables-nft -t mangle -F yah-id-10.128.3.8
        ip link add veth8 type veth peer name vethc8; ip link set veth8 master ${ACME}`
      const swept = await pass(meanwhile('mangle', redeploy, other, own))
      expect(objects(of(swept, 'removed'))).toEqual([])
      expect(await other.run('iptables-nft-save -t mangle')).toContain(':yah-gr-10.128.3.8 ')
      expect(await other.run('ip link show type bridge')).toContain(ACME)
    } finally {
      own.close()
    }
  })

  test('legacy says no more than a line: it is planned again all the same', async () => {
    await using other = await TestNode.create({ backend: 'legacy' })
    await other.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
    const empty = await other.dump()
    await other.oracle('deploy', '--workload', 'old', '--addr', '10.128.3.8', '--tenant', 'acme')
    await stop(other, 'old', 8)
    const own = await machine(other)
    try {
      const swept = await pass(meanwhile('mangle', 'iptables-legacy -t mangle -F yah-id-10.128.3.8', other, own))
      expect(swept).toMatchObject({ complete: true, addresses: ['10.128.3.8'], bridges: [ACME] })
      expect(await other.dump()).toEqual(empty)
    } finally {
      own.close()
    }
  })

  test('it never stops: after four plans the rest is done, and the batch has failed', async () => {
    let n = 0
    const restless = hooked(host, async ({ run }) => {
      if (run === undefined || !isRestore(run) || !run.input?.startsWith('*mangle\n')) return
      // Whatever the plan names is gone again, and something else of ours is there.
      await node.run(
        `iptables-nft -t mangle -F yah-id-10.128.3.9; iptables-nft -t mangle -A yah-id-10.128.3.9 -s 10.9.9.${++n}`,
      )
    })
    const swept = await pass(restless)
    expect(of(swept, 'failed').map(({ object, error }) => [object, error?.code])).toEqual([
      [expect.stringContaining('yah-id-10.128.3.9'), expect.stringMatching(/^(STALE|OTHER|BUSY)$/)],
    ])
    await finished()
  })
})

describe('the last bridges with the gateway', () => {
  /** Two tenants, nobody on the node bridge, everybody stopped: acme's bridge has the lower name. */
  async function onlyTenants(): Promise<TestNode> {
    const node = await TestNode.create()
    await node.oracle(
      'deploy',
      '--workload',
      'api',
      '--addr',
      '10.128.3.7',
      '--tenant',
      'acme',
      '--allow',
      'globex/x/y',
    )
    await node.oracle('deploy', '--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex')
    await stop(node, 'api', 7)
    await stop(node, 'billing', 9)
    return node
  }
  const bridges = async (node: TestNode) => lines(await node.run("ip -br link show type bridge | cut -d' ' -f1"))
  const outcomes = ({ steps }: Reconciled) =>
    steps.flatMap(({ action, object, outcome }) => (action === 'delete-link' ? [`${object}: ${outcome}`] : []))

  test('go when nothing is kept', async () => {
    await using node = await onlyTenants()
    const host = await machine(node)
    expect((await pass(host)).complete).toBe(true)
    expect(await bridges(node)).toEqual([])
    host.close()
  })

  test('the lowest stays while anything failed, and tells the next pass the /24', async () => {
    await using node = await onlyTenants()
    const host = await machine(node)
    const failing = failExchange(host, { of: (request) => request.type === 33, nth: 1 }, refused(EBUSY))
    const swept = await pass(failing)
    expect(of(swept, 'failed')).toMatchObject([
      { action: 'delete-rule', object: expect.stringContaining('to 10.128.3.7/32') },
    ])
    expect(outcomes(swept)).toEqual([`bridge ${ACME}: kept`, `bridge ${GLOBEX}: removed`])
    expect(of(swept, 'kept')[0]?.reason).toMatch(
      /priority 1200 .* is still there, and no other bridge tells the node's \/24$/,
    )
    expect(await bridges(node)).toEqual([ACME])
    expect(await pass(host)).toMatchObject({ complete: true, subnet: '10.128.3.0/24' })
    expect(await bridges(node)).toEqual([])
    expect(lines(await node.run('ip rule show')).filter((line) => /^120/.test(line))).toEqual([])
    host.close()
  })

  test('the lowest stays while somebody holds a chain', async () => {
    await using node = await onlyTenants()
    const host = await machine(node)
    await node.run('iptables-nft -t mangle -A FORWARD -j yah-gr-10.128.3.9')
    expect(outcomes(await pass(host))).toEqual([`bridge ${ACME}: kept`, `bridge ${GLOBEX}: removed`])
    // And again: nothing has changed.
    const again = await pass(host)
    expect(outcomes(again)).toEqual([`bridge ${ACME}: kept`])
    expect(of(again, 'removed')).toEqual([])
    await node.run('iptables-nft -t mangle -F FORWARD')
    expect((await pass(host)).complete).toBe(true)
    expect(await bridges(node)).toEqual([])
    host.close()
  })

  test('one that stays for its own sake is enough', async () => {
    await using node = await onlyTenants()
    const host = await machine(node)
    const last = (request: Message) =>
      request.type === 33 && request.bytes.includes(GLOBEX) && request.bytes.includes(Buffer.of(100, 64, 0, 0))
    const swept = await pass(failExchange(host, { of: last }, refused(EBUSY)))
    // acme's would be the one to stay for the gateway, but globex's stays anyhow, because its prohibit does.
    expect(outcomes(swept)).toEqual([`bridge ${ACME}: removed`, `bridge ${GLOBEX}: kept`])
    expect(await bridges(node)).toEqual([GLOBEX])
    expect((await pass(host)).complete).toBe(true)
    expect(await bridges(node)).toEqual([])
    host.close()
  })

  test('and so is one whose link would not go', async () => {
    await using node = await onlyTenants()
    const host = await machine(node)
    const swept = await pass(failExchange(host, { of: (request) => request.type === 17, nth: 1 }, refused(EBUSY)))
    expect(of(swept, 'failed')).toMatchObject([{ action: 'delete-link', object: `bridge ${GLOBEX}` }])
    expect(await bridges(node)).toEqual([GLOBEX])
    expect((await pass(host)).complete).toBe(true)
    host.close()
  })
})
