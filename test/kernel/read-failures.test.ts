/**
 * Each read made to fail in turn: the pass changes nothing, and says which read it was. Which reads there are is not written
 * down here: a pass is recorded, and every question of it is failed, in the first reading and in the confirming one.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Host, Ran } from '../../src/kernel/host.js'
import { NLMSG_DONE, NLMSG_HDRLEN, RTM_NEWADDR, RTM_NEWLINK } from '../../src/kernel/linux.js'
import { NetlinkError } from '../../src/kernel/netlink/errors.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import type { ReadError, ReadErrorCode } from '../../src/node/errors.js'
import { exitStatus, failureLine, failureOf, INCONCLUSIVE } from '../../src/report/failure.js'
import { call } from '../commands/call.js'
import {
  type Call,
  closingError,
  cutShort,
  delegate,
  type ExchangeFault,
  failExchange,
  failReadFile,
  failRun,
  interrupted,
  object,
  recording,
  refused,
  rejected,
} from '../support/fake-host.js'
import { TestNode } from '../support/node.js'
import { difference, type Snapshot } from '../support/snapshot.js'
import {
  changesOf,
  INITECH,
  isDump,
  isRead,
  isRequest,
  isRun,
  leftBehind,
  machine,
  nameOf,
  pass,
  question,
  readError,
  recorded,
  UMBRELLA,
} from './passes.js'

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url))
const { EPERM, EINVAL, EIO, ENODEV, ENOENT } = constants.errno

let node: TestNode
let host: Host
let untouched: Snapshot
/** Every question to the kernel, in order. */
let reads: Message[]

beforeAll(async () => {
  node = await TestNode.create()
  await leftBehind(node)
  // A node that holds rules in both back ends, so that both tools are run.
  await node.run('iptables-legacy -t filter -A FORWARD -j ACCEPT')
  host = await machine(node)
  untouched = await node.snapshot()
  const { calls, swept } = await recorded(host, { dryRun: true })
  expect(swept).toMatchObject({ subnet: '10.128.3.0/24', addresses: expect.arrayContaining(['10.128.3.9']) })
  reads = calls.filter(isRequest)
})

afterAll(async () => {
  host.close()
  await node[Symbol.asyncDispose]()
})

/** The pass that fails, which was not a dry run: what it changed, or tried to, is nothing. */
async function failing(host: Host): Promise<ReadError> {
  const calls: Call[] = []
  const error = await readError(pass(recording(host, calls)))
  expect(changesOf(calls)).toEqual([])
  expect(exitStatus(error)).toBe(INCONCLUSIVE)
  const line = failureLine(failureOf(error))
  expect(line).toMatch(/^netsweep: [^\n]+\n$/)
  expect(line).toContain(error.read)
  return error
}

/** The host, whose tools answer as they did once: only what the kernel says matters then. */
async function withToolsReplayed(host: Host): Promise<Host> {
  const answers = new Map<string, Ran>()
  for (const call of (await recorded(host, { dryRun: true })).calls.filter(isRun))
    answers.set(call.command, await host.run(call.command, call.args))
  return {
    ...delegate(host),
    run: async (command) => answers.get(command) ?? expect.fail(`${command} was not run before`),
  }
}

/** The nth question that a pass asks fails, and the same question whenever it is asked again. */
function failRead(host: Host, nth: number, fault: ExchangeFault): Host {
  let asked = 0
  let failed: string | undefined
  const of = (request: Message): boolean => {
    if (asked++ === nth) failed = question(request)
    return question(request) === failed
  }
  return failExchange(host, { of }, fault)
}

/** A message that no read has asked for stands in the answer. */
const rubbish: ExchangeFault = async (request, forward) => [
  object(request, 0xfff, Buffer.alloc(4)),
  ...(await forward()),
]
/** Its own answer, with a first attribute that is longer than the message. */
const malformed: ExchangeFault = async (request, forward) => {
  const answer = await forward()
  const [first, ...rest] = answer
  const type = first?.readUInt16LE(4) ?? NLMSG_DONE
  if (first === undefined || type <= NLMSG_DONE) return rubbish(request, async () => answer)
  const familyHeader = { [RTM_NEWLINK]: 16, [RTM_NEWADDR]: 8 }[type] ?? (type < 0x100 ? 12 : 4)
  const bytes = Buffer.from(first)
  bytes.writeUInt16LE(0xffff, NLMSG_HDRLEN + familyHeader)
  return [bytes, ...rest]
}

