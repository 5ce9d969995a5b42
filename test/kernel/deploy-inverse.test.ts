/**
 * Whatever a deploy asserts the sweep takes back. The writes of real deploys are recorded, and of each of them the inverse is
 * looked for in the plan of the pass after the stop: a rule added later, which the sweep does not know, fails here.
 */
import { describe, expect, test } from 'vitest'
import { parseRule, ruleKey } from '../../src/kernel/iptables/rule.js'
import { splitWords } from '../../src/kernel/iptables/words.js'
import { RTM_NEWADDR, RTM_NEWLINK, RTM_NEWROUTE, RTM_NEWRULE } from '../../src/kernel/linux.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import { deleteRoute } from '../../src/kernel/rtnetlink/route.js'
import { deleteRule } from '../../src/kernel/rtnetlink/rule.js'
import type { Step } from '../../src/node/plan.js'
import { decide } from '../../src/node/reconcile.js'
import { type Backend, TestNode } from '../support/node.js'
import { ACME, onWrites, Project, type Spec, spec, type Write } from './deploys.js'

/** What stays on a node for good (docs/sweep.md): the NAT rule of the /24, and the node bridge's ACCEPTs. */
const STAYS = [/^nat -A POSTROUTING /, /^filter -A FORWARD -[io] yah0 -j ACCEPT$/]

async function written(project: Project, specs: readonly Spec[]): Promise<Write[]> {
  const writes: Write[] = []
  for (const each of specs)
    await project.deploy(
      each,
      onWrites(project.host, async (write) => void writes.push(write)),
    )
  return writes
}

/** The commands of the batches: `filter -A FORWARD …`. */
function commandsOf(writes: readonly Write[]): string[] {
  return writes.flatMap((write) => {
    if (write.kind !== 'restore') return []
    let table = ''
    return (write.run.input ?? '').split('\n').flatMap((line) => {
      if (line.startsWith('*')) table = line.slice(1)
      return line.startsWith('-') ? [`${table} ${line}`] : []
    })
  })
}

/** Chain and rule, without the order in which options stand. */
const keyOf = (table: string, chain: string, words: readonly string[]): string => `${table} ${chain} ${ruleKey(words)}`

function inverses(steps: readonly Step[]): Set<string> {
  return new Set(
    steps.flatMap((step) =>
      step.action === 'restore'
        ? [
            ...step.rules.map(({ chain, words }) => keyOf(step.table, chain, words)),
            ...step.chains.map((name) => `${step.table} chain ${name}`),
          ]
        : [],
    ),
  )
}

const payload = ({ bytes, payload: at }: Message): string => bytes.toString('hex', at)
const requestsOf = (writes: readonly Write[], type: number): Message[] =>
  writes.flatMap((write) =>
    write.kind === 'request' && !write.inside && write.request.type === type ? write.request : [],
  )

describe.concurrent.each<Backend>(['nft', 'legacy'])('with %s', (backend) => {
  test('every rule, chain, prohibit, route and bridge of a deploy is in the plan after its stop', async () => {
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    // The node bridge stays, and with it the /24 is known.
    await project.deploy(spec('acct', 2))
    const workloads = [
      spec('api', 7, 'acme', { allow: ['globex/default/absent', 'singleton/default/absent'] }),
      spec('own', 3, undefined, { allow: ['globex/default/absent'] }),
    ]
    const writes = await written(project, workloads)
    for (const { workload } of workloads) await project.stop(workload)
    const { plan } = await decide(project.host, project.net, null, {})
    expect(plan.steps.filter(({ held }) => held !== null)).toEqual([])

    const commands = commandsOf(writes)
    const taken = inverses(plan.steps)
    const asserted = commands.filter((command) => !STAYS.some((form) => form.test(command)))
    expect(asserted.length).toBeGreaterThan(20)
    for (const command of asserted) {
      const [table = '', what, chain = '', ...words] = splitWords(command)
      if (what === '-N') expect(taken, command).toContain(`${table} chain ${chain}`)
      else if (what === '-A' || what === '-I') expect(taken, command).toContain(keyOf(table, chain, words))
      else expect.fail(`a deploy on a clean node takes nothing away: ${command}`)
    }

    // What is sent to delete it is, to the byte, the selector that was sent to add it.
    const rules = plan.steps.flatMap((step) => (step.action === 'delete-rule' ? deleteRule(step.rule, '') : []))
    const added = requestsOf(writes, RTM_NEWRULE)
    expect(added).toHaveLength(3)
    expect(rules.map((request) => request.payload.toString('hex')).sort()).toEqual(added.map(payload).sort())

    const routes = plan.steps.flatMap((step) => (step.action === 'delete-route' ? deleteRoute(step.route, '') : []))
    expect(routes.map((request) => request.payload.toString('hex'))).toEqual(
      requestsOf(writes, RTM_NEWROUTE).map(payload),
    )
    expect(routes).toHaveLength(1)

    // The bridge and its address go with its link; the veth went with the stop.
    expect(requestsOf(writes, RTM_NEWADDR)).toHaveLength(1)
    expect(requestsOf(writes, RTM_NEWLINK).length).toBeGreaterThan(0)
    expect(plan.steps.flatMap((step) => (step.action === 'delete-link' ? step.link.name : []))).toEqual([ACME])
  })

  test('and nothing that a deploy did not write is in it', async () => {
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    await project.deploy(spec('acct', 2))
    const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
    const writes = await written(project, [api])
    await project.stop('api')
    const { plan } = await decide(project.host, project.net, null, {})
    const asserted = new Set(
      commandsOf(writes).map((command) => {
        const [table = '', what, chain = '', ...words] = splitWords(command)
        return what === '-N' ? `${table} chain ${chain}` : keyOf(table, chain, words)
      }),
    )
    expect([...inverses(plan.steps)].filter((key) => !asserted.has(key))).toEqual([])
  })
})

test('a rule is compared by what it does, not by how it is spelt', () => {
  expect(ruleKey(splitWords('-i a -s 10.128.3.7 -j ACCEPT'))).toBe(
    ruleKey(splitWords('-s 10.128.3.7/32 -i a -j ACCEPT')),
  )
  expect(parseRule(splitWords('-i a -j DROP')).target).toBe('DROP')
})
