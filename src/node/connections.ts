/** The tracked connections of addresses: a connection outlives its address, and would pass for the next owner's. */

import type { Connection } from '../kernel/conntrack/connection.js'
import { connectionCount, connectionsOf } from '../kernel/conntrack/conntrack.js'
import { addTo } from '../kernel/groups.js'
import type { Host } from '../kernel/host.js'
import { ReadError } from './errors.js'
import { type ReadOptions, readLists } from './read.js'

/** Null where the kernel does not let its connections be listed: it has no nf_conntrack_netlink. */
export type ConnectionsByAddress = ReadonlyMap<string, readonly Connection[]> | null

/** By address, those without connections left out. @throws ReadError */
export async function readConnections(
  host: Host,
  addresses: readonly string[],
  options: Pick<ReadOptions, 'signal'>,
): Promise<ConnectionsByAddress> {
  if (addresses.length === 0) return new Map()
  const wanted = new Set(addresses)
  const found = new Map<string, Connection[]>()
  const tracksAny = await hasConnections(host, options)
  if (tracksAny === null) return null
  // Listing walks a table that all namespaces share, even for one that tracks nothing.
  if (!tracksAny) return found
  const [connections] = await readLists(host, [connectionsOf(addresses)], { ...options, protocol: 'netfilter' })
  for (const connection of connections) {
    const { original, reply } = connection
    const ends = new Set([original.source, original.destination, reply.source, reply.destination])
    // Of two addresses that both departed, the first has it.
    const owner = [...ends].find((address) => wanted.has(address))
    if (owner !== undefined) addTo(found, owner, connection)
  }
  return found
}

/** Null where there is no nf_conntrack_netlink. Where it counts, it lists too: a list that is refused is a failed read. */
async function hasConnections(host: Host, options: Pick<ReadOptions, 'signal'>): Promise<boolean | null> {
  try {
    const [[count]] = await readLists(host, [connectionCount()], { ...options, protocol: 'netfilter' })
    return count !== 0
  } catch (error) {
    if (error instanceof ReadError && lacksConntrack(error)) return null
    throw error
  }
}

/** nfnetlink answers EINVAL for a subsystem that is not there. */
function lacksConntrack({ cause }: ReadError): boolean {
  const code = (cause as { code?: string } | undefined)?.code
  return code === 'EINVAL' || code === 'EOPNOTSUPP' || code === 'EPROTONOSUPPORT'
}