interface Kind {
  readonly what: string
  readonly fault: ExchangeFault
  readonly code: ReadErrorCode
  readonly says: RegExp
}

/** For questions of any kind. */
const ANY: readonly Kind[] = [
  { what: 'refused', fault: refused(EPERM), code: 'PRIVILEGE', says: /EPERM/ },
  {
    what: 'refused with the kernel’s words',
    fault: refused(EINVAL, 'Unsupported attribute'),
    code: 'FAILED',
    says: /EINVAL.*: Unsupported attribute$/,
  },
  { what: 'cut short', fault: cutShort, code: 'FAILED', says: /TRUNCATED/ },
  { what: 'not answered', fault: async () => [], code: 'FAILED', says: /TRUNCATED/ },
  { what: 'rubbish', fault: rubbish, code: 'FAILED', says: /MALFORMED/ },
  { what: 'malformed', fault: malformed, code: 'FAILED', says: /MALFORMED/ },
]
/** For lists. */
const LISTS: readonly Kind[] = [
  { what: 'interrupted every time', fault: interrupted, code: 'INTERRUPTED', says: /in each of 5 tries$/ },
  { what: 'ended by an error', fault: closingError(EIO, 'out of luck'), code: 'FAILED', says: /EIO.*: out of luck$/ },
]

/** The 253 questions for host veths by name are all alike: each gets one kind of failure, every other question all of them. */
const isNamedVeth = (request: Message): boolean => /^link veth\d+$/.test(nameOf(request))

async function failEach(host: Host, kind: Kind, cases: readonly number[]): Promise<void> {
  for (const nth of cases) {
    const request = reads[nth] as Message
    const error = await failing(failRead(host, nth, kind.fault))
    const what = `${kind.what}: ${nameOf(request)}`
    expect({ what, read: error.read, code: error.code }).toEqual({ what, read: nameOf(request), code: kind.code })
    expect(error.message, what).toMatch(kind.says)
  }
}

test('a pass asks every kind of question that this file is about, most of them twice', () => {
  const names = reads.map(nameOf)
  const times = (pattern: RegExp): number => names.filter((name) => pattern.test(name)).length
  expect(reads.every(isRead)).toBe(true)
  // What stands on top of a bridge can only be found among all; asked when there is something to remove.
  expect(times(/^all links$/)).toBe(1)
  expect(times(/^link veth\d+$/)).toBe(2 * 253)
  expect(times(/^IPv4 addresses of link/)).toBe(2 * 4)
  expect(times(/^IPv4 rules$/)).toBe(1)
  expect(times(/^IPv4 proxy neighbours$/)).toBe(1)
  expect(times(/^tc filters of link/)).toBe(4)
  expect(times(/^IPv4 routes of table 254 out of link/)).toBe(4)
  expect(times(/^IPv4 neighbours of link/)).toBe(4)
  expect(times(/^(number of )?tracked connections$/)).toBe(2)
  expect(times(/^nft rules of ip \w+ \w+$/)).toBe(4)
  // Whether the bridges are still there; in either reading each of them by its index, and the loose veth's peer.
  expect(times(/^link \d+$/)).toBe(4 + 2 * (4 + 1))
  expect(times(new RegExp(`^link ${UMBRELLA}$`))).toBe(2)
})

