/**
 * A deploy by a process of its own that is killed (SIGKILL) at each of its writes in turn: right before it, or once it was asked
 * for, when a tool that was started for it goes on alone. What follows is done by other processes, as on a node.
 */
import { describe, expect, test } from 'vitest'
import { dies, type When } from '../support/dying.js'
import { need } from '../support/machine.js'
import { type Backend, firstLine, lines, TestNode } from '../support/node.js'
import { description, oracleArgs, Project, type Spec, spec } from './deploys.js'
import { picture } from './picture.js'

const api = spec('api', 7, 'acme', { allow: ['globex/default/absent'] })
const next = spec('next', 7, 'globex')
const OTHERS = [spec('acct', 2), spec('web', 8, 'acme'), spec('billing', 9, 'globex')]

interface Case {
  readonly name: string
  /** Who has the address before. */
  readonly from: Spec | null
  readonly to: Spec
  readonly when: When
  /** What makes an end of it, once somebody has swept: netsweep before a deploy, the oracle before a stop. */
  readonly finish: 'deploy' | 'stop'
  readonly backend?: Backend
}
const CASES: readonly Case[] = [
  { name: 'a fresh address, during each write', from: null, to: api, when: 'during', finish: 'stop' },
  { name: 'one that changes hands, during each write', from: api, to: next, when: 'during', finish: 'deploy' },
  {
    name: 'one that changes hands, before each write, in legacy iptables',
    from: spec('old', 7),
    to: api,
    when: 'before',
    finish: 'stop',
    backend: 'legacy',
  },
]

async function netsweep(node: TestNode, ...args: string[]): Promise<void> {
  const { status, stdout, stderr } = await node.netsweep([...args, '--iptables', node.backend])
  expect(status, `netsweep ${args.join(' ')}\n${stderr}${stdout}`).toBe(0)
}

const deploy = (node: TestNode, what: Spec): Promise<void> =>
  netsweep(node, ...oracleArgs(what).map((arg) => (arg === '--addr' ? '--address' : arg)))

/** Index and bridge of the address's veth; '' without one on a bridge. */
const hostEnd = (node: TestNode): Promise<string> =>
  node.run(`{ ip -o link show veth7 2>/dev/null || :; } | sed -nE 's/^([0-9]+): .* master ([^ ]+) .*/\\1 \\2/p'`)

/** Nobody holds the lock, and what is below /run/netns is a namespace or an empty file, on which one was to be mounted. */
async function expectNobodyLeft(node: TestNode, where: string): Promise<void> {
  // What the dead process had started may still be at work, and holds the lock.
  await node.run('flock --wait 60 /run/netsweep/*.lock true')
  expect(await node.run('pgrep -l iptables || :'), where).toBe('')
  const others = 'for file in /run/netns/*; do [ "$(stat -f -c %T "$file")" = nsfs ] || stat -c "%F" "$file"; done'
  for (const other of lines(await node.run(others))) expect(other, where).toBe('regular empty file')
}

/** A sweep leaves the rule, and a deploy that was killed early did not get to make it. */
const withoutNat = (dump: readonly string[]): string[] => dump.filter((line) => !line.startsWith('nat '))

describe.concurrent('killed:', () => {
  test.for(CASES)('$name', { timeout: 900_000 }, async ({ from, to, when, finish, backend = 'nft' }) => {
    await using node = await TestNode.create({ backend })
    using project = await Project.on(node)
    const { net } = project
    for (const each of OTHERS) await project.deploy(each)
    const others = await node.dump()
    if (from !== null) await project.deploy(from)
    await project.deploy(to)
    const done = { dump: await node.dump(), picture: await picture(node, net) }
    await project.stop(to.workload)
    await project.sweep()
    const swept = await node.dump()

    let kills = 0
    for (;;) {
      if (from !== null) await project.deploy(from)
      const before = await node.dump()
      const first = await hostEnd(node)
      if (!(await dies(node, description(to), when, kills + 1))) break
      kills += 1
      const where = `at write ${kills}, then ${finish}`
      await expectNobodyLeft(node, where)

      const left = await node.dump()
      const veth = await hostEnd(node)
      if (finish === 'deploy') await netsweep(node, 'sweep')
      else await node.oracle('sweep')
      if (veth === '') expect(await node.dump(), where).toEqual(expect.arrayContaining(others))
      else expect(await node.dump(), where).toEqual(left)
      expect(await hostEnd(node), where).toBe(veth)

      if (finish === 'deploy') {
        await deploy(node, to)
        expect({ dump: await node.dump(), picture: await picture(node, net) }, where).toEqual(done)
      }
      if (finish === 'deploy') await project.stop(to.workload)
      else await netsweep(node, 'stop', to.workload)
      // Neither a namespace nor the empty file that the kill may have left in its place.
      await node.run(`test ! -e /run/netns/${to.workload}`)
      await project.sweep()
      // Its last owner runs as long as it was not taken away.
      const untouched = finish === 'stop' && veth !== '' && veth === first
      expect(withoutNat(await node.dump()), where).toEqual(withoutNat(untouched ? before : swept))
    }
    expect(kills).toBeGreaterThan(8)
    expect({ dump: await node.dump(), picture: await picture(node, net) }).toEqual(done)
  })
})

test('the tool that a killed sweep had started keeps others out until it has ended', async (context) => {
  await need(context, 'legacy')
  await using node = await TestNode.create({ backend: 'legacy' })
  await deploy(node, api)
  await deploy(node, OTHERS[0] as Spec)
  const right = await node.dump()
  await netsweep(node, 'stop', api.workload)

  // The tool of legacy waits for this lock, here five seconds.
  const holder = await node.start('flock', ['/run/xtables.lock', 'bash', '-c', 'echo held; read -r _'])
  expect(await firstLine(holder)).toBe('held')
  const state =
    'pgrep -x iptables-legacy >/dev/null && echo runs; flock --nonblock /run/netsweep/*.lock true && echo free || :'
  let said = ''
  for (let nth = 1; !said.includes('runs') && (await dies(node, 'sweep', 'during', nth)); nth++)
    said = await node.run(state)
  expect(said).toBe('runs\n')

  holder.stdin.end()
  await deploy(node, api)
  expect(await node.dump()).toEqual(right)
})
