/** Undoes a deploy that failed: no half-wired workload stays, and nothing that it alone brought. */
import type { Host } from '../kernel/host.js'
import type { Link } from '../kernel/rtnetlink/link.js'
import { inTurns } from '../kernel/turns.js'
import { applyPlan } from './apply.js'
import { type Conclusion, conclusionOf } from './conclude.js'
import { namespaceName } from './contract.js'
import { deleteLinks } from './delete-links.js'
import { readHostEnds } from './ends.js'
import { acceptRules, natRule } from './isolation.js'
import type { Site } from './site.js'
import { planSweep } from './sweep.js'
import { type NodeView, readNode } from './view.js'
import { deleteVeth } from './wire-veth.js'
import { readDisguisedIn, withdraw } from './withdraw.js'
import { Writer } from './writer.js'

/** How far a deploy came before it failed. */
export interface Progress {
  /** The rule that gives the node's address to what leaves the /24 was not there before. */
  addedNat: boolean
  /** The bridge is this deploy's own making. */
  madeBridge: boolean
  /** What bears the namespace's name is the last owner's, or this deploy's making. */
  ownsNamespace: boolean
  /** From here on the address and the namespace are the new owner's: the last one's are gone. */
  handedOver: boolean
}

/** Never rejects: what it came to, in a person's words. Not cancelled with the deploy. */
export async function undo(host: Host, site: Site, progress: Progress): Promise<string> {
  const writer = new Writer(host)
  try {
    if (progress.handedOver) await removeEnds(writer, site, progress)
    const view = await readNode(host, site.net)
    const conclusion = await inTurns(conclusionOf(view, site.subnet))
    if (progress.handedOver) {
      const disguised = await readDisguisedIn(host, view)
      await withdraw(writer, view, conclusion, site.workload.address, disguised)
    }
    if (progress.addedNat)
      await writer.batches(site.tables.backend, new Map([['nat', [['-D', 'POSTROUTING', ...natRule(site.subnet)]]]]))
    const isNew = !site.view.links.bridges.some(({ link }) => link.name === site.bridge)
    const left = isNew ? await removeBridge(writer, site, progress, view, conclusion) : null
    return left === null ? 'it was undone' : `undoing it left ${left}`
  } catch (error) {
    return `undoing it failed (${error instanceof Error ? error.message : String(error)}): run netsweep sweep`
  }
}

async function removeEnds(writer: Writer, { octet, bridge, workload }: Site, progress: Progress): Promise<void> {
  const ends = await readHostEnds(writer.host, octet, bridge)
  // Somebody may have taken the names meanwhile, which is why it failed.
  if (ends.veth !== null && ends.veth.kind === 'veth' && ends.veth.master === ends.bridge?.index)
    await deleteVeth(writer, ends.veth)
  if (!progress.ownsNamespace) return
  try {
    await writer.host.deleteNamespace(namespaceName(workload.workload))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

/** The bridge that this deploy made, or was about to, with all that names it. Returns what stayed; null: nothing. */
async function removeBridge(
  writer: Writer,
  { net, bridge, isolated, tables }: Site,
  { madeBridge }: Progress,
  view: NodeView,
  conclusion: Conclusion,
): Promise<string | null> {
  if (!isolated) {
    const made = view.links.bridges.find(({ link }) => link.name === net.bridge)
    if (made !== undefined && !(madeBridge && (await removeUnused(writer, made.link)))) return inUse(bridge)
    const filter = view.iptables.get(tables.backend)?.tables.get('filter')
    const rules = acceptRules(bridge).flatMap(({ chain, words }) =>
      (filter?.chains.get(chain)?.rules ?? []).filter((rule) => rule.words.join(' ') === words.join(' ')),
    )
    const commands = rules.map(({ chain, words }) => ['-D', chain, ...words])
    await writer.batches(tables.backend, new Map([['filter', commands]]))
    return null
  }
  const dead = conclusion.dead.filter(({ link }) => madeBridge && link.name === bridge)
  const detached = conclusion.detached.filter((name) => name === bridge)
  const nothingElse = { departed: [], unwantedProxies: [], unwantedFilters: [] }
  const meshMarkDetached = conclusion.meshMarkDetached && dead.length + detached.length > 0
  const plan = planSweep(view, { ...conclusion, ...nothingElse, dead, detached, meshMarkDetached })
  if (dead.length === 0 && view.links.bridges.some(({ link }) => link.name === bridge)) return inUse(bridge)
  const { results } = await applyPlan(writer.host, { ...plan, gatewayStays: true }, { mayReplan: false })
  const left = results.find(({ outcome }) => outcome === 'failed' || outcome === 'kept')
  return left === undefined ? null : `${left.step.object}: run netsweep sweep`
}

const inUse = (bridge: string): string => `bridge ${bridge}, which somebody else made or uses`

/** False when somebody uses it by now, or it is another link. */
async function removeUnused(writer: Writer, link: Link): Promise<boolean> {
  const doomed = { link, object: `bridge ${link.name}` }
  const deleted = (await deleteLinks(writer.host, [doomed], {})).get(doomed)
  if (deleted?.outcome === 'failed') throw deleted.error
  return deleted?.outcome !== 'kept'
}
