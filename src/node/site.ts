/** A workload, what is there where it is to be wired, and what forbids it. Reads, and changes nothing. */
import type { Host } from '../kernel/host.js'
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { linkByIndex } from '../kernel/rtnetlink/link.js'
import { type Route, routesTo, routeTakenFirst } from '../kernel/rtnetlink/route.js'
import { inTurns } from '../kernel/turns.js'
import { arpChanges, missingEntries, type Owner } from './arp-path.js'
import { checkArpPath } from './arp-support.js'
import { type Conclusion, conclusionOf, isGateway } from './conclude.js'
import { describeRoute, routeWords, wouldGoFirst } from './describe.js'
import {
  type HostEnds,
  type Inside,
  readHostEnds,
  readInside,
  strangerEnds,
  strangerInside,
  writingBackend,
} from './ends.js'
import { UsageError } from './errors.js'
import type { Identity } from './grants.js'
import { bridgeNames } from './links.js'
import type { ContainerNet } from './net.js'
import { ownHostRoute } from './ownership.js'
import type { Notice } from './plan.js'
import { freshly, readLists } from './read.js'
import type { Subnet } from './subnet.js'
import { recoverSubnet } from './subnet-recovery.js'
import { type NodeView, readNode } from './view.js'
import { heldBack } from './withdraw.js'
import type { Workload } from './workload.js'

/** A workload, and what is there where it is to be wired. */
export interface Site {
  readonly net: ContainerNet
  readonly workload: Workload
  readonly octet: number
  readonly bridge: string
  /** Whether the workload is a tenant's and not the singleton's. */
  readonly isolated: boolean
  readonly owner: Owner
  readonly subnet: Subnet
  readonly view: NodeView
  readonly conclusion: Conclusion
  readonly ends: HostEnds
  /** Null when there is no namespace of its name. */
  readonly inside: Inside | null
  readonly tables: { readonly backend: Backend; readonly save: Save }
}

/** @throws ReadError; UsageError for an address of another node's. */
export async function readSite(host: Host, net: ContainerNet, workload: Workload, signal?: AbortSignal): Promise<Site> {
  const view = await readNode(host, net, { signal })
  const subnet = recoverSubnet(view) ?? net.subnetOf(workload.address)
  const octet = subnet?.workloadOctet(workload.address) ?? null
  if (subnet === null || octet === null)
    throw new UsageError('address', `${workload.address} is not in this node's ${subnet}`, 'is it another node’s?')
  const conclusion = await inTurns(conclusionOf(view, subnet))
  const identify = (identity: string): Identity => ({
    bridge: net.tenantBridge(identity.slice(0, identity.indexOf('/'))),
    mark: net.identityMark(identity),
  })
  const identity = identify(workload.identity)
  const { bridge } = identity
  const ends = await readHostEnds(host, octet, bridge, signal)
  const inside = await readInside(host, conclusion.live, workload.workload, signal)
  const admitted = workload.allow.map(identify)
  return {
    net,
    workload,
    octet,
    bridge,
    isolated: bridge !== net.bridge,
    owner: { identity, admitted },
    subnet,
    view,
    conclusion,
    ends,
    inside,
    tables: writingBackend(net, view, subnet),
  }
}

/**
 * Refuses, before anything is changed, what would take somebody else's. Returns which of the saved rules are disguised, as far as that
 * matters for what has to be withdrawn: once their chains are changed it could not be told any more. @throws UsageError
 */
export async function checkSite(host: Host, site: Site): Promise<ReadonlySet<SavedRule>> {
  const { workload, view, ends, inside, bridge } = site
  if (ends.bridge !== null && !(ends.bridge.kind === 'bridge' && ends.bridge.name === bridge))
    throw new UsageError(
      'tenant',
      `${bridge} is somebody else's: a link of kind ${ends.bridge.kind || 'none'}, ${ends.bridge.name}`,
    )
  const use = foreignUse(site)
  if (use !== null && !use.hasGateway)
    throw new UsageError('tenant', `${bridge} is somebody else's: it has ${use.what}, and no gateway of this node's`)
  const stranger = strangerEnds(ends, view)
  if (stranger !== null) {
    // Somebody took its bridge away.
    const isOwn =
      ends.veth !== null &&
      inside?.hostEnd?.index === ends.veth.index &&
      strangerInside(inside, site.net, site.subnet) === null
    const hint = isOwn ? `it is ${workload.workload}'s own, so: netsweep stop ${workload.workload}` : undefined
    throw new UsageError('address', `${workload.address} cannot be wired: ${stranger}`, hint)
  }
  if (inside !== null) checkNamespace(site, inside)
  const disguised = await checkRemovals(host, site)
  await checkRoute(host, site)
  const { wanted } = arpChanges(view, site.conclusion, workload.address, site.owner)
  await checkArpPath(host, view, isWired(site) ? missingEntries(view, site.conclusion, wanted) : wanted)
  return disguised
}

