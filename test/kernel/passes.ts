/** Passes over a test's node, with a Host of the test's making between them and the kernel. */
import { expect } from 'vitest'
import { lockNodeState, ReadError, type Reconciled, type ReconcileOptions, reconcile } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import {
  IFLA_IFNAME,
  IFLA_INFO_KIND,
  IFLA_LINKINFO,
  IFLA_MASTER,
  NLM_F_DUMP,
  NTF_PROXY,
  RTM_GETADDR,
  RTM_GETLINK,
  RTM_GETNEIGH,
  RTM_GETROUTE,
  RTM_GETRULE,
} from '../../src/kernel/linux.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { AttributeReader } from '../../src/kernel/netlink/attribute.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import { ContainerNet } from '../../src/node/net.js'
import { LONGEST_MS } from '../../src/node/numbers.js'
import { type Call, delegate, type RunCall, recording } from '../support/fake-host.js'
import type { TestNode } from '../support/node.js'

export const ACME = 'yah0-6jgfqfdnu6'
export const GLOBEX = 'yah0-91auqknbeu'

/** The node's own machine. The caller closes it. */
export const machine = (node: TestNode): Promise<Host> => openHost({ netns: node.netnsPath })

/** One pass under the lock; the host stays open. */
export async function pass(host: Host, options: ReconcileOptions = {}, net = new ContainerNet()): Promise<Reconciled> {
  await using lock = await lockNodeState(net, { host: { ...delegate(host), close() {} } })
  // However slow the machine: tests know what is asked, and how often.
  return await reconcile(net, lock, { freshMs: LONGEST_MS, ...options })
}

