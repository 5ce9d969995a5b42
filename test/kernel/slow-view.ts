/**
 * The node read the slow and plain way, as a second opinion on the fast one: everything is listed, and what is not meant
 * is dropped here. It shares the decoders with src/node/links.ts and view.ts, and nothing else.
 */
import { expect } from 'vitest'
import { ContainerNet, type ContainerNetOptions } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { AF_INET, NLM_F_DUMP, NLMSG_HDRLEN, RTM_GETADDR, RTM_GETNEIGH } from '../../src/kernel/linux.js'
import { openHost } from '../../src/kernel/linux-host.js'
import { native } from '../../src/kernel/native.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import type { Request } from '../../src/kernel/netlink/request.js'
import { type Address, decodeAddress } from '../../src/kernel/rtnetlink/address.js'
import { allLinks, type Link } from '../../src/kernel/rtnetlink/link.js'
import { decodeNeighbour, type Neighbour, proxies } from '../../src/kernel/rtnetlink/neighbour.js'
import { type Route, routes } from '../../src/kernel/rtnetlink/route.js'
import { allRules } from '../../src/kernel/rtnetlink/rule.js'
import type { Filter } from '../../src/kernel/tc.js'
import type { LinkReading } from '../../src/node/links.js'
import { confirmNode, type NodeView, readNode } from '../../src/node/view.js'
import type { TestNode } from '../support/node.js'
import { RTM_GETTFILTER } from './passes.js'

const MAIN = 254
const UNICAST = 1
const ARP = 0x0806
/** The grants' (docs/sweep.md). */
const PREF = 895
const NUD_NOARP = 0x40
const NUD_PERMANENT = 0x80

type Seen = Pick<NodeView, 'links' | 'routes' | 'rules' | 'proxies' | 'filters'>

/** `named`: names that iptables rules have. */
async function slowly(
  host: Host,
  net: ContainerNet,
  named: ReadonlySet<string>,
): Promise<Seen & { readonly neighbours: readonly Neighbour[] }> {
  const [links, addresses, main, rules, entries, neighbours] = await Promise.all([
    listed(host, allLinks()),
    listed(host, allAddresses),
    listed(host, routes({ table: MAIN })),
    listed(host, allRules()),
    listed(host, proxies()),
    listed(host, allNeighbours),
  ])
  // tc lists the filters of one link and of no more.
  const filters = (await Promise.all(links.map(({ index }) => listed(host, allFilters(index))))).flat()
  const bridges = links.filter(({ kind }) => kind === 'bridge')
  const own = bridges.filter(({ name }) => name === net.bridge || net.isTenantBridge(name))
  const isOwn = (index: number): boolean => own.some((bridge) => bridge.index === index)
  const veths = links.filter(({ kind, name }) => kind === 'veth' && isHostVeth(name))
  const loose = veths.filter(
    ({ master, peerIndex, peerNamespace }) => master === 0 && peerIndex > 0 && peerNamespace < 0,
  )
  const bears = ({ name, altNames }: Link, wanted: string): boolean => name === wanted || altNames.includes(wanted)
  const tenants = [...new Set([...rules.map(({ iif }) => iif), ...named])].filter((name) => net.isTenantBridge(name))
  return {
    links: {
      bridges: own.map((link) => ({
        link,
        tenant: link.name !== net.bridge,
        addresses: addresses.filter(({ index }) => index === link.index),
        ports: link.name === net.bridge ? [] : links.filter(({ master }) => master === link.index),
        uppers: links.filter(
          ({ index, peerIndex, peerNamespace }) =>
            peerIndex === link.index && peerNamespace < 0 && index !== link.index,
        ),
      })),
      veths,
      loosePeers: new Map(
        loose.flatMap(({ index, peerIndex }) =>
          links.filter((link) => link.index === peerIndex).map((link) => [index, link] as const),
        ),
      ),
      otherBridges: new Map(bridges.filter(({ index }) => !isOwn(index)).map(({ index, name }) => [index, name])),
      taken: new Set(
        tenants.filter(
          (name) => !own.some((bridge) => bridge.name === name) && links.some((link) => bears(link, name)),
        ),
      ),
    },
    routes: main.filter(
      (route) =>
        route.type === UNICAST &&
        (isOwn(route.oif) || route.nextHops.some((hop: Route['nextHops'][number]) => isOwn(hop.oif))),
    ),
    rules,
    proxies: entries,
    filters: filters.filter(({ index, pref, protocol }) => isOwn(index) && pref === PREF && protocol === ARP),
    neighbours: neighbours.filter(({ index, proxy }) => isOwn(index) && !proxy),
  }
}

const allAddresses: Request<Address> = {
  what: 'all IPv4 addresses',
  type: RTM_GETADDR,
  flags: NLM_F_DUMP,
  payload: Buffer.from([AF_INET, 0, 0, 0, 0, 0, 0, 0]),
  decode: decodeAddress,
}

