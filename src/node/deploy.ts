/**
 * Wires one workload. The order makes a kill at any point safe: isolation stands before anything is forwarded; what the
 * address's last owner left is withdrawn while no veth exists; the host veth is made down, everything about its address
 * is asserted, and only then it goes up.
 */
import type { Host } from '../kernel/host.js'
import type { Save } from '../kernel/iptables/save.js'
import type { Backend } from '../kernel/iptables/tools.js'
import { deleteLink, type Link } from '../kernel/rtnetlink/link.js'
import { arpChanges, missingEntries, type Owner } from './arp-path.js'
import { checkArpPath } from './arp-support.js'
import { type Conclusion, conclude } from './conclude.js'
import { hostVethName, namespaceName } from './contract.js'
import { UsageError, WiringError } from './errors.js'
import type { Identity } from './grants.js'
import type { NodeStateLock } from './guard.js'
import type { ContainerNet } from './net.js'
import type { Notice } from './plan.js'
import { resolverNotice } from './resolver.js'
import type { HostEnds, Inside } from './site.js'
import { readHostEnds, readInside, strangerEnds, strangerInside, writingBackend } from './site.js'
import type { Subnet } from './subnet.js'
import { recoverSubnet } from './subnet-recovery.js'
import { type Progress, undo } from './undo.js'
import { type NodeView, readNode } from './view.js'
import { assertAddress } from './wire-address.js'
import { keepLinkAddress, wireBridge } from './wire-bridge.js'
import { makeVeth, raise, wireInside } from './wire-veth.js'
import { withdraw } from './withdraw.js'
import { checkWorkload, type Workload } from './workload.js'
import { Writer } from './writer.js'

export interface DeployOptions {
  readonly signal?: AbortSignal | undefined
}

/** What a deploy came to. */
export interface Deployed {
  readonly workload: string
  readonly address: string
  readonly subnet: string
  readonly bridge: string
  readonly veth: string
  readonly namespace: string
  /** What was changed, in order; empty when everything was right already. */
  readonly changes: readonly string[]
  readonly notices: readonly Notice[]
  readonly elapsedMs: number
}

/**
 * Wires a workload, or repairs what is not right of one that is wired. `description`: docs/workload.schema.json.
 *
 * @throws UsageError when it is refused, ReadError, GuardError: then nothing was changed.
 * @throws WiringError when it failed on the way and was undone.
 */
export async function deploy(
  net: ContainerNet,
  lock: NodeStateLock,
  description: unknown,
  options: DeployOptions = {},
): Promise<Deployed> {
  const started = performance.now()
  lock.assertGuards(net)
  const workload = checkWorkload(net, description)
  const site = await readSite(lock.host, net, workload, options.signal)
  const writer = new Writer(lock.host, options.signal)
  try {
    await checkSite(lock.host, site)
    const notices = await resolverNotice(site)
    await wire(writer, site)
    return {
      workload: workload.workload,
      address: workload.address,
      subnet: String(site.subnet),
      bridge: site.bridge,
      veth: hostVethName(site.octet),
      namespace: namespaceName(workload.workload),
      changes: writer.done,
      notices,
      elapsedMs: Math.round((performance.now() - started) * 10) / 10,
    }
  } finally {
    site.inside?.opened.host.close()
  }
}

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

