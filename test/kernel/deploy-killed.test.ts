/**
 * A deploy that is killed before each of its writes in turn. Whatever it leaves, a sweep by either side takes nothing that
 * runs and leaves the unfinished workload alone, and a deploy, or a stop and a sweep, of it puts everything right.
 * That nobody inherits anything at those moments is what deploy-order.test.ts sees.
 */
import { describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { TestNode } from '../support/node.js'
import { nameOfWrite, onWrites, Project, type Spec, spec } from './deploys.js'
import { picture } from './picture.js'

const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
const bystanders = [spec('acct', 2), spec('web', 8, 'acme'), spec('billing', 9, 'globex')]

interface Case {
  readonly name: string
  readonly others: readonly Spec[]
  /** Who has the address before. */
  readonly from: Spec | null
  readonly to: Spec
  /** What puts it right. */
  readonly finishes: readonly ('deploy' | 'stop')[]
}
const CASES: readonly Case[] = [
  { name: 'the first of all', others: [], from: null, to: api, finishes: ['deploy', 'stop'] },
  {
    name: 'a fresh address of a new tenant',
    others: bystanders,
    from: null,
    to: spec('lone', 7, 'initech'),
    finishes: ['stop'],
  },
  {
    name: 'tenant to tenant',
    others: bystanders,
    from: api,
    to: spec('next', 7, 'globex'),
    finishes: ['deploy', 'stop'],
  },
  { name: 'tenant to singleton', others: bystanders, from: api, to: spec('next', 7), finishes: ['deploy'] },
  { name: 'singleton to tenant', others: bystanders, from: spec('old', 7), to: api, finishes: ['stop'] },
]

class Killed extends Error {}

/** The host of a process that is killed before its nth write, counted from 1: nothing is asked of it any more. */
function killedAt(host: Host, nth: number): Host {
  let seen = 0
  let dead = false
  return onWrites(
    host,
    async () => {
      seen += 1
      if (seen === nth) dead = true
      if (dead) throw new Killed()
    },
    () => {
      if (dead) throw new Killed()
    },
  )
}

const hostEnd = (node: TestNode): Promise<string> =>
  node.run(
    'ip -o link show veth7 2>/dev/null | grep -oE "^[0-9]+: veth7.* master [^ ]+" | grep -oE "^[0-9]+|[^ ]+$" || :',
  )

async function prepared({ others, from }: Case): Promise<{ node: TestNode; project: Project }> {
  const node = await TestNode.create()
  const project = await Project.on(node)
  for (const each of others) await project.deploy(each)
  if (from !== null) await project.deploy(from)
  return { node, project }
}

/** What an undisturbed deploy comes to, the names of its writes, and what is there without it. */
async function undisturbed(scene: Case) {
  const { node, project } = await prepared({ ...scene, from: null })
  await using _ = node
  using __ = project
  const others = await node.dump()
  if (scene.from !== null) await project.deploy(scene.from)
  const before = await node.dump()
  const writes: string[] = []
  await project.deploy(
    scene.to,
    onWrites(project.host, async (write) => void writes.push(nameOfWrite(write))),
  )
  const done = { dump: await node.dump(), picture: await picture(node, project.net) }
  await project.stop(scene.to.workload)
  await project.sweep()
  return { others, before, writes, done, swept: await node.dump() }
}

/** On a node that has no gateway yet the caller has to say which /24 is meant. */
async function sweepWhole(node: TestNode): Promise<void> {
  using project = await Project.on(node, { subnet: '10.128.3.0/24' })
  expect(await project.sweep()).toMatchObject({ complete: true })
}

/** A sweep leaves the rule, and a deploy that was killed early did not get to make it. */
const withoutNat = (dump: readonly string[]): string[] => dump.filter((line) => !line.startsWith('nat '))

describe.concurrent.each(CASES)('killed: $name', (scene) => {
  test('and deployed again, or stopped and swept', { timeout: 900_000 }, async () => {
    const { others, before, writes, done, swept } = await undisturbed(scene)
    expect(writes.length).toBeGreaterThan(10)
    for (const finish of scene.finishes) {
      let { node, project } = await prepared(scene)
      try {
        for (let nth = 1; nth <= writes.length; nth++) {
          const where = `before write ${nth} (${writes[nth - 1]}), then ${finish}`
          const first = await hostEnd(node)
          await expect(project.deploy(scene.to, killedAt(project.host, nth)), where).rejects.toThrow()

          const left = await node.dump()
          const veth = await hostEnd(node)
          if (finish === 'deploy') await project.sweep()
          else await node.oracle('sweep')
          const after = await node.dump()
          if (veth === '') expect(after, where).toEqual(expect.arrayContaining(others))
          else expect(after, where).toEqual(left)
          expect(await hostEnd(node), where).toBe(veth)

          if (finish === 'deploy') {
            await project.deploy(scene.to)
            expect({ dump: await node.dump(), picture: await picture(node, project.net) }, where).toEqual(done)
          } else {
            await project.stop(scene.to.workload)
            await sweepWhole(node)
            // Its last owner runs as long as it was not taken away.
            expect(withoutNat(await node.dump()), where).toEqual(
              withoutNat(veth !== '' && veth === first ? before : swept),
            )
          }

          if (scene.others.length === 0) {
            project[Symbol.dispose]()
            await node[Symbol.asyncDispose]()
            ;({ node, project } = await prepared(scene))
          } else if (scene.from !== null) await project.deploy(scene.from)
          else {
            await project.stop(scene.to.workload)
            await project.sweep()
          }
        }
      } finally {
        project[Symbol.dispose]()
        await node[Symbol.asyncDispose]()
      }
    }
  })
})
