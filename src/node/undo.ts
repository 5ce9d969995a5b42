/** Undoes a deploy that failed: no half-wired workload stays. */
import type { Host } from '../kernel/host.js'
import { deleteLink } from '../kernel/rtnetlink/link.js'
import { applyPlan } from './apply.js'
import { conclude } from './conclude.js'
import { hostVethName, namespaceName } from './contract.js'
import type { Site } from './deploy.js'
import { readHostEnds } from './site.js'
import { planSweep } from './sweep.js'
import { readNode } from './view.js'
import { withdraw } from './withdraw.js'
import { Writer } from './writer.js'

/** Never rejects: what it came to, in a person's words. Not cancelled with the deploy. */
export async function undo(host: Host, site: Site): Promise<string> {
  const { net, workload, subnet, octet } = site
  const writer = new Writer(host)
  try {
    const { veth } = await readHostEnds(host, octet, site.bridge)
    if (veth !== null) await writer.requests([deleteLink(veth.index, `delete ${hostVethName(octet)}`)], ['ENODEV'])
    await deleteNamespace(host, namespaceName(workload.workload))
    const view = await readNode(host, net)
    const conclusion = conclude(view, subnet)
    await withdraw(writer, view, conclusion, workload.address)
    // The bridge goes too when this deploy made it: its rules, and those that it alone had.
    const made = !site.view.links.bridges.some(({ link }) => link.name === site.bridge)
    const dead = conclusion.dead.filter(({ link }) => made && link.name === site.bridge)
    const detached = conclusion.detached.filter((name) => made && name === site.bridge)
    const nothingElse = { departed: [], unwantedProxies: [], unwantedFilters: [] }
    const meshMarkDetached = conclusion.meshMarkDetached && dead.length + detached.length > 0
    const plan = planSweep(view, { ...conclusion, ...nothingElse, dead, detached, meshMarkDetached })
    const { results } = await applyPlan(host, { ...plan, gatewayStays: true }, { mayReplan: false })
    const failed = results.find(({ outcome }) => outcome === 'failed' || outcome === 'kept')
    return failed === undefined ? 'it was undone' : `undoing it left ${failed.step.object}: run netsweep sweep`
  } catch (error) {
    return `undoing it failed (${error instanceof Error ? error.message : String(error)}): run netsweep sweep`
  }
}

async function deleteNamespace(host: Host, name: string): Promise<void> {
  try {
    await host.deleteNamespace(name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}
