/** A workload's veth pair, and the inside of its namespace. */
import { addAddress } from '../kernel/rtnetlink/address.js'
import { changeLink, createVeth, deleteLink, type Link, linkAddress, linkByIndex } from '../kernel/rtnetlink/link.js'
import { type Route, replaceRoute } from '../kernel/rtnetlink/route.js'
import { BRIDGE_CARRIED, carried, VETH_CARRIED } from './carrier.js'
import { hostVethName, namespaceName } from './contract.js'
import { type Inside, readInside } from './ends.js'
import { ReadError, WiringError } from './errors.js'
import { readLists } from './read.js'
import type { Site } from './site.js'
import { openNamed } from './system.js'
import { linkNamed } from './wire-bridge.js'
import type { Writer } from './writer.js'

/** Makes the pair, both ends down: the host's on its bridge, the other one in the namespace as eth0. */
export async function makeVeth(
  writer: Writer,
  wanted: { namespace: string; octet: number; bridge: Link; mtu: number | null },
): Promise<void> {
  const { namespace, octet, bridge, mtu } = wanted
  const opened = await openNamed(writer.host, namespace)
  if (opened === null) throw gone(namespace)
  try {
    const name = hostVethName(octet)
    const peer = { name: 'eth0', namespaceFd: opened.descriptor }
    const veth = { name, master: bridge.index, peer, ...(mtu === null ? {} : { mtu }) }
    await writer.requests([createVeth(veth, `make ${name} on ${bridge.name} with eth0 in namespace ${namespace}`)])
  } finally {
    opened.host.close()
  }
}

/**
 * Deletes a host veth that was read before, if it is still that one: the kernel asks for no more than its index. A bridge that
 * has its link address from it keeps that.
 *
 * @throws ReadError when somebody changed it meanwhile; nothing was changed.
 */
export async function deleteVeth(writer: Writer, veth: Link): Promise<void> {
  const { host, signal } = writer
  const { index, master } = veth
  const [[now], [own], [lent]] = await readLists(
    host,
    [linkByIndex(index), linkAddress(index), linkAddress(master === 0 ? index : master)],
    { signal, absent: ['ENODEV'] },
  )
  if (now === undefined) return
  if (now.name !== veth.name || now.kind !== veth.kind || now.master !== master)
    throw new ReadError({
      read: `veth ${veth.name}`,
      code: 'INTERRUPTED',
      reason: 'somebody renamed it or put it elsewhere meanwhile',
      hint: 'look who did, and try again',
    })
  if (master !== 0 && own !== undefined && lent?.equals(own))
    await writer.requests(
      [changeLink(master, { address: lent }, `keep the link address of ${veth.name}'s bridge`)],
      ['ENODEV'],
    )
  await writer.requests([deleteLink(index, `delete ${veth.name}`)], ['ENODEV'])
}

/** Address and default route of eth0, as far as they are not there; lo up, eth0 up. */
export async function wireInside(writer: Writer, site: Site): Promise<void> {
  const { workload, subnet, conclusion } = site
  const namespace = namespaceName(workload.workload)
  const inside = await readInside(writer.host, conclusion.live, workload.workload, writer.signal)
  if (inside === null) throw gone(namespace)
  const { eth0, opened, addresses, routes } = inside
  try {
    if (eth0 === null) throw gone(`eth0 of ${namespace}`)
    const within = (what: string): string => `${what} in namespace ${namespace}`
    const changes = []
    const lo = loopback(inside)
    if (lo !== null && !lo.up) changes.push(changeLink(lo.index, { up: true }, within('set lo up')))
    const address = { index: eth0.index, address: workload.address, prefix: 24 }
    if (!addresses.some((each) => each.address === address.address && each.prefix === address.prefix))
      changes.push(addAddress(address, within(`add ${address.address}/24 to eth0`)))
    const mtu = workload.mtu === null || workload.mtu === eth0.mtu ? {} : { mtu: workload.mtu }
    if (!eth0.up || 'mtu' in mtu) changes.push(changeLink(eth0.index, { up: true, ...mtu }, within('set eth0 up')))
    if (!eth0.up || !routes.some((route) => isDefault(route, subnet.gateway)))
      changes.push(
        replaceRoute(
          { destination: '0.0.0.0', prefix: 0, gateway: subnet.gateway },
          within(`add default route via ${subnet.gateway}`),
        ),
      )
    await writer.requests(changes, ['EEXIST'], opened.host)
  } finally {
    opened.host.close()
  }
}

/** The last step: once it returns, packets pass. */
export async function raise(writer: Writer, { octet, workload }: Site, bridge: Link): Promise<void> {
  const { host, signal } = writer
  const veth = await linkNamed(writer, hostVethName(octet))
  const mtu = workload.mtu === null || workload.mtu === veth.mtu ? {} : { mtu: workload.mtu }
  if (!veth.up || 'mtu' in mtu)
    await writer.requests([changeLink(veth.index, { up: true, ...mtu }, `set ${veth.name} up`)])
  if (veth.up) return
  const namespace = namespaceName(workload.workload)
  const inside = await openNamed(host, namespace)
  if (inside === null) throw gone(namespace)
  try {
    await carried(host, veth.index, VETH_CARRIED, { signal })
    await carried(inside.host, veth.peerIndex, VETH_CARRIED, { signal })
    await carried(host, bridge.index, BRIDGE_CARRIED, { signal })
  } finally {
    inside.host.close()
  }
}

function loopback({ links }: Inside): Link | null {
  return links.find(({ name }) => name === 'lo') ?? null
}

function isDefault({ prefix, gateway }: Route, via: string): boolean {
  return prefix === 0 && gateway === via
}

function gone(what: string): WiringError {
  return new WiringError({ object: what, code: 'ENOENT', reason: 'has gone meanwhile' })
}
