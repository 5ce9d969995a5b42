/** The demo itself: told for a person as it happens, and checked with the plain tools at every turn. */
import { tenantBridgePrefix } from '../node/contract.js'
import { deploy } from '../node/deploy.js'
import { UsageError } from '../node/errors.js'
import { lockNodeState } from '../node/guard.js'
import { acceptRules } from '../node/isolation.js'
import type { ContainerNet } from '../node/net.js'
import { decide, reconcile } from '../node/reconcile.js'
import type { Reconciled } from '../node/reconciled.js'
import { stop } from '../node/stop.js'
import { namespaceNames } from '../node/system.js'
import { reportNode } from '../report/node.js'
import { nodeText } from '../report/node-text.js'
import { count, type Style, table } from '../report/style.js'
import { sweepText } from '../report/sweep.js'
import { stateDifference, type Tools } from './tools.js'

interface Workload {
  readonly name: string
  readonly octet: number
  readonly tenant: string
  /** The one workload of another tenant that may reach it. */
  readonly admits?: Workload
}

export interface DemoResult {
  /** What was not as it should be; empty when all was. */
  readonly problems: readonly string[]
  readonly dryRun: Reconciled
  readonly swept: Reconciled
  readonly again: Reconciled
}

export interface Telling {
  readonly tell: (text: string) => void
  readonly style: Style
  readonly signal: AbortSignal
}

/** The mesh address that the demo's node has, when nobody says which /24 is meant. */
const MESH_ADDRESS = '100.64.0.3'
/** Ten digits that no tenant of the demo has. */
const STRANGER = 'vvvvvvvvvv'

