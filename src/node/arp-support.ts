/** Whether this kernel and these bridges can take what a granted pair needs, found out before anything is changed. */
import type { Host } from '../kernel/host.js'
import { ETH_P_ARP, TC_H_CLSACT, TC_H_MIN_INGRESS } from '../kernel/linux.js'
import { ask } from '../kernel/netlink/ask.js'
import { linkByName } from '../kernel/rtnetlink/link.js'
import { replaceClsact } from '../kernel/tc.js'
import { ingressKind, probeAction, probeClassifier } from '../kernel/tc-support.js'
import { UsageError } from './errors.js'
import type { ArpEntry } from './grants.js'
import { readError, readLists } from './read.js'
import { openScratch } from './system.js'
import type { NodeView } from './view.js'

/** `wanted`: what the deploy would have to put on the bridges. @throws UsageError that names what stands in the way. */
export async function checkArpPath(host: Host, view: NodeView, wanted: readonly ArpEntry[]): Promise<void> {
  if (wanted.length === 0) return
  const names = new Set(wanted.map(({ bridge }) => bridge))
  const links = view.links.bridges.map(({ link }) => link).filter(({ name }) => names.has(name))
  const kinds = await readLists(
    host,
    links.map(({ index }) => ingressKind(index)),
    { absent: ['ENOENT', 'EINVAL'] },
  )
  const taken = links.find((_, i) => kinds[i]?.some((kind) => kind !== 'clsact'))
  if (taken !== undefined) {
    const reason = `a grant needs clsact on ${taken.name}, and somebody else's plain ingress qdisc sits there`
    throw new UsageError('allow', reason, `look whose it is: tc filter show dev ${taken.name} ingress`)
  }
  const missing = await missingModules(host)
  if (missing.length > 0) {
    const reason = `a grant needs ${missing.join(' and ')}, which this kernel does not have`
    throw new UsageError('allow', reason, `modprobe ${missing.join(' ')}, or a kernel that has them (Debian’s have)`)
  }
}

/** Tried in a namespace of its own. */
async function missingModules(host: Host): Promise<string[]> {
  const scratch = await openScratch(host)
  try {
    const [[lo]] = await readLists(scratch.host, [linkByName('lo')])
    const { index = 1 } = lo ?? {}
    const ingress = ((TC_H_CLSACT & 0xffff0000) | TC_H_MIN_INGRESS) >>> 0
    const [clsact, flower, skbedit] = await ask(scratch.host, [
      replaceClsact(index, 'clsact'),
      probeClassifier(index, ingress, ETH_P_ARP, 'flower'),
      probeAction('skbedit'),
    ])
    // Anything else says nothing of the kernel.
    if (clsact.error !== null && clsact.error.code !== 'ENOENT') throw readError('clsact', clsact.error)
    return [
      ...(clsact.error === null ? [] : ['sch_ingress']),
      ...(flower.error?.code === 'ENOENT' ? ['cls_flower'] : []),
      ...(skbedit.error?.code === 'ENOENT' ? ['act_skbedit'] : []),
    ]
  } finally {
    scratch.host.close()
  }
}