/** The error that ends a pass, which must be one of a read. */
export async function readError(running: Promise<unknown>): Promise<ReadError> {
  const error = await running.then(
    (value) => expect.fail(`the pass came to an end: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  )
  expect(error).toBeInstanceOf(ReadError)
  return error as ReadError
}

/** All that a pass asks, with what it came to. */
export async function recorded(
  host: Host,
  options: ReconcileOptions = {},
): Promise<{ calls: Call[]; swept: Reconciled }> {
  const calls: Call[] = []
  const swept = await pass(recording(host, calls), options)
  return { calls, swept }
}

/** Calls something before each exchange, run and reading of a file: with the requests of the exchange, or none. */
export function hooked(
  host: Host,
  hook: (call: { requests?: readonly Message[]; run?: RunCall }) => Promise<void>,
): Host {
  return {
    ...delegate(host),
    async exchange(bytes, options) {
      await hook({ requests: [...readMessages(bytes)] })
      return host.exchange(bytes, options)
    },
    async run(command, args, options) {
      await hook({ run: { command, args, ...(options?.input === undefined ? {} : { input: options.input }) } })
      return host.run(command, args, options)
    },
  }
}

export const isRequest = (call: Call): call is Message => 'type' in call
export const isRun = (call: Call): call is RunCall => 'command' in call
/** Of rtnetlink the third of each four, RTM_GET…; of netfilter those that are named here. */
export const isRead = ({ type }: Message): boolean => (type < NETFILTER ? type % 4 === 2 : NETFILTER_READS.has(type))
/** The subsystem stands in the upper byte: 1 is conntrack's, 10 nftables' (linux/netfilter/nfnetlink.h). */
const NETFILTER = 0x100
const CONNTRACK_GET = 0x101
const CONNTRACK_GET_STATS = 0x105
const NFT_GETRULE = 0xa07
const NETFILTER_READS: ReadonlySet<number> = new Set([CONNTRACK_GET, CONNTRACK_GET_STATS, NFT_GETRULE])
export const isDump = ({ flags }: Message): boolean => (flags & NLM_F_DUMP) === NLM_F_DUMP
export const isRestore = (call: Call): boolean => isRun(call) && call.command.endsWith('-restore') && !isProbe(call)
/** A batch that asks whether the tool is exact, of which nothing takes effect. */
export const isProbe = ({ input }: RunCall): boolean => input?.includes('-D netsweep-probe ') === true

/** Whether a pass changed anything, as far as it asked for it. */
export const changesOf = (calls: readonly Call[]): Call[] =>
  calls.filter((call) => (isRequest(call) && !isRead(call)) || isRestore(call))

/** The same question asked again has the same: what is asked, without the number in its batch. */
export function question({ type, flags, bytes, payload }: Message): string {
  return `${type} ${flags} ${bytes.toString('hex', payload)}`
}

/** RTM_GETTFILTER (linux/rtnetlink.h) */
export const RTM_GETTFILTER = 46

/**
 * What a person would call the read, told from its bytes alone. Fails for a question that nobody here knows: a new kind of read
 * gets its name here.
 */
export function nameOf(request: Message): string {
  const { bytes, payload, type } = request
  // Of conntrack's there is a family header of four bytes, and no link.
  const index = type < NETFILTER ? bytes.readInt32LE(payload + 4) : 0
  switch (type) {
    case RTM_GETLINK: {
      const found = attributes(request, 16)
      const kind = found.get(IFLA_LINKINFO)
      if (kind !== undefined) {
        const inner = new AttributeReader(kind, 0)
        inner.next()
        expect(inner.type).toBe(IFLA_INFO_KIND)
        return `links of kind ${inner.string()}`
      }
      if (found.has(IFLA_MASTER)) return `ports of link ${found.get(IFLA_MASTER)?.readUInt32LE()}`
      if (found.has(IFLA_IFNAME)) return `link ${text(found.get(IFLA_IFNAME))}`
      return isDump(request) ? 'all links' : `link ${index}`
    }
    case RTM_GETADDR:
      if (index !== 0) return `IPv4 addresses of link ${index}`
      break
    case RTM_GETRULE:
      return 'IPv4 rules'
    case RTM_GETNEIGH:
      if (bytes[payload + 10] === NTF_PROXY) return 'IPv4 proxy neighbours'
      return `IPv4 neighbours of link ${attributes(request, 12).get(8)?.readUInt32LE()}`
    case RTM_GETROUTE: {
      const oif = attributes(request, 12).get(4)?.readUInt32LE()
      return oif === undefined ? 'IPv4 routes of table 254' : `IPv4 routes of table 254 out of link ${oif}`
    }
    case RTM_GETTFILTER:
      return `tc filters of link ${index}`
    case CONNTRACK_GET:
      return 'tracked connections'
    case CONNTRACK_GET_STATS:
      return 'number of tracked connections'
    case NFT_GETRULE: {
      const [table, chain] = [1, 2].map((attribute) => text(attributes(request, 4).get(attribute)))
      return `nft rules of ip ${table} ${chain}`
    }
  }
  return expect.fail(`a read without a name: ${question(request)}`)
}

const text = (bytes: Buffer | undefined): string => bytes?.toString().replace(/\0$/, '') ?? ''

function attributes({ bytes, payload }: Message, header: number): Map<number, Buffer> {
  const reader = new AttributeReader(bytes, payload + header)
  const found = new Map<number, Buffer>()
  while (reader.next()) found.set(reader.type, reader.raw())
  return found
}

/**
 * Three tenants and the singleton: `acct` and `api` run, everybody else has stopped. There is something of every kind that a
 * pass reads or removes on a kernel without tc's flower: dead bridges, a detached one, departed addresses on a bridge that
 * lives, halves of granted pairs, neighbours, a loose pair of veths. Deployed by the oracle.
 */
export async function leftBehind(node: TestNode): Promise<void> {
  const deploy = (workload: string, octet: number, tenant: string, ...allow: string[]) =>
    node.oracle(
      ...['deploy', '--workload', workload, '--addr', `10.128.3.${octet}`, '--tenant', tenant],
      ...['--identity', `${tenant}/prod/${workload}`, ...allow.flatMap((identity) => ['--allow', identity])],
    )
  await deploy('acct', 2, 'singleton')
  await deploy('api', 7, 'acme', 'globex/prod/billing')
  await deploy('old', 8, 'acme', 'globex/prod/billing')
  await deploy('billing', 9, 'globex', 'acme/prod/api')
  await deploy('lone', 11, 'initech')
  await deploy('gone', 12, 'umbrella')
  // A connection that outlives its address, and this test.
  await node.run(`
    sysctl -qw net.netfilter.nf_conntrack_udp_timeout=3600
    echo hello >/dev/udp/10.128.3.8/9`)
  await stop(node, 'old', 8)
  await stop(node, 'billing', 9)
  await stop(node, 'lone', 11)
  await stop(node, 'gone', 12)
  await node.run(`
    ip link del ${UMBRELLA}
    ip link add veth77 type veth peer name vethc77
    ip neigh replace 10.128.3.8 lladdr 02:00:00:00:00:08 dev ${ACME} nud stale
    ip neigh replace 10.128.3.7 lladdr 02:00:00:00:00:07 dev ${ACME} nud stale`)
}

export const INITECH = 'yah0-as5kg51euo'
export const UMBRELLA = 'yah0-1hgp4uo4rl'

/** Stops a workload so that its veth is gone at once. */
export async function stop(node: TestNode, workload: string, octet: number): Promise<void> {
  await node.run(`ip link del veth${octet}; ip netns del ${workload}`)
}
