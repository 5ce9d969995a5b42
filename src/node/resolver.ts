/** Warns of a resolver that a tenant's own isolation forbids. */
import { readFile } from 'node:fs/promises'
import { cidrContains, parseCidr, parseIpv4 } from '../kernel/ipv4.js'
import { MESH_POOL, namespaceName } from './contract.js'
import type { Notice } from './plan.js'
import type { Site } from './site.js'

/** What a process in the namespace finds as /etc/resolv.conf (ip-netns(8)): its own file, or else the node's. */
export async function resolverNotice({ isolated, workload }: Site): Promise<Notice[]> {
  if (!isolated) return []
  const files = [`/etc/netns/${namespaceName(workload.workload)}/resolv.conf`, '/etc/resolv.conf']
  for (const file of files) {
    let text: string
    try {
      text = await readFile(file, 'utf8')
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ENOENT') continue
      return [{ object: file, reason: `cannot be read: ${message}; whether names will resolve is not known` }]
    }
    const server = meshResolver(text)
    if (server === null) return []
    const reason = `nameserver ${server} lies in the mesh pool ${MESH_POOL}, which the isolation of tenant workloads forbids: names will not resolve`
    return [{ object: file, reason }]
  }
  return []
}

/** The first nameserver of a resolv.conf(5) that lies in the mesh pool. */
export function meshResolver(text: string): string | null {
  const pool = parseCidr(MESH_POOL)
  for (const [, server = ''] of text.matchAll(/^\s*nameserver\s+(\S+)/gm)) {
    const number = parseIpv4(server)
    if (pool !== null && number !== null && cidrContains(pool, number)) return server
  }
  return null
}