export async function playDemo(net: ContainerNet, tools: Tools, { tell, style, signal }: Telling): Promise<DemoResult> {
  const backend = net.iptables === 'legacy' ? 'legacy' : 'nft'
  const subnet = net.subnet ?? net.subnetForMesh(MESH_ADDRESS)
  if (subnet === null) throw new Error(`${MESH_ADDRESS} is not of the mesh pool`)
  const bridgeOf = ({ tenant }: Workload): string => net.tenantBridge(tenant)
  const addressOf = ({ octet }: Workload): string => subnet.address(octet)
  const state = (): Promise<string[]> => tools.state(`iptables-${backend}`)
  const problems: string[] = []
  const check = (isRight: boolean, problem: string): void => {
    if (!isRight) problems.push(problem)
  }
  const chapter = (title: string): void => tell(`\n${style.bold(`== ${title}`)}\n\n`)
  const pass = async (dryRun: boolean): Promise<Reconciled> => {
    await using lock = await lockNodeState(net, { signal })
    return await reconcile(net, lock, { dryRun, signal })
  }

  const start = async (workload: Workload): Promise<string> => {
    await using lock = await lockNodeState(net, { signal })
    const { name, tenant, admits } = workload
    const description = { workload: name, address: addressOf(workload), tenant, identity: identityOf(workload) }
    const allow = admits === undefined ? [] : [identityOf(admits)]
    try {
      await deploy(net, lock, { ...description, allow }, { signal })
      return allow.length > 0 ? `admits ${allow.join()}` : ''
    } catch (error) {
      if (!(error instanceof UsageError && error.option === 'allow')) throw error
      await deploy(net, lock, description, { signal })
      return `(admits nobody: ${error.reason})`
    }
  }

  const acct: Workload = { name: 'acct', octet: 2, tenant: net.singletonTenant }
  const api: Workload = { name: 'api', octet: 7, tenant: 'acme', admits: acct }
  const web: Workload = { name: 'web', octet: 8, tenant: 'acme' }
  const billing: Workload = { name: 'billing', octet: 9, tenant: 'globex', admits: api }
  const stranger = tenantBridgePrefix(net.bridge) + STRANGER
  tell(`${style.bold('netsweep demo')}: a node of its own, which ends with this command\n`)

  chapter('Workloads of three tenants start, and a stranger plugs himself in')
  await plugInStranger(tools, `iptables-${backend}`, stranger)
  const rows: string[][] = []
  let before: string[] = []
  for (const each of [acct, api, web, billing]) {
    if (each === web) before = await state()
    const admits = await start(each)
    rows.push([addressOf(each), each.name, `tenant ${each.tenant}`, `on ${bridgeOf(each)}`, admits])
  }
  tell(
    table(rows)
      .map((line) => `  ${line}\n`)
      .join(''),
  )
  tell(`  ${stranger} has the name of a tenant's bridge, and a port that is no workload's\n`)

  chapter('web and billing stop: their namespaces go, and their veths. netsweep show')
  for (const { name } of [web, billing]) {
    await using lock = await lockNodeState(net, { signal })
    await stop(net, lock, name, { signal })
  }
  const stopped = await state()
  const left = stateDifference(before, stopped)
  check(left.length > 0 && left.every((line) => line.startsWith('+')), 'stopping left nothing behind')
  tell(await showNode(net, signal, style))

  chapter('What they left behind: netsweep sweep --dry-run')
  const dryRun = await pass(true)
  tell(sweepText(dryRun, net.range, style))
  expectNothing(stateDifference(stopped, await state()), 'the dry run changed')

  chapter('netsweep sweep')
  const swept = await pass(false)
  tell(sweepText(swept, net.range, style))
  const goes = { bridges: [bridgeOf(billing)], addresses: [web, billing].map((each) => addressOf(each)) }
  check(swept.complete, 'the sweep is incomplete')
  check(isSame(steps(dryRun), steps(swept)), 'the sweep took other steps than the dry run had listed')
  check(isSame(swept.bridges, goes.bridges), `bridges: ${swept.bridges.join(' ')}`)
  check(isSame(swept.addresses, goes.addresses), `addresses: ${swept.addresses.join(' ')}`)

  chapter('Only what runs remains: read back with ip, tc and iptables-save')
  const after = await state()
  expectNothing(stateDifference(before, after), 'not as before web and billing')
  tell(`  ${count(left.length, 'line')} had been left behind; ${count(after.length, 'line')} remain, `)
  tell(problems.length === 0 ? `the same as before web and billing came\n` : `and they are not what they should be\n`)

  chapter('netsweep sweep, once more')
  const again = await pass(false)
  tell(sweepText(again, net.range, style))
  check(again.isEmpty, 'the second sweep found something')
  expectNothing(stateDifference(after, await state()), 'the second sweep changed')

  tell('\n')
  for (const problem of problems) tell(`${style.red('wrong')}: ${problem}\n`)
  if (problems.length === 0)
    tell(
      `${style.green('right')}: what was left behind is gone; what runs, and what is somebody else's, is as it was\n`,
    )
  return { problems, dryRun, swept, again }

  function expectNothing(difference: readonly string[], problem: string): void {
    for (const line of difference) problems.push(`${problem}: ${line}`)
  }
}

const identityOf = ({ tenant, name }: Workload): string => `${tenant}/prod/${name}`

/** A bridge with the name of a tenant's, which somebody uses for a link of his own. */
async function plugInStranger(tools: Tools, iptables: string, bridge: string): Promise<void> {
  await tools.run('ip', 'link', 'add', 'name', bridge, 'type', 'bridge')
  await tools.run('ip', 'link', 'add', 'guest0', 'type', 'veth', 'peer', 'name', 'guest1')
  await tools.run('ip', 'link', 'set', 'guest0', 'master', bridge)
  for (const { chain, words } of acceptRules(bridge)) await tools.run(iptables, '-w', '-A', chain, ...words)
}

async function showNode(net: ContainerNet, signal: AbortSignal, style: Style): Promise<string> {
  await using lock = await lockNodeState(net, { signal })
  const decision = await decide(lock.host, net, null, { signal })
  return nodeText(reportNode(decision, await namespaceNames(lock.host, { signal })), net.range, style)
}

const steps = (pass: Reconciled): string[] => pass.steps.map(({ action, object }) => `${action} ${object}`)

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}
