/**
 * Stops one workload: the host veth first, which is synchronous, so that a sweep straight afterwards sees it gone; then the
 * namespace. What it leaves is the sweep's.
 */
import type { Host } from '../kernel/host.js'
import { processesIn } from '../kernel/netns.js'
import { type Live, liveIn } from './conclude.js'
import { namespaceName } from './contract.js'
import { type Inside, readInside, strangerInside } from './ends.js'
import { UsageError, WiringError } from './errors.js'
import type { NodeStateLock } from './guard.js'
import { readLinks } from './links.js'
import type { ContainerNet } from './net.js'
import { checkNamespacePrivilege } from './privilege.js'
import { freshly } from './read.js'
import type { Subnet } from './subnet.js'
import { recoverSubnet } from './subnet-recovery.js'
import { deleteVeth } from './wire-veth.js'
import { Writer } from './writer.js'

export interface StopOptions {
  readonly signal?: AbortSignal | undefined
}

/** What a stop came to. */
export interface Stopped {
  /** Null when it was not wired any more, or not yet. */
  readonly address: string | null
  readonly veth: string | null
  /**
   * deleted: the namespace is gone. held: its name is, but processes keep it open. absent: there was none of that name, at
   * most the empty file that an interrupted deploy leaves.
   * untouched: it was stopped by its address.
   */
  readonly namespace: 'deleted' | 'held' | 'absent' | 'untouched'
  /** Who holds it, as far as /proc tells. */
  readonly processes: readonly number[]
  readonly changes: readonly string[]
  readonly elapsedMs: number
}

/**
 * Stops the workload of that name. One that is not there is nothing to do, and told as such.
 *
 * @throws UsageError when the namespace of its name is somebody else's, ReadError, GuardError: then nothing was changed.
 * @throws WiringError when it could not be stopped, or not wholly; what was done is said.
 */
export async function stop(
  net: ContainerNet,
  lock: NodeStateLock,
  workload: string,
  options: StopOptions = {},
): Promise<Stopped> {
  const started = performance.now()
  lock.assertGuards(net)
  const { host } = lock
  const writer = new Writer(host, options.signal)
  await checkNamespacePrivilege()
  const { live, subnet } = await readLive(host, net, options.signal)
  const inside = await readInside(host, live, workload, options.signal)
  if (inside === null) {
    await deletePlaceholder(writer, namespaceName(workload))
    return stopped(started, writer, null, 'absent', [])
  }
  try {
    refuseStranger(inside, net, subnet)
    if (inside.hostEnd !== null) await deleteVeth(writer, inside.hostEnd)
    await writer.change(`delete namespace ${inside.name}`, () => host.deleteNamespace(inside.name))
    // Our own descriptor holds it too, and is no process that goes on.
    const processes = (await processesIn(inside.opened.host.namespace)).filter((pid) => pid !== process.pid)
    return stopped(started, writer, inside.live, processes.length > 0 ? 'held' : 'deleted', processes)
  } catch (error) {
    throw halfStopped(workload, writer, error)
  } finally {
    inside.opened.host.close()
  }
}

/**
 * Stops whatever workload has that address, for when its namespace's name is gone already: its host veth goes.
 *
 * @throws as `stop` does.
 */
export async function stopAddress(
  net: ContainerNet,
  lock: NodeStateLock,
  address: string,
  options: StopOptions = {},
): Promise<Stopped> {
  const started = performance.now()
  lock.assertGuards(net)
  if (net.subnetOf(address)?.workloadOctet(address) == null)
    throw new UsageError('--address', `${address} is no workload's address in ${net.range}`)
  const writer = new Writer(lock.host, options.signal)
  const found = (await readLive(lock.host, net, options.signal)).live.get(address) ?? null
  if (found !== null) await deleteVeth(writer, found.veth)
  return stopped(started, writer, found, 'untouched', [])
}

/** The workloads that run, by address, and the /24 where it is known. */
async function readLive(
  host: Host,
  net: ContainerNet,
  signal: AbortSignal | undefined,
): Promise<{ live: ReadonlyMap<string, Live>; subnet: Subnet | null }> {
  const links = await freshly(() => readLinks(host, net, { signal }), signal)
  const subnet = recoverSubnet({ net, links, confirmed: null })
  return { live: subnet === null ? new Map() : liveIn(links, subnet), subnet }
}

function refuseStranger(inside: Inside, net: ContainerNet, subnet: Subnet | null): void {
  const stranger = strangerInside(inside, net, subnet)
  if (stranger === null) return
  throw new UsageError(
    'workload',
    `namespace ${inside.name} was not made for a workload: ${stranger}`,
    `if it is to go: ip netns del ${inside.name}`,
  )
}

/** What a deploy that was killed while it made the namespace left at its name. */
async function deletePlaceholder(writer: Writer, name: string): Promise<void> {
  const what = `delete /run/netns/${name}, an empty file`
  await writer.change(what, () => writer.host.deletePlaceholder(name))
}

/** Once something was changed, whatever failed says what. */
function halfStopped(workload: string, { done }: Writer, error: unknown): unknown {
  if (done.length === 0) return error
  const { code = 'FAILED', message } = error as NodeJS.ErrnoException
  const reason = `${message}; done before that: ${done.join(', ')}`
  const hint = error instanceof WiringError ? error.hint : undefined
  return new WiringError({ object: `stop ${workload}`, code, reason, hint, cause: error })
}

function stopped(
  started: number,
  writer: Writer,
  live: Live | null,
  namespace: Stopped['namespace'],
  processes: readonly number[],
): Stopped {
  return {
    address: live?.address ?? null,
    veth: live?.veth.name ?? null,
    namespace,
    processes,
    changes: writer.done,
    elapsedMs: Math.round((performance.now() - started) * 10) / 10,
  }
}
