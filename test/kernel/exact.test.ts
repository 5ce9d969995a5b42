/**
 * A tool that deletes the first rule that is like the one that is named but for its interface, as upstream's iptables-nft-restore 1.8.11
 * does. This one is exact, and is made to look like it: it gets a deletion of what is there where that one would find something.
 */
import { expect, test } from 'vitest'
import { lockNodeState, reconcile } from '../../src/index.js'
import type { Host } from '../../src/kernel/host.js'
import { formatBatch } from '../../src/kernel/iptables/restore.js'
import { applyBatch } from '../../src/kernel/iptables/tools.js'
import { ContainerNet } from '../../src/node/net.js'
import { type Call, delegate, recording } from '../support/fake-host.js'
import { type Backend, TestNode } from '../support/node.js'
import { Project, spec } from './deploys.js'
import { isProbe, isRestore, isRun, leftBehind, machine, pass, readError } from './passes.js'

function inexact(host: Host): Host {
  return {
    ...delegate(host),
    run(command, args, options) {
      const input = options?.input?.replace('-D netsweep-probe -i netsweep-b ', '-D netsweep-probe -i netsweep-a ')
      return host.run(command, args, { ...options, ...(input === undefined ? {} : { input }) })
    },
  }
}

const INEXACT = {
  message: expect.stringMatching(/^iptables-nft-restore: it deletes rules of another interface /),
  hint: 'install another version of the package `iptables`',
}

test('a sweep changes nothing with it, and says what to do', async () => {
  await using node = await TestNode.create()
  await leftBehind(node)
  const host = await machine(node)
  try {
    const before = await node.dump()
    expect(await readError(pass(inexact(host)))).toMatchObject(INEXACT)
    expect(await node.dump()).toEqual(before)
    expect((await pass(inexact(host), { dryRun: true })).steps.length).toBeGreaterThan(0)
  } finally {
    host.close()
  }
})

test('so does a deploy; and a batch that was not asked about before is not run', async () => {
  await using node = await TestNode.create()
  using project = await Project.on(node)
  await project.deploy(spec('acct', 2))
  const before = await node.dump()
  expect(await readError(project.deploy(spec('api', 7, 'acme'), inexact(project.host)))).toMatchObject(INEXACT)
  const batch = formatBatch('filter', [['-D', 'FORWARD', '-i', 'yah0', '-j', 'ACCEPT']])
  expect(await applyBatch(inexact(project.host), 'nft', batch)).toMatchObject({ ok: false, kind: 'inexact' })
  expect(await node.dump()).toEqual(before)
})

test.each<Backend>(['nft', 'legacy'])(
  '%s: the one that is installed is exact; it is asked once, and only by a pass that removes',
  async (backend) => {
    await using node = await TestNode.create({ backend })
    await leftBehind(node)
    const host = await machine(node)
    const net = new ContainerNet()
    try {
      const calls: Call[] = []
      await using lock = await lockNodeState(net, { host: { ...recording(host, calls), close() {} } })
      const probes = (): number => calls.filter((call) => isRun(call) && isProbe(call)).length
      await reconcile(net, lock, { dryRun: true })
      expect(probes()).toBe(0)
      expect((await reconcile(net, lock)).complete).toBe(true)
      expect(calls.filter(isRestore).length).toBeGreaterThan(1)
      expect(probes()).toBe(1)
      expect((await node.dump()).join('\n')).not.toContain('netsweep-probe')
    } finally {
      host.close()
    }
  },
)
