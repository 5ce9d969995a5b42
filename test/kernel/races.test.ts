/**
 * Somebody changes the node between two calls of a pass: really, with plain tools, at the worst moment. Whatever came to life
 * is left alone, whole.
 */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { Reconciled, ReconcileOptions } from '../../src/index.js'
import { lockNodeState } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import { readLinks } from '../../src/node/links.js'
import { ContainerNet } from '../../src/node/net.js'
import { delegate, type RunCall } from '../support/fake-host.js'
import { lines, TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { ACME, GLOBEX, hooked, isRead, isRestore, machine, nameOf, pass, stop } from './passes.js'

const BILLING = [
  '--workload',
  'billing',
  '--addr',
  '10.128.3.9',
  '--tenant',
  'globex',
  '--identity',
  'globex/prod/billing',
]
const API = ['--workload', 'api', '--addr', '10.128.3.7', '--tenant', 'acme', '--identity', 'acme/prod/api']
const ACCT = ['--workload', 'acct', '--addr', '10.128.3.2']

interface Scene {
  readonly node: TestNode
  readonly host: Host
}

/** acct and api run; billing, whom api admits, has stopped: its bridge is dead. */
async function stopped(scene: (scene: Scene) => Promise<void>): Promise<void> {
  await using node = await TestNode.create()
  await node.oracle('deploy', ...ACCT)
  await node.oracle('deploy', ...BILLING)
  await node.oracle('deploy', ...API, '--allow', 'globex/prod/billing')
  await stop(node, 'billing', 9)
  const host = await machine(node)
  try {
    await scene({ node, host })
  } finally {
    host.close()
  }
}

type Moment = (call: { requests?: readonly Message[]; run?: RunCall }, written: boolean) => boolean

/** When the links are read again, before anything is removed. */
const confirming: Moment = ({ requests = [] }) =>
  requests.some((request) => nameOfRead(request).startsWith('IPv4 neighbours'))
/** When a dead bridge is looked at for the last time. */
const deletingLink: Moment = ({ requests = [] }, written) => written && /^link \d+$/.test(nameOfRead(requests[0]))
const reading =
  (what: RegExp): Moment =>
  ({ requests = [] }) =>
    requests.some((request) => what.test(nameOfRead(request)))

function nameOfRead(request: Message | undefined): string {
  return request !== undefined && isRead(request) ? nameOf(request) : ''
}

/** A pass in which `change` happens once, right before the first call of that moment. */
async function during(
  moment: Moment,
  { node, host }: Scene,
  change: string,
  options?: ReconcileOptions,
): Promise<Reconciled> {
  let happened = false
  let written = false
  const swept = await pass(
    hooked(host, async (call) => {
      written ||= call.requests?.some((request) => !isRead(request)) === true
      if (happened || !moment(call, written)) return
      happened = true
      await node.run(change)
    }),
    options,
  )
  expect(happened, 'the moment came').toBe(true)
  return swept
}

const of = ({ steps }: Reconciled, outcome: string) => steps.filter((step) => step.outcome === outcome)

test('a workload is deployed between the reading of the links and that of iptables: nothing of it goes', () =>
  stopped(async ({ node, host }) => {
    let linksWereRead = (): void => {}
    const linksRead = new Promise<void>((resolve) => {
      linksWereRead = resolve
    })
    let deployed = false
    const slow: Host = {
      ...delegate(host),
      async exchange(requests, options) {
        const answer = await host.exchange(requests, options)
        linksWereRead()
        return answer
      },
      async run(command, args, options) {
        if (!deployed && command === 'iptables-nft-save') {
          await linksRead
          deployed = true
          await node.oracle('deploy', '--workload', 'fresh', '--addr', '10.128.3.12', '--tenant', 'initech')
          await node.oracle('deploy', ...BILLING)
        }
        return host.run(command, args, options)
      },
    }
    const swept = await pass(slow)
    // Everything that was a leftover is in use again, and initech's bridge is not detached but new.
    expect(swept.steps).toEqual([])
    expect(swept.notices).toContainEqual({
      object: 'address 10.128.3.9',
      reason: 'spared: veth9 came while the node was read',
    })
    const before = await node.snapshot()
    expect((await pass(host)).steps).toEqual([])
    expect(difference(before, await node.snapshot())).toEqual([])
    expect(await node.dump()).toEqual(expect.arrayContaining([`link ${GLOBEX}:`, 'mangle :yah-id-10.128.3.12 -']))
  }))

test('the same, with the confirming read: a veth is enslaved right before it', () =>
  stopped(async (scene) => {
    const swept = await during(
      confirming,
      scene,
      `ip link add veth9 type veth peer name vethc9; ip link set veth9 master ${GLOBEX}`,
    )
    expect(swept).toMatchObject({ complete: true, bridges: [], addresses: [], steps: [] })
    expect(swept.notices).toContainEqual(expect.objectContaining({ object: 'address 10.128.3.9' }))
    expect((await scene.node.dump()).filter((line) => line.includes(GLOBEX)).length).toBeGreaterThan(10)
  }))

test('one that comes to life while a busy process decides: it is seen, and left alone', () =>
  stopped(async ({ node, host }) => {
    let exchanges = 0
    const counted = (last: () => void, nth: number): Host => ({
      ...delegate(host),
      async exchange(requests, options) {
        const answer = await host.exchange(requests, options)
        if (++exchanges === nth) last()
        return answer
      },
    })
    await pass(
      counted(() => {}, -1),
      { dryRun: true },
    )
    const reads = exchanges

    // Behind the last read, and before the first turn of deciding on it.
    const wire = `ip link add veth9 type veth peer name vethc9; ip link set veth9 master ${GLOBEX}; sleep 0.2`
    const inNode = ['-t', String(node.pid), '--net', '--mount', '--', 'bash', '-ec', wire]
    exchanges = 0
    const busy = counted(() => setImmediate(() => execFileSync('nsenter', inNode)), reads)
    const swept = await pass(busy, { freshMs: 50 })
    expect(exchanges).toBeGreaterThan(reads)
    expect(swept).toMatchObject({ complete: true, bridges: [], addresses: [], steps: [] })
    expect(swept.notices).toContainEqual(expect.objectContaining({ object: 'address 10.128.3.9' }))
  }))

test('one that went in between was alive in the first reading: it waits for the next pass', () =>
  stopped(async (scene) => {
    const swept = await during(confirming, scene, 'ip link del veth7; ip netns del api')
    expect([...swept.bridges, ...swept.addresses].sort()).toEqual(['10.128.3.9', GLOBEX].sort())
    expect((await scene.node.dump()).filter((line) => line.includes('10.128.3.7')).length).toBeGreaterThan(3)
    expect(await pass(scene.host)).toMatchObject({ complete: true, bridges: [ACME], addresses: ['10.128.3.7'] })
  }))

test('a dead bridge is removed by somebody else between the readings: its rules are the next pass’s', () =>
  stopped(async (scene) => {
    const swept = await during(confirming, scene, `ip link del ${GLOBEX}`)
    expect(swept).toMatchObject({ complete: true, bridges: [] })
    const rules = () => scene.node.run(`ip rule show | grep -c ${GLOBEX} || :`)
    expect(await rules()).toBe('2\n')
    const next = await pass(scene.host)
    expect(next).toMatchObject({ complete: true, bridges: [GLOBEX] })
    expect(next.steps.find(({ action }) => action === 'delete-rule')?.reason).toBe(`bridge ${GLOBEX} does not exist`)
    expect(await rules()).toBe('0\n')
  }))

test('a dead bridge is replaced by another one of its name between the readings', () =>
  stopped(async (scene) => {
    const swept = await during(confirming, scene, `ip link del ${GLOBEX}; ip link add ${GLOBEX} type bridge`)
    expect(swept).toMatchObject({ complete: true, bridges: [] })
    expect(await scene.node.run(`ip -br link show ${GLOBEX}; ip rule show | grep -c ${GLOBEX}`)).toMatch(/\n2\n$/)
  }))

test.each([
  ['links', /^IPv4 addresses of link/],
  ['addresses', /^IPv4 rules/],
  ['rules', /^tc filters/],
  ['filters', /^IPv4 routes/],
  ['routes', /^link \d+$/],
])('a bridge goes after the reading of the %s: the pass reads again, and is no failure', (_, next) =>
  stopped(async (scene) => {
    const swept = await during(reading(next), scene, `ip link del ${GLOBEX}`)
    expect(of(swept, 'failed')).toEqual([])
    expect(swept).toMatchObject({ complete: true, bridges: [GLOBEX], addresses: ['10.128.3.9'] })
    expect(
      (await scene.node.dump()).filter((line) => line.includes(GLOBEX) && !line.includes('yah-gr-10.128.3.7')),
    ).toEqual([])
  }),
)

test.each([
  ['renamed', `ip link set ${GLOBEX} down; ip link set ${GLOBEX} name other0`, 'it is bridge other0 now', 'other0'],
  [
    'given a tap',
    `ip link add tap0 type veth peer name tap1; ip link set tap0 master ${GLOBEX}`,
    'port tap0 came meanwhile',
    GLOBEX,
  ],
  [
    'given a workload',
    `ip link add veth9 type veth peer name vethc9; ip link set veth9 master ${GLOBEX}`,
    'port veth9 came meanwhile',
    GLOBEX,
  ],
  [
    'exchanged for another link with its index',
    `index=$(ip -o link show ${GLOBEX} | cut -d: -f1); ip link del ${GLOBEX}; ip link add name ${GLOBEX} index $index type veth peer name other0`,
    `it is veth ${GLOBEX} now`,
    GLOBEX,
  ],
])('a dead bridge is %s just before its deletion: it stays, and the report says why', (_, change, why, name) =>
  stopped(async (scene) => {
    const swept = await during(deletingLink, scene, change)
    expect(of(swept, 'kept')).toEqual([
      expect.objectContaining({
        action: 'delete-link',
        object: `bridge ${GLOBEX}`,
        reason: expect.stringContaining(why),
      }),
    ])
    expect(swept.complete).toBe(false)
    expect(await scene.node.run(`ip -br link show ${name}`)).toContain(name)
  }),
)

test('a dead bridge is replaced by another one of its name just before its deletion: that one stays', () =>
  stopped(async (scene) => {
    const swept = await during(deletingLink, scene, `ip link del ${GLOBEX}; ip link add ${GLOBEX} type bridge`)
    expect(of(swept, 'gone')).toMatchObject([{ action: 'delete-link', object: `bridge ${GLOBEX}` }])
    expect(swept.complete).toBe(true)
    expect(await scene.node.run(`ip -br link show ${GLOBEX}`)).toContain(GLOBEX)
  }))

test.each([
  ['the first reading alone', reading(/^link veth/), 'ip link del NAME'],
  ['the second reading alone', confirming, ''],
])('another kind of link bears a detached name in %s: its rules stay', (where, moment, undo) =>
  stopped(async (scene) => {
    const { node, host } = scene
    await node.run(`ip link del ${GLOBEX}`)
    const before = await node.dump()
    let there = false
    const swept = await pass(
      hooked(host, async (call) => {
        if (!there && moment(call, false)) {
          there = true
          await node.run(`ip link add ${GLOBEX} type veth peer name other0`)
        } else if (undo !== '' && there && confirming(call, false)) await node.run(undo.replace('NAME', GLOBEX))
      }),
    )
    expect(there, where).toBe(true)
    expect(swept).toMatchObject({ complete: true, bridges: [], addresses: ['10.128.3.9'] })
    // The address's own leftovers went; what names the bridge stays.
    const named = (dump: readonly string[]) =>
      dump.filter((line) => line.includes(GLOBEX) && /^(rule|raw|filter)/.test(line))
    const now = (await node.dump()).map((line) => line.replace(' [detached]', ''))
    expect(named(now)).toEqual(named(before).map((line) => line.replace(' [detached]', '')))
  }),
)

test('a rule that the kernel would take first comes before the rules are read: ours stays, and the other', () =>
  stopped(async (scene) => {
    const at = `priority 1202 iif ${GLOBEX} to 10.128.3.0/24`
    const [theirs, ours] = [`${at} fwmark 0x2000000/0x2000000 prohibit`, `${at} fwmark 0/0x2000000 prohibit`]
    const rules = async () => lines(await scene.node.run(`ip rule show | grep -F 'to 10.128.3.0/24' | grep ${GLOBEX}`))
    const change = `ip rule add ${theirs}; ip rule del ${ours}; ip rule add ${ours}`
    const swept = await during(reading(/^IPv4 rules$/), scene, change)
    expect(of(swept, 'kept')).toEqual([
      expect.objectContaining({ object: ours, reason: expect.stringContaining(`which is not ours: ${theirs}`) }),
      expect.objectContaining({ object: `bridge ${GLOBEX}` }),
    ])
    expect(await rules()).toEqual([
      expect.stringContaining('fwmark 0x2000000/0x2000000'),
      expect.stringContaining('fwmark 0/0x2000000'),
    ])
    // Once theirs is gone, ours goes.
    await scene.node.run(`ip rule del ${theirs}`)
    expect(await pass(scene.host)).toMatchObject({ complete: true, bridges: [GLOBEX] })
  }))

test('a route that the kernel would take first comes before the routes are read: ours stays, and the other', () =>
  stopped(async (scene) => {
    const routes = () => scene.node.run('ip route show 10.128.3.8')
    const change = `ip route add 10.128.3.8 dev ${ACME} src 10.128.3.1; ip route append 10.128.3.8 dev ${ACME}`
    const swept = await during(reading(/^IPv4 routes/), scene, change)
    const both = await routes()
    expect(lines(both)).toHaveLength(2)
    expect(of(swept, 'kept')).toEqual([
      expect.objectContaining({
        object: `route 10.128.3.8/32 dev ${ACME}`,
        reason: expect.stringMatching(/which is not ours: 10\.128\.3\.8\/32 .*src 10\.128\.3\.1/),
      }),
    ])
    await scene.node.run(`ip route del 10.128.3.8 dev ${ACME} src 10.128.3.1`)
    expect(await pass(scene.host)).toMatchObject({ complete: true, addresses: ['10.128.3.8'] })
    expect(await routes()).toBe('')
  }))

test('links come and go all the time: passes find the same, or say that they could not', () =>
  stopped(async ({ node, host }) => {
    const want = await pass(host, { dryRun: true })
    expect(want.steps.length).toBeGreaterThan(10)
    const churn = await node.start('bash', [
      '-c',
      'echo go; while :; do ip link add va type veth peer name vb; ip link add br9 type bridge; ip link del br9; ip link del va; done',
    ])
    await once(churn.stdout, 'data')
    let found = 0
    try {
      for (let i = 0; i < 25; i++) {
        const swept = await pass(host, { dryRun: true }).catch((error: { code?: string }) => error.code)
        if (typeof swept === 'object') {
          expect(swept.steps).toEqual(want.steps)
          found++
        } else expect(swept).toBe('INTERRUPTED')
      }
    } finally {
      churn.kill('SIGKILL')
      await once(churn, 'close')
    }
    expect(found).toBeGreaterThan(0)
  }))

/** So long that a slow machine takes a lock in less. */
const SETTLE = 1500

/** What happens while a pass leaves the node alone: it has let the lock go, so that others can take it. */
async function whileSettling(
  { node, host }: Scene,
  change: () => Promise<unknown>,
  isLate: (call: Parameters<typeof confirming>[0]) => boolean = (call) => confirming(call, false),
): Promise<Reconciled> {
  let decided = (): void => {}
  const firstDecision = new Promise<void>((resolve) => {
    decided = resolve
  })
  let confirmed = 0
  const watched = hooked(host, async (call) => {
    if (isLate(call) && ++confirmed === 1) decided()
  })
  const running = pass(watched, { settleMs: SETTLE })
  await firstDecision
  const started = performance.now()
  const own = await machine(node)
  {
    // Granted as soon as the pass lets go, and long before the settling is over.
    await using lock = await lockNodeState(new ContainerNet(), { host: own })
    expect(lock.held).toBe(true)
    expect(performance.now() - started).toBeLessThan(SETTLE)
    await change()
  }
  const swept = await running
  expect(performance.now() - started).toBeGreaterThan(SETTLE * 0.9)
  return swept
}

test('settling: the lock is free meanwhile; what nobody touches goes after it', () =>
  stopped(async (scene) => {
    const swept = await whileSettling(scene, async () => {})
    expect(swept).toMatchObject({ complete: true, bridges: [GLOBEX], addresses: ['10.128.3.9'] })
    expect((await pass(scene.host)).steps).toEqual([])
  }))

test('settling: what is wired meanwhile is left alone', () =>
  stopped(async (scene) => {
    const swept = await whileSettling(scene, () =>
      scene.node.run(`ip link add veth9 type veth peer name vethc9; ip link set veth9 master ${GLOBEX}`),
    )
    expect(swept.steps).toEqual([])
  }))

test('settling: what is half-made in the second reading alone is being wired', () =>
  stopped(async (scene) => {
    const { node } = scene
    const swept = await whileSettling(scene, () =>
      node.run(`
        ip link add yah0-0123456789 type bridge
        ip rule add priority 1202 iif yah0-0123456789 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
        ip rule add priority 1202 iif yah0-9876543210 to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
        ip route add 10.128.3.12 dev ${ACME}
        iptables-nft -t mangle -N yah-id-10.128.3.13
        ip neigh add proxy 10.128.3.7 dev yah0`),
    )
    expect(swept).toMatchObject({ complete: true, bridges: [GLOBEX], addresses: ['10.128.3.9'] })
    const now = await node.dump()
    for (const line of [
      'link yah0-0123456789:',
      `route 10.128.3.12 dev ${ACME} scope link`,
      'mangle :yah-id-10.128.3.13 -',
      'proxy 10.128.3.7 dev yah0 proxy',
      'rule 1202: from all to 10.128.3.0/24 fwmark 0/0x2000000 iif yah0-0123456789 prohibit',
      'rule 1202: from all to 10.128.3.0/24 fwmark 0/0x2000000 iif yah0-9876543210 [detached] prohibit',
    ])
      expect(now.map((line) => line.replace('\t', ' '))).toContain(line)
    // The next pass, for which none of it is new, takes it.
    expect(await pass(scene.host)).toMatchObject({
      complete: true,
      addresses: ['10.128.3.12', '10.128.3.13'],
      bridges: ['yah0-0123456789', 'yah0-9876543210'],
    })
  }))

test('settling: a gateway that comes meanwhile tells the /24, and not what has been left behind before', () =>
  withNode(async (scene) => {
    const { node } = scene
    await node.run('ip addr del 10.128.3.1/24 dev yah0')
    await node.run('iptables-nft -t mangle -N yah-id-10.128.3.13')
    const swept = await whileSettling(
      scene,
      () =>
        node.run(`
          ip addr add 10.128.3.1/24 dev yah0
          ip link add ${GLOBEX} type bridge
          ip addr add 10.128.3.1/32 dev ${GLOBEX}
          ip rule add priority 1202 iif ${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000 prohibit
          iptables-nft -t mangle -N yah-id-10.128.3.9`),
      // Without a /24 there is no second reading.
      ({ run }) => run?.command === 'iptables-nft-save',
    )
    expect(swept).toMatchObject({ complete: true, bridges: [], addresses: [] })
    const now = await node.dump()
    for (const line of [`link ${GLOBEX}:`, 'mangle :yah-id-10.128.3.9 -', 'mangle :yah-id-10.128.3.13 -'])
      expect(
        now.some((each) => each.startsWith(line)),
        line,
      ).toBe(true)
    // What both readings have found goes, now that the /24 is known.
    expect((await whileSettling(scene, async () => {})).addresses).toEqual(['10.128.3.9', '10.128.3.13'])
  }))

test('settling: a tenant that is being wired meanwhile keeps the reply mark of the mesh', async () => {
  await using node = await TestNode.create()
  await node.oracle('deploy', ...ACCT)
  await node.oracle('deploy', ...BILLING)
  await stop(node, 'billing', 9)
  const host = await machine(node)
  try {
    const swept = await whileSettling({ node, host }, () => node.run(`ip link add ${ACME} type bridge`))
    expect(swept).toMatchObject({ complete: true, bridges: [GLOBEX] })
    const marks = (await node.dump()).filter((line) => /^mangle -A PREROUTING -s 100\.64\.0\.0\/10/.test(line))
    expect(marks).toHaveLength(1)
  } finally {
    host.close()
  }
})

test('settling: somebody else sweeps meanwhile; nothing is left to do', () =>
  stopped(async (scene) => {
    const swept = await whileSettling(scene, () => scene.node.oracle('sweep'))
    expect(swept).toMatchObject({ complete: true, steps: [] })
  }))

test('a sweep that dies between two writes leaves what the next one finds', () =>
  stopped(async ({ node, host }) => {
    const clean = await (async () => {
      await using other = await TestNode.create()
      await other.oracle('deploy', ...ACCT)
      await other.oracle('deploy', ...API, '--allow', 'globex/prod/billing')
      return await other.dump()
    })()
    let survived = 0
    for (let died = true; died; survived++) {
      died = false
      let writes = 0
      const dying = hooked(host, async ({ requests = [], run }) => {
        const isWrite = requests.some((request) => !isRead(request)) || (run !== undefined && isRestore(run))
        died ||= isWrite && writes++ === survived
        // Nothing that it would do after that is done.
        if (died) throw new Error('died')
      })
      await pass(dying).catch(() => null)
    }
    expect(survived).toBeGreaterThan(3)
    expect(await node.dump()).toEqual(clean)
  }))

test('a workload is wired between the reading of the host veths and that of the bridges: nothing of it goes', () =>
  stopped(async ({ node, host }) => {
    const wired = ['--workload', 'fresh', '--addr', '10.128.3.12', '--tenant', 'initech']
    let asked = 0
    const swept = await pass({
      ...delegate(host),
      async bridgeNames() {
        if (asked++ === 0) await node.oracle('deploy', ...wired)
        return host.bridgeNames()
      },
    })
    expect(asked).toBeGreaterThan(1)
    expect(swept).toMatchObject({ complete: true, bridges: [GLOBEX], addresses: ['10.128.3.9'] })
    const after = await node.dump()
    await node.oracle('deploy', ...wired)
    expect(await node.dump()).toEqual(after)
  }))

test('a host veth moves to another bridge when the links were read by name: it is a port of that one', async () => {
  await using node = await TestNode.create()
  await node.oracle('deploy', ...API)
  await node.oracle('deploy', ...BILLING)
  const host = await machine(node)
  try {
    const moving: Host = {
      ...delegate(host),
      async bridgePorts(names) {
        await node.run(`ip link set veth7 master ${GLOBEX}`)
        return host.bridgePorts(names)
      },
    }
    const { bridges } = await readLinks(moving, new ContainerNet(), {})
    const ports = bridges.map(({ link, ports }) => [
      link.name,
      ports.map((port) => [port.name, port.master === link.index]),
    ])
    expect(Object.fromEntries(ports)).toEqual({
      [ACME]: [],
      [GLOBEX]: expect.arrayContaining([
        ['veth7', true],
        ['veth9', true],
      ]),
    })
  } finally {
    host.close()
  }
})

async function withNode(scene: (scene: Scene) => Promise<void>): Promise<void> {
  await using node = await TestNode.create()
  await node.oracle('deploy', ...ACCT)
  const host = await machine(node)
  try {
    await scene({ node, host })
  } finally {
    host.close()
  }
}