describe('questions to the kernel', () => {
  test.each([...ANY, ...LISTS])('$what', async (kind) => {
    const replayed = await withToolsReplayed(host)
    const cases = reads.flatMap((request, nth) => {
      if (LISTS.includes(kind) && !isDump(request)) return []
      // There EINVAL says that the kernel has no nf_conntrack_netlink, and nothing to list.
      if (kind.says.test('EINVAL: Unsupported attribute') && /connections$/.test(nameOf(request))) return []
      return isNamedVeth(request) ? [] : [nth]
    })
    expect(cases.length).toBeGreaterThan(25)
    await failEach(replayed, kind, cases)
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test('each host veth by its name', async () => {
    const replayed = await withToolsReplayed(host)
    const named = reads.flatMap((request, nth) => (isNamedVeth(request) ? [nth] : []))
    for (const [i, kind] of ANY.entries())
      await failEach(
        replayed,
        kind,
        named.filter((_, at) => at % ANY.length === i),
      )
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test('exchanges that do not come to an end, from each question on: the batch is named by its first', async () => {
    const replayed = await withToolsReplayed(host)
    const codes = { TIMEOUT: 'TIMEOUT', TRUNCATED: 'FAILED', ENOBUFS: 'FAILED', EPERM: 'PRIVILEGE' } as const
    const cases = reads.flatMap((request, nth) => (isNamedVeth(request) && nth % 50 > 0 ? [] : [nth]))
    for (const [i, nth] of cases.entries()) {
      const [code, expected] = Object.entries(codes)[i % 4] as ['TIMEOUT', 'TIMEOUT']
      const error = await failing(failRead(replayed, nth, rejected(new NetlinkError({ operation: 'x', code }))))
      expect(error.code, nameOf(reads[nth] as Message)).toBe(expected)
      const names = reads.slice(0, nth + 1).map(nameOf)
      expect(names).toContain(error.read)
      if (code === 'TIMEOUT') expect(error.hint).toMatch(/--timeout/)
    }
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test('what is listed and is gone, every time it is looked at', async () => {
    const replayed = await withToolsReplayed(host)
    const cases = reads.flatMap((request, nth) =>
      /^(IPv4 (addresses|routes)|ports) /.test(nameOf(request)) ? [nth] : [],
    )
    const second = reads.findIndex((request) => nameOf(request).startsWith('IPv4 neighbours'))
    const presence = reads.findLastIndex((request, nth) => nth < second && /^link \d+$/.test(nameOf(request)))
    for (const nth of [...cases, presence]) {
      const error = await failing(failRead(replayed, nth, refused(ENODEV)))
      expect(error).toMatchObject({ read: nameOf(reads[nth] as Message), code: 'INTERRUPTED' })
      expect(error.message).toMatch(/gone meanwhile, in each of 5 tries/)
    }
  })

  test('an error that means "none" for one question means nothing for the others', async () => {
    const replayed = await withToolsReplayed(host)
    for (const [nth, request] of reads.entries()) {
      if (!/^(IPv4 rules|IPv4 proxy|links of kind|tc filters|IPv4 neighbours)/.test(nameOf(request))) continue
      for (const errno of [ENODEV, ENOENT])
        expect(await failing(failRead(replayed, nth, refused(errno)))).toMatchObject({
          read: nameOf(request),
          code: 'FAILED',
        })
    }
  })

  test('a read that is interrupted, and then is not, is a read', async () => {
    const replayed = await withToolsReplayed(host)
    const lists = reads.flatMap((request, nth) => (isDump(request) ? [nth] : []))
    for (const nth of lists.filter((_, i) => i % 3 === 0)) {
      let times = 0
      const once: ExchangeFault = (request, forward) => (times++ === 0 ? interrupted(request, forward) : forward())
      const swept = await pass(failRead(replayed, nth, once), { dryRun: true })
      expect(times).toBeGreaterThan(1)
      expect(swept.bridges).toContain(INITECH)
    }
  })
})

test('many bridges: their routes come in one dump, and that one is not spared either', async () => {
  await using crowded = await TestNode.create()
  await crowded.run(`
    ip link add yah0 type bridge; ip addr add 10.128.3.1/24 dev yah0; ip link set yah0 up
    for digit in 1 2 3 4 5 6; do ip link add yah0-000000000$digit type bridge; done
    ip route add 10.128.3.9 dev yah0`)
  const own = await machine(crowded)
  try {
    const before = await crowded.snapshot()
    const { calls } = await recorded(own, { dryRun: true })
    const asked = calls.filter(isRequest)
    const nth = asked.findIndex((request) => nameOf(request) === 'IPv4 routes of table 254')
    expect(asked.filter((request) => nameOf(request).startsWith('IPv4 routes'))).toHaveLength(1)
    for (const { fault, code } of [...ANY, ...LISTS]) {
      const error = await failing(failRead(own, nth, fault))
      expect(error).toMatchObject({ read: 'IPv4 routes of table 254', code })
    }
    expect(difference(before, await crowded.snapshot())).toEqual([])
  } finally {
    own.close()
  }
})

describe('the bridges, which the bridge module tells', () => {
  const failNames = (host: Host, bridgeNames: Host['bridgeNames']): Host => ({ ...delegate(host), bridgeNames })

  test('not at all', async () => {
    for (const [errno, code] of Object.entries({ EPERM: 'PRIVILEGE', EMFILE: 'FAILED' }))
      for (const nth of [1, 2]) {
        let asked = 0
        const broken = failNames(host, async () => {
          if (++asked === nth) throw Object.assign(new Error(`socket: ${errno}`), { code: errno })
          return host.bridgeNames()
        })
        expect(await failing(broken)).toMatchObject({ read: 'bridges', code })
        expect(asked).toBe(nth)
      }
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test('where it does not tell, all links are walked, to the same end', async () => {
    const told = await pass(host, { dryRun: true })
    const calls: Call[] = []
    const mute = failNames(host, async () => null)
    const walked = await pass(recording(mute, calls), { dryRun: true })
    expect(walked.steps).toEqual(told.steps)
    expect(walked.notices).toEqual(told.notices)
    const walk = calls.filter(isRequest).map(nameOf)
    expect(walk.filter((name) => name === 'links of kind bridge')).toHaveLength(2)
    for (const { fault, code } of [...ANY, ...LISTS])
      for (const nth of [1, 2]) {
        const of = (request: Message): boolean => isRead(request) && nameOf(request) === 'links of kind bridge'
        // What is interrupted is read again: from then on, each time.
        let asked = 0
        const from: ExchangeFault = (request, forward) =>
          ++asked < nth ? forward().then((answer) => [...answer]) : fault(request, forward)
        const error = await failing(failExchange(mute, { of }, from))
        expect(error).toMatchObject({ read: 'links of kind bridge', code })
      }
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test.each([
    { what: 'a bridge renamed', change: `ip link set ${INITECH} name other0`, dead: [] },
    { what: 'a bridge gone', change: `ip link del ${INITECH}`, dead: [] },
    {
      what: 'another kind of link in its place',
      change: `
        index=$(ip -o link show ${INITECH} | cut -d: -f1)
        ip link del ${INITECH}; ip link add ${INITECH} index "$index" type veth peer name other0`,
      dead: [],
    },
    {
      what: 'another bridge of its name',
      change: `ip link del ${INITECH}; ip link add ${INITECH} type bridge`,
      dead: [INITECH],
    },
  ])('$what right after: all is read again', async ({ change, dead }) => {
    await using shaky = await TestNode.create()
    await shaky.run(`
      ip link add yah0 type bridge; ip addr add 10.128.3.1/24 dev yah0; ip link set yah0 up
      ip link add ${INITECH} type bridge`)
    const own = await machine(shaky)
    try {
      let asked = 0
      const swept = await pass(
        failNames(own, async () => {
          const found = await own.bridgeNames()
          if (asked++ === 0) await shaky.run(change)
          return found
        }),
        { dryRun: true },
      )
      expect(asked).toBeGreaterThan(1)
      expect(swept.steps.map(({ object }) => object)).toEqual(dead.map((name) => `bridge ${name}`))
      expect(swept.notices).toEqual([])
    } finally {
      own.close()
    }
  })
})

describe('the ports of tenant bridges, which the bridges tell', () => {
  const failPorts = (host: Host, bridgePorts: Host['bridgePorts']): Host => ({ ...delegate(host), bridgePorts })

  test('not at all', async () => {
    for (const [errno, code] of Object.entries({ EPERM: 'PRIVILEGE', EMFILE: 'FAILED' }))
      for (const nth of [1, 2]) {
        let asked = 0
        const broken = failPorts(host, async (names) => {
          if (++asked === nth) throw Object.assign(new Error(`socket: ${errno}`), { code: errno })
          return host.bridgePorts(names)
        })
        expect(await failing(broken)).toMatchObject({ read: 'ports of the tenant bridges', code })
        expect(asked).toBe(nth)
      }
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test.each([
    { errno: 'ENODEV', code: 'INTERRUPTED', says: /gone meanwhile, in each of 5 tries/ },
    { errno: 'EIO', code: 'FAILED', says: /EIO/ },
  ])('one of them answers $errno', async ({ errno, code, says }) => {
    const broken = failPorts(host, async (names) => (await host.bridgePorts(names)).with(1, { code: errno }))
    const error = await failing(broken)
    expect(error).toMatchObject({ read: expect.stringMatching(/^ports of yah0-/), code })
    expect(error.message).toMatch(says)
    expect(difference(untouched, await node.snapshot())).toEqual([])
  })

  test('where they do not tell, all links are walked for each, to the same end', async () => {
    const told = await pass(host, { dryRun: true })
    const calls: Call[] = []
    const mute = failPorts(host, async (names) => names.map(() => ({ code: 'EOPNOTSUPP' })))
    const walked = await pass(recording(mute, calls), { dryRun: true })
    expect(walked.steps).toEqual(told.steps)
    expect(walked.notices).toEqual(told.notices)
    expect(calls.filter(isRequest).filter((request) => nameOf(request).startsWith('ports of link'))).toHaveLength(2 * 3)
  })

  test.each([
    { what: 'the bridge renamed', change: `ip link set ${INITECH} name other0`, dead: [] },
    { what: 'the port taken off it', change: 'ip link set tap0 nomaster', dead: [INITECH] },
    { what: 'the port gone', change: 'ip link del tap0', dead: [INITECH] },
  ])('$what right after: all is read again', async ({ change, dead }) => {
    await using shaky = await TestNode.create()
    await shaky.run(`
      ip link add yah0 type bridge; ip addr add 10.128.3.1/24 dev yah0; ip link set yah0 up
      ip link add ${INITECH} type bridge; ip link add tap0 type veth peer name tap1; ip link set tap0 master ${INITECH}`)
    const own = await machine(shaky)
    try {
      let asked = 0
      const swept = await pass(
        failPorts(own, async (names) => {
          const found = await own.bridgePorts(names)
          if (asked++ === 0) await shaky.run(change)
          return found
        }),
        { dryRun: true },
      )
      expect(asked).toBeGreaterThan(1)
      expect(swept.steps.map(({ object }) => object)).toEqual(dead.map((name) => `bridge ${name}`))
      expect(swept.notices).toEqual([])
    } finally {
      own.close()
    }
  })
})

describe('iptables-save', () => {
  const ended = (fields: Partial<Ran>): Ran => ({
    status: null,
    signal: null,
    code: null,
    stdout: '',
    stderr: '',
    ...fields,
  })
  const tools = ['iptables-nft-save', 'iptables-legacy-save'] as const

  interface Failure {
    readonly what: string
    readonly ran: Ran
    readonly code: ReadErrorCode
    readonly says: RegExp
  }
  const failures: Failure[] = [
    { what: 'is not installed', ran: ended({ code: 'ENOENT' }), code: 'FAILED', says: /not installed/ },
    { what: 'may not be run', ran: ended({ code: 'EACCES' }), code: 'PRIVILEGE', says: /EACCES/ },
    {
      what: 'lacks privileges',
      ran: ended({
        status: 4,
        stderr: 'Could not fetch rule set generation id: Permission denied (you must be root)\n',
      }),
      code: 'PRIVILEGE',
      says: /you must be root/,
    },
    {
      what: 'fails',
      ran: ended({ status: 1, stderr: 'out of luck\n' }),
      code: 'FAILED',
      says: /status 1: out of luck/,
    },
    { what: 'fails without a word', ran: ended({ status: 3 }), code: 'FAILED', says: /status 3/ },
    { what: 'crashes', ran: ended({ signal: 'SIGSEGV' }), code: 'FAILED', says: /SIGSEGV/ },
    { what: 'is killed', ran: ended({ signal: 'SIGKILL', stdout: '*mangle\n' }), code: 'FAILED', says: /SIGKILL/ },
    { what: 'takes too long', ran: ended({ signal: 'timeout' }), code: 'TIMEOUT', says: /in time/ },
    {
      what: 'prints rubbish',
      ran: ended({ status: 0, stdout: '\x7fELF\x01\x02\0\0' }),
      code: 'FAILED',
      says: /not understood/,
    },
    {
      what: 'prints a usage',
      ran: ended({ status: 0, stdout: 'usage: x [-t table]\n' }),
      code: 'FAILED',
      says: /line 1/,
    },
  ]

  const broken = (host: Host, tool: string, ran: Ran | ((ran: Ran) => Ran)): Host =>
    failRun(
      failRun(host, { of: 'iptables-save' }, async () => ended({ code: 'ENOENT' })),
      { of: tool },
      async (_call, forward) => (typeof ran === 'function' ? ran(await forward()) : ran),
    )

  describe.each(tools)('%s', (tool) => {
    test.each(failures)('$what', async ({ ran, code, says }) => {
      const error = await failing(broken(host, tool, ran))
      expect(error.code).toBe(code)
      expect(error.read).toMatch(new RegExp(`^${tool}( -t \\w+)?$`))
      expect(error.message).toMatch(says)
    })

    test('is cut short, wherever in a table', async () => {
      const { stdout } = await host.run(tool, [])
      const cuts = [...stdout.matchAll(/\n/g)].map(({ index }) => index + 1)
      let inside = 0
      for (const cut of cuts.flatMap((end) => [end - 3, end])) {
        // Between two tables there is nothing missing that could be told from what is not there.
        const open = stdout.slice(0, cut).lastIndexOf('\n*') > stdout.slice(0, cut).lastIndexOf('\nCOMMIT\n')
        if (!open || inside++ % 7 > 0) continue
        const error = await failing(broken(host, tool, (ran) => ({ ...ran, stdout: stdout.slice(0, cut) })))
        expect(error).toMatchObject({ code: 'FAILED', read: expect.stringContaining(tool) })
      }
      expect(inside).toBeGreaterThan(3)
    })

    test('calls one of the tables incompatible', async () => {
      const remark = "# Table `filter' is incompatible, use 'nft' tool.\n"
      const error = await failing(broken(host, tool, (ran) => ({ ...ran, stdout: ran.stdout + remark })))
      expect(error.message).toMatch(/table filter is incompatible/)
    })
  })

  test('the mend names the package, and the option that leaves the back end out', async () => {
    const missing = ended({ code: 'ENOENT' })
    expect((await failing(broken(host, 'iptables-nft-save', missing))).hint).toMatch(
      /package `iptables`.*--iptables legacy/,
    )
    expect((await failing(broken(host, 'iptables-legacy-save', missing))).hint).toMatch(
      /package `iptables`.*--iptables nft/,
    )
  })

  test('one table alone that cannot be read is named', async () => {
    for (const table of ['raw', 'mangle', 'filter']) {
      const only = failRun(
        host,
        { of: ({ command, args }) => command === 'iptables-nft-save' && (args[1] ?? table) === table },
        async () => ended({ status: 1, stderr: 'no\n' }),
      )
      expect((await failing(only)).read).toBe(`iptables-nft-save -t ${table}`)
    }
  })

  test('a legacy table that the kernel lists and the tool does not print', async () => {
    const error = await failing(broken(host, 'iptables-legacy-save', ended({ status: 0 })))
    expect(error).toMatchObject({ code: 'FAILED', read: 'iptables-legacy-save' })
    expect(error.message).toMatch(/table filter, which the kernel lists/)
  })

  test('what nothing here needs stands in nobody’s way: nat that cannot be parsed', async () => {
    const whole = failRun(
      host,
      { of: ({ command, args }) => command === 'iptables-nft-save' && args.length === 0 },
      async () => ended({ status: 3, stderr: 'iptables-save: parser error in nat\n' }),
    )
    expect((await pass(whole, { dryRun: true })).bridges).toContain(INITECH)
    const remark = "# Table `nat' is incompatible, use 'nft' tool.\n"
    const odd = broken(host, 'iptables-nft-save', (ran) => ({ ...ran, stdout: ran.stdout + remark }))
    expect((await pass(odd, { dryRun: true })).bridges).toContain(INITECH)
  })

  describe('the list of legacy tables', () => {
    const coded = (code: string) => Object.assign(new Error(code), { code })
    const list = '/proc/thread-self/net/ip_tables_names'

    test.each([
      ['EACCES', 'PRIVILEGE'],
      ['EPERM', 'PRIVILEGE'],
      ['EIO', 'FAILED'],
    ])('cannot be read: %s', async (code, expected) => {
      const error = await failing(failReadFile(host, { of: list }, rejected(coded(code))))
      expect(error).toMatchObject({ read: list, code: expected, hint: expect.stringContaining('--iptables nft') })
      expect(error.message).toContain(code)
    })

    test('is not there, and nothing else of /proc either', async () => {
      const error = await failing(failReadFile(host, { of: () => true }, rejected(coded('ENOENT'))))
      expect(error).toMatchObject({ read: list, code: 'FAILED' })
    })

    test('is not asked for with --iptables nft', async () => {
      const unreadable = failReadFile(host, { of: () => true }, rejected(coded('EACCES')))
      const { ContainerNet } = await import('../../src/node/net.js')
      const swept = await pass(unreadable, { dryRun: true }, new ContainerNet({ iptables: 'nft' }))
      expect(swept.bridges).toContain(INITECH)
    })
  })
})

describe('the command', () => {
  test('ends with 3 and one line on stderr that names the read, whichever it is', async () => {
    const replayed = await withToolsReplayed(host)
    const seen = new Set<string>()
    for (const [nth, request] of reads.entries()) {
      const kind = nameOf(request).replace(/ (veth)?\d+/g, '')
      if (seen.has(kind)) continue
      seen.add(kind)
      const openNode = async () => ({ ...failRead(replayed, nth, refused(EIO)), close() {} })
      const { status, stdout, stderr } = await call(['sweep'], { openNode })
      expect({ kind, status, stdout }).toEqual({ kind, status: INCONCLUSIVE, stdout: '' })
      expect(stderr).toMatch(/^netsweep: [^\n]+: EIO [^\n]+\n$/)
      expect(stderr).toContain(`netsweep: ${nameOf(request)}: `)
      const json = await call(['sweep', '--json'], { openNode })
      expect(json.status).toBe(INCONCLUSIVE)
      expect(json.json()).toMatchObject({ error: { code: 'FAILED', message: expect.stringContaining('EIO') } })
    }
    expect(seen.size).toBeGreaterThanOrEqual(10)
  })

  /** The command as it was built, where these tools and nothing else of an administrator's are installed. */
  async function withTools(tools: Readonly<Record<string, string | Buffer>>, ...args: string[]) {
    const folder = await mkdtemp(join(tmpdir(), 'tools-'))
    const script = `mount -t tmpfs tmpfs /usr/sbin && PATH=$0 exec "$@"`
    try {
      for (const [name, text] of Object.entries(tools)) await writeFile(join(folder, name), text, { mode: 0o755 })
      return await node.exec('unshare', [
        '--mount',
        'bash',
        '-c',
        script,
        folder,
        process.execPath,
        CLI,
        'sweep',
        ...args,
      ])
    } finally {
      await rm(folder, { recursive: true })
    }
  }

  const nft = 'iptables-nft-save'
  test.each([
    ['not installed', {}, /^netsweep: iptables-nft-save: not installed; install the package `iptables`/],
    ['failing', { [nft]: '#!/bin/sh\necho "out of luck" >&2; exit 1' }, /iptables-nft-save.*status 1: out of luck/],
    ['killed', { [nft]: '#!/bin/sh\nkill -9 $$' }, /iptables-nft-save.*SIGKILL/],
    ['crashing', { [nft]: '#!/bin/sh\nkill -11 $$' }, /iptables-nft-save.*SIGSEGV/],
    ['printing rubbish', { [nft]: '#!/bin/sh\necho hello' }, /iptables-nft-save.*not understood/],
    ['cut short', { [nft]: '#!/bin/sh\necho "*mangle"; echo ":PREROUTING ACCEPT [0:0]"' }, /cut short/],
    [
      'calling a table incompatible',
      { [nft]: "#!/bin/sh\necho \"# Table \\`mangle' is incompatible, use 'nft' tool.\"" },
      /table mangle is incompatible/,
    ],
    ['no program at all', { [nft]: 'hello' }, /iptables-nft-save/],
  ])('iptables-save %s', async (_, tools, says) => {
    const { status, stdout, stderr } = await withTools(tools)
    expect({ status, stdout }).toEqual({ status: INCONCLUSIVE, stdout: '' })
    expect(stderr).toMatch(/^netsweep: [^\n]+\n$/)
    expect(stderr).toMatch(says)
  })

  test('iptables-save that does not end', async () => {
    const { status, stderr } = await withTools({ [nft]: '#!/bin/sh\nwhile :; do :; done' }, '--timeout', '0.5')
    expect(status).toBe(INCONCLUSIVE)
    expect(stderr).toMatch(/^netsweep: iptables-nft-save: did not end in time[^\n]*\n$/)
  })

  test('the legacy tool missing where the kernel lists legacy tables: the mend leaves it out', async () => {
    // By the name that it was given, the program knows which of the tools it is.
    const program = await readFile((await node.run(`readlink -f $(command -v ${nft})`)).trim())
    const tools = { [nft]: program }
    const { status, stderr } = await withTools(tools)
    expect(status).toBe(INCONCLUSIVE)
    expect(stderr).toMatch(/^netsweep: iptables-legacy-save: not installed; .*--iptables nft/)
    expect(await withTools(tools, '--iptables', 'nft', '--dry-run')).toMatchObject({ status: 0, stderr: '' })
  })
})

test('after all of that the node is as it was', async () => {
  expect(difference(untouched, await node.snapshot())).toEqual([])
})