async function readSite(host: Host, net: ContainerNet, workload: Workload, signal?: AbortSignal): Promise<Site> {
  const view = await readNode(host, net, { signal })
  const subnet = recoverSubnet(view) ?? net.subnetOf(workload.address)
  const octet = subnet?.workloadOctet(workload.address) ?? null
  if (subnet === null || octet === null)
    throw new UsageError('address', `${workload.address} is not in this node's ${subnet}`, 'is it another node’s?')
  const conclusion = conclude(view, subnet)
  const identify = (identity: string): Identity => ({
    bridge: net.tenantBridge(identity.slice(0, identity.indexOf('/'))),
    mark: net.identityMark(identity),
  })
  const identity = identify(workload.identity)
  const { bridge } = identity
  const ends = await readHostEnds(host, octet, bridge, signal)
  const inside = await readInside(host, conclusion.live, workload.workload, signal)
  // A peer on the workload's own bridge needs no grant and gets none.
  const admitted = workload.allow.map(identify).filter((peer) => peer.bridge !== bridge)
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

/** Refuses, before anything is changed, what would take somebody else's. */
async function checkSite(host: Host, site: Site): Promise<void> {
  const { workload, view, ends, inside, bridge } = site
  if (ends.bridge !== null && !(ends.bridge.kind === 'bridge' && ends.bridge.name === bridge))
    throw new UsageError(
      'tenant',
      `${bridge} is somebody else's: a link of kind ${ends.bridge.kind || 'none'}, ${ends.bridge.name}`,
    )
  const stranger = strangerEnds(ends, view)
  if (stranger !== null) {
    // Somebody took its bridge away.
    const isOwn = ends.veth !== null && inside?.hostEnd?.index === ends.veth.index
    const hint = isOwn ? `it is ${workload.workload}'s own, so: netsweep stop ${workload.workload}` : undefined
    throw new UsageError('address', `${workload.address} cannot be wired: ${stranger}`, hint)
  }
  if (inside !== null) checkNamespace(site, inside)
  const { wanted } = arpChanges(view, site.conclusion, workload.address, site.owner)
  await checkArpPath(host, view, isWired(site) ? missingEntries(view, site.conclusion, wanted) : wanted)
}

function checkNamespace({ workload, owner, conclusion }: Site, inside: Inside): void {
  const refuse = (reason: string): never => {
    throw new UsageError(
      'workload',
      `namespace ${inside.name} is somebody else's: ${reason}`,
      'choose another name, or remove it',
    )
  }
  const stranger = strangerInside(inside)
  if (stranger !== null) refuse(stranger)
  const { live } = inside
  if (live === null) return
  const own = conclusion.own.tables.chains.filter(({ address }) => address === live.address)
  const identities = own.flatMap(({ identities }) => identities)
  const isSame = identities.some(({ bridge, mark }) => bridge === owner.identity.bridge && mark === owner.identity.mark)
  if (identities.length > 0 && !isSame) refuse(`a workload of another identity runs there at ${live.address}`)
  if (identities.length === 0 && live.address !== workload.address) refuse(`a workload runs there at ${live.address}`)
}

async function wire(writer: Writer, site: Site): Promise<void> {
  const progress: Progress = { addedNat: false, handedOver: false }
  try {
    const bridge = await wireBridge(writer, site, progress)
    const anew = !isWired(site)
    const save = anew ? await handOver(writer, site, bridge, progress) : site.tables.save
    await assertAddress(writer, site, bridge, save, anew)
    await wireInside(writer, site)
    await raise(writer, site)
  } catch (error) {
    const { code = 'FAILED', message } = error as NodeJS.ErrnoException
    // What ran before goes on as it is: a workload whose mending failed is no half-wired one.
    const end = isWired(site) ? 'what was wired before is as it was' : await undo(writer.host, site, progress)
    throw new WiringError({
      object: `deploy ${site.workload.workload}`,
      code,
      reason: `${message}; ${end}`,
      cause: error,
    })
  }
}

/** Whether the workload runs already, under this identity and in its namespace: then what is right stays. */
function isWired({ workload, owner, bridge, conclusion, inside }: Site): boolean {
  if (inside?.live?.address !== workload.address || inside.live.bridge.link.name !== bridge) return false
  if (inside.eth0?.name !== 'eth0') return false
  const chains = conclusion.own.tables.chains.filter(({ address }) => address === workload.address)
  return chains.every(({ identities }) =>
    identities.every(({ mark, bridge }) => mark === owner.identity.mark && bridge === owner.identity.bridge),
  )
}

/**
 * Takes everything of the address's last owner away while no veth exists, then makes namespace and veth anew, down. Returns
 * what the written back end holds of the address then.
 */
async function handOver(writer: Writer, site: Site, bridge: Link, progress: Progress): Promise<Save> {
  const { ends, inside, view, conclusion, workload, octet, tables } = site
  const veths = new Set(
    [ends.veth, inside?.live?.veth].flatMap((veth) => (veth ? [veth] : [])).map(({ index }) => index),
  )
  await keepLinkAddress(writer, bridge)
  for (const index of veths) {
    await writer.requests([deleteLink(index, `delete veth ${index}`)], ['ENODEV'])
    progress.handedOver = true
  }
  progress.handedOver = true
  const left = await withdraw(writer, view, conclusion, workload.address)
  const name = namespaceName(workload.workload)
  if (inside !== null) await writer.change(`delete namespace ${name}`, () => writer.host.deleteNamespace(name))
  await writer.change(`make namespace ${name}`, () => writer.host.createNamespace(name))
  await makeVeth(writer, { namespace: name, octet, bridge, mtu: workload.mtu })
  return left.get(tables.backend) ?? { tables: new Map(), incompatible: [] }
}