/** What makes the tenant's bridge foreign, and whether it was wired for all that; null when nothing does. */
function foreignUse({ conclusion, view, bridge, subnet }: Site): { what: string; hasGateway: boolean } | null {
  const what = conclusion.foreign.get(bridge)
  const found = view.links.bridges.find(({ link }) => link.name === bridge)
  if (what === undefined || found === undefined) return null
  return { what, hasGateway: found.addresses.some((address) => isGateway(address, subnet)) }
}

/** A bridge of ours to which somebody added something is used all the same: its tenant's deploys must not fail. */
export function foreignNotice(site: Site): Notice[] {
  const use = foreignUse(site)
  return use === null ? [] : [{ object: `bridge ${site.bridge}`, reason: `foreign: ${use.what}; used all the same` }]
}

/** What of the address has to go must be what would go. */
async function checkRemovals(host: Host, site: Site): Promise<ReadonlySet<SavedRule>> {
  const { workload, view, conclusion } = site
  const { held, disguised } = isWired(site)
    ? { held: heldRoute(site), disguised: new Set<SavedRule>() }
    : await heldBack(host, view, conclusion, workload.address)
  if (held === null) return disguised
  const hint = 'remove what stands before it, or choose another address'
  throw new UsageError('address', `what is left of ${workload.address} cannot be removed: ${held}`, hint)
}

function heldRoute({ view, bridge, ...site }: Site): string | null {
  const names = bridgeNames(view.links)
  const index = view.links.bridges.find(({ link }) => link.name === bridge)?.link.index ?? 0
  let left: readonly Route[] = view.routes
  for (const route of hostRoutes(site, index).wrong) {
    const taken = routeTakenFirst(left, route)
    if (taken !== undefined && taken !== route) {
      const dev = names.get(route.oif) ?? ''
      return `route ${describeRoute(route, dev)}: ${wouldGoFirst(describeRoute(taken, dev))}`
    }
    left = left.filter((other) => other !== route)
  }
  return null
}

/** The route that will be written must have its place free, or one of ours in it. */
async function checkRoute(host: Host, site: Site): Promise<void> {
  const { workload, view, bridge, isolated, subnet } = site
  const { address } = workload
  const index = view.links.bridges.find(({ link }) => link.name === bridge)?.link.index ?? 0
  if (!isolated || (isWired(site) && hostRoutes(site, index).right !== null)) return
  const own = new Set(bridgeNames(view.links).keys())
  const [found] = await freshly(() => readLists(host, [routesTo(address)], { empty: ['ENOENT'] }))
  // What the kernel takes for the same route has the same destination, metric and tos, whatever its type.
  const other = found.find(
    (route) => route.metric === 0 && route.tos === 0 && !('mine' in ownHostRoute(route, subnet, own)),
  )
  if (other === undefined) return
  const indexes = [other.oif, ...other.nextHops.map(({ oif }) => oif)].filter((oif) => oif !== 0)
  const links = await readLists(host, indexes.map(linkByIndex), { absent: ['ENODEV'] })
  const names = new Map(links.flat().map(({ index, name }) => [index, name]))
  const words = routeWords(other, names)
  const reason = `${address} cannot be wired: route ${words} is somebody else's`
  throw new UsageError('address', reason, `if it is to go: ip route del ${words}`)
}

/** The host routes of the address that are there: the one that it should have, out of its bridge, and the others. */
export function hostRoutes(
  { conclusion, isolated, workload }: Pick<Site, 'conclusion' | 'isolated' | 'workload'>,
  bridgeIndex: number,
): { right: Route | null; wrong: readonly Route[] } {
  const there = conclusion.own.hostRoutes.filter(({ mine }) => mine === workload.address).map(({ object }) => object)
  const right = there.find(({ oif }) => isolated && oif === bridgeIndex) ?? null
  return { right, wrong: there.filter((route) => route !== right) }
}

function checkNamespace({ net, subnet, workload, owner, conclusion }: Site, inside: Inside): void {
  const refuse = (reason: string): never => {
    throw new UsageError(
      'workload',
      `namespace ${inside.name} is somebody else's: ${reason}`,
      'choose another name, or remove it',
    )
  }
  const stranger = strangerInside(inside, net, subnet)
  if (stranger !== null) refuse(stranger)
  const { live } = inside
  if (live === null) return
  const own = conclusion.own.tables.chains.filter(({ address }) => address === live.address)
  const identities = own.flatMap(({ identities }) => identities)
  const isSame = identities.some(({ bridge, mark }) => bridge === owner.identity.bridge && mark === owner.identity.mark)
  if (identities.length > 0 && !isSame) refuse(`a workload of another identity runs there at ${live.address}`)
  if (identities.length === 0 && live.address !== workload.address) refuse(`a workload runs there at ${live.address}`)
}

/** Whether the workload runs already, under this identity and in its namespace: then what is right stays. */
export function isWired({ workload, owner, bridge, conclusion, inside }: Site): boolean {
  if (inside?.live?.address !== workload.address || inside.live.bridge.link.name !== bridge) return false
  if (inside.eth0?.name !== 'eth0') return false
  const chains = conclusion.own.tables.chains.filter(({ address }) => address === workload.address)
  return chains.every(({ identities }) =>
    identities.every(({ mark, bridge }) => mark === owner.identity.mark && bridge === owner.identity.bridge),
  )
}
