/**
 * Wires one workload. The order makes a kill at any point safe: isolation stands before anything is forwarded; what the
 * address's last owner left is withdrawn while no veth exists; the host veth is made down, everything about its address
 * is asserted, and only then it goes up.
 */
import type { Save, SavedRule } from '../kernel/iptables/save.js'
import type { Link } from '../kernel/rtnetlink/link.js'
import { hostVethName, namespaceName } from './contract.js'
import { WiringError } from './errors.js'
import { refuseInexact } from './exact.js'
import type { NodeStateLock } from './guard.js'
import type { ContainerNet } from './net.js'
import type { Notice } from './plan.js'
import { checkNamespacePrivilege } from './privilege.js'
import { resolverNotice } from './resolver.js'
import { checkSite, foreignNotice, isWired, readSite, type Site } from './site.js'
import { type Progress, undo } from './undo.js'
import { assertAddress } from './wire-address.js'
import { keepLinkAddress, wireBridge } from './wire-bridge.js'
import { deleteVeth, makeVeth, raise, wireInside } from './wire-veth.js'
import { withdraw } from './withdraw.js'
import { checkWorkload } from './workload.js'
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
  await checkNamespacePrivilege()
  const site = await readSite(lock.host, net, workload, options.signal)
  const writer = new Writer(lock.host, options.signal)
  try {
    const disguised = await checkSite(lock.host, site)
    // What it adds is deleted again when it fails on the way.
    await refuseInexact(lock.host, site.tables.backend, 'mangle', options.signal)
    const notices = [...(await resolverNotice(site)), ...foreignNotice(site)]
    await wire(writer, site, disguised)
    return {
      workload: workload.workload,
      address: workload.address,
      subnet: String(site.subnet),
      bridge: site.bridge,
      veth: hostVethName(site.octet),
      namespace: namespaceName(workload.workload),
      changes: writer.done,
      notices: [...notices, ...writer.notices],
      elapsedMs: Math.round((performance.now() - started) * 10) / 10,
    }
  } finally {
    site.inside?.opened.host.close()
  }
}

async function wire(writer: Writer, site: Site, disguised: ReadonlySet<SavedRule>): Promise<void> {
  const progress: Progress = {
    addedNat: false,
    madeBridge: false,
    ownsNamespace: site.inside !== null,
    handedOver: false,
  }
  try {
    const bridge = await wireBridge(writer, site, progress)
    const anew = !isWired(site)
    const save = anew ? await handOver(writer, site, bridge, progress, disguised) : site.tables.save
    await assertAddress(writer, site, bridge, save, anew)
    await wireInside(writer, site)
    await raise(writer, site, bridge)
  } catch (error) {
    const { code = 'FAILED', message } = error as NodeJS.ErrnoException
    // What ran before goes on as it is: a workload whose mending failed is no half-wired one.
    const end = isWired(site) ? halfMended(writer) : await undo(writer.host, site, progress)
    throw new WiringError({
      object: `deploy ${site.workload.workload}`,
      code,
      reason: `${message}; ${end}`,
      hint: error instanceof WiringError ? error.hint : undefined,
      cause: error,
    })
  }
}

function halfMended({ done }: Writer): string {
  return done.length === 0 ? 'what was wired before is as it was' : `it runs on; done before that: ${done.join(', ')}`
}

/**
 * Takes everything of the address's last owner away while no veth exists, then makes namespace and veth anew, down. Returns
 * what the written back end holds of the address then.
 */
async function handOver(
  writer: Writer,
  site: Site,
  bridge: Link,
  progress: Progress,
  disguised: ReadonlySet<SavedRule>,
): Promise<Save> {
  const { ends, inside, view, conclusion, workload, octet, tables } = site
  const veths = [ends.veth, inside?.live?.veth].flatMap((veth) => (veth ? [[veth.index, veth] as const] : []))
  await keepLinkAddress(writer, bridge)
  for (const veth of new Map(veths).values()) {
    await deleteVeth(writer, veth)
    progress.handedOver = true
  }
  progress.handedOver = true
  const left = await withdraw(writer, view, conclusion, workload.address, disguised)
  const name = namespaceName(workload.workload)
  if (inside !== null) await writer.change(`delete namespace ${name}`, () => writer.host.deleteNamespace(name))
  progress.ownsNamespace = false
  await writer.change(`make namespace ${name}`, () => writer.host.createNamespace(name))
  progress.ownsNamespace = true
  await makeVeth(writer, { namespace: name, octet, bridge, mtu: workload.mtu })
  return left.get(tables.backend) ?? { tables: new Map(), incompatible: [] }
}