const allNeighbours: Request<Neighbour> = {
  what: 'all IPv4 neighbours',
  type: RTM_GETNEIGH,
  flags: NLM_F_DUMP,
  payload: Buffer.from([AF_INET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
  decode: decodeNeighbour,
}

const allFilters = (index: number): Request<Filter> => ({
  what: `all tc filters of link ${index}`,
  type: RTM_GETTFILTER,
  flags: NLM_F_DUMP,
  payload: native().encodeFilterDump(index, 0, 0).subarray(NLMSG_HDRLEN),
  decode: ({ bytes }) => native().decodeFilter(bytes) ?? undefined,
})

async function listed<T>(host: Host, request: Request<T>): Promise<readonly T[]> {
  const [{ items, error, interrupted }] = await ask(host, [request])
  // A fresh namespace has no main table.
  if (error?.code === 'ENOENT') return []
  if (error !== null || interrupted) throw error ?? new Error(`${request.what} was interrupted`)
  return items
}

function isHostVeth(name: string): boolean {
  const octet = Number(name.slice('veth'.length))
  return name === `veth${octet}` && octet >= 2 && octet <= 254
}

/** Fails unless both ways of reading see the same: the first reading, and the one that confirms it. */
export async function sameView(node: TestNode, options: ContainerNetOptions = {}): Promise<void> {
  const host = await openHost({ netns: node.netnsPath })
  try {
    await sameViewOf(host, host, new ContainerNet({ netns: node.netnsPath, ...options }))
  } finally {
    host.close()
  }
}

/** `plain`: the host that the slow way asks. */
export async function sameViewOf(host: Host, plain: Host, net: ContainerNet): Promise<void> {
  const view = await confirmNode(host, await readNode(host, net), [])
  const { neighbours, ...slow } = await slowly(plain, net, wordsOf(view))
  const { bridges } = slow.links
  const first = { ...slow, links: { ...slow.links, bridges: bridges.map(({ uppers, ...bridge }) => bridge) } }
  expect(plainly(view), 'read fast and slow').toEqual(plainly(first))
  // Uppers are looked for when a bridge is empty, and of those alone.
  const isEmpty = bridges.some(({ tenant, ports }) => tenant && ports.length === 0)
  const confirmed = bridges.map(({ uppers = [], ...bridge }) =>
    isEmpty ? { ...bridge, uppers: bridge.tenant && bridge.ports.length === 0 ? uppers : [] } : bridge,
  )
  expect(
    { links: sorted(view.confirmed?.links), neighbours: lasting(view.confirmed?.neighbours ?? []) },
    'read again, fast and slow',
  ).toEqual({ links: sorted({ ...slow.links, bridges: confirmed }), neighbours: lasting(neighbours) })
}

/** Where rules of bridges stand (docs/sweep.md). */
const PLACES = ['raw PREROUTING', 'mangle PREROUTING', 'filter FORWARD', 'filter INPUT']

function wordsOf({ iptables }: NodeView): Set<string> {
  const words = new Set<string>()
  for (const { tables } of iptables.values())
    for (const place of PLACES) {
      const [table = '', chain = ''] = place.split(' ')
      for (const rule of tables.get(table)?.chains.get(chain)?.rules ?? [])
        for (const word of rule.words) words.add(word)
    }
  return words
}

/**
 * What has no order is sorted. Routes have one among those that first leave by the same bridge: what a deletion takes
 * is the first that agrees, in that hop too.
 */
function plainly({ links, routes, rules, proxies, filters }: Seen): object {
  const own = links.bridges.map(({ link }) => link.index)
  const exitOf = ({ oif, nextHops }: Route): number =>
    [oif, ...nextHops.map((hop: Route['nextHops'][number]) => hop.oif)].find((index) => own.includes(index)) ?? 0
  return {
    links: sorted(links),
    routes: routes.map(unmoved).sort((a, b) => exitOf(a) - exitOf(b)),
    rules,
    proxies: [...proxies].sort((a, b) => a.index - b.index || (a.address < b.address ? -1 : 1)),
    filters: [...filters].sort((a, b) => a.index - b.index),
  }
}

/** A route without what the kernel says of its links' carriers: RTNH_F_DEAD, RTNH_F_LINKDOWN (linux/rtnetlink.h). */
function unmoved(route: Route): Route {
  return { ...route, flags: route.flags & ~0x11 }
}

/** Neighbours without what changes by itself, and without the groups that the kernel joins at its own time. */
function lasting(neighbours: readonly Neighbour[]): object[] {
  return neighbours
    .filter(({ address }) => !address.startsWith('224.'))
    .map(({ index, address, state, flags, proxy }) => {
      return { index, address, flags, proxy, fixed: state & (NUD_PERMANENT | NUD_NOARP) }
    })
    .sort((a, b) => a.index - b.index || (a.address < b.address ? -1 : 1))
}

function sorted(links: LinkReading | undefined): object | undefined {
  const byIndex = (a: Link, b: Link): number => a.index - b.index
  return (
    links && {
      ...links,
      veths: links.veths.map(steady).sort(byIndex),
      loosePeers: new Map([...links.loosePeers].map(([index, link]) => [index, steady(link)])),
      bridges: [...links.bridges]
        .sort((a, b) => byIndex(a.link, b.link))
        .map((bridge) => ({
          ...bridge,
          link: steady(bridge.link),
          ports: bridge.ports.map(steady).sort(byIndex),
          ...(bridge.uppers && { uppers: bridge.uppers.map(steady).sort(byIndex) }),
        })),
    }
  )
}

/** A link without what the kernel sees to a moment after somebody set it up: IFF_RUNNING, IFF_LOWER_UP (linux/if.h). */
function steady(link: Link): Link {
  return { ...link, flags: link.flags & ~0x10040 }
}
