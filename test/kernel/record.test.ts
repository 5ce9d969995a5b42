/** What a pass records before it removes anything puts all of it back. */
import { describe, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import { UsageError } from '../../src/node/errors.js'
import { type Backend, TestNode } from '../support/node.js'
import { difference } from '../support/snapshot.js'
import { GLOBEX, hooked, isRead, isRestore, leftBehind, machine, pass, stop } from './passes.js'

test('a sweep and its record: the node is what it was', async () => {
  await using node = await TestNode.create()
  await leftBehind(node)
  const host = await machine(node)
  try {
    const dump = await node.dump()
    const before = await node.snapshot()
    let script = ''
    let written = 0
    const recorder = {
      async record(text: string) {
        expect(written, 'nothing is removed before it is recorded').toBe(0)
        script += text
      },
    }
    const watched = hooked(host, async ({ requests = [] }) => {
      written += requests.filter((request) => !isRead(request)).length
    })
    expect((await pass(watched, { recorder })).complete).toBe(true)
    expect(await node.dump()).not.toEqual(dump)
    await node.run('sh -s', { input: script })
    expect(await node.dump()).toEqual(dump)
    // A bridge that is made anew has another index and MAC, learned neighbours come back by themselves, and rules of one
    // priority may stand in another order.
    const byNature = /^(links|addresses|neighbours|nftables): |: moved /
    const changed = difference(before, await node.snapshot())
    expect(changed.filter((line) => !byNature.test(line))).toEqual([])
    // And a pass takes it away again.
    expect((await pass(host)).complete).toBe(true)
  } finally {
    host.close()
  }
})

test('when nothing can be recorded, nothing is removed', async () => {
  await using node = await TestNode.create()
  await leftBehind(node)
  const host = await machine(node)
  try {
    const before = await node.snapshot()
    const recorder = { record: () => Promise.reject(new UsageError('--record', 'no')) }
    await expect(pass(host, { recorder })).rejects.toBeInstanceOf(UsageError)
    expect(difference(before, await node.snapshot())).toEqual([])
  } finally {
    host.close()
  }
})

describe.each<Backend>(['nft', 'legacy'])(
  'a record of what was not removed in one go is put back, and again (%s)',
  (backend) => {
    /** The leftovers of one tenant: its bridge is the only one. */
    async function oneTenant(): Promise<TestNode> {
      const node = await TestNode.create({ backend })
      const workload = ['--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex']
      await node.oracle('deploy', ...workload, '--identity', 'globex/prod/billing', '--allow', 'acme/prod/api')
      await stop(node, 'billing', 9)
      await node.run(`ip neigh add proxy 10.128.3.9 dev ${GLOBEX}`)
      return node
    }

    /** A pass with its record, all of it in one file. */
    async function recordedPass(node: TestNode, through = (host: Host): Host => host) {
      const host = await machine(node)
      const scripts: string[] = []
      try {
        const recorder = { record: async (script: string) => void scripts.push(script) }
        const swept = await pass(through(host), { recorder })
        return { swept, scripts, undo: scripts.join('') }
      } finally {
        host.close()
      }
    }

    async function putBackTwice(node: TestNode, undo: string, before: readonly string[]): Promise<void> {
      for (const time of ['once', 'twice']) {
        expect(await node.tryRun('sh -s', { input: undo }), time).toMatchObject({ status: 0, stderr: '' })
        expect(await node.dump(), time).toEqual(before)
      }
    }

    test('the bridge was kept, since somebody else holds a chain', async () => {
      await using node = await oneTenant()
      await node.run(`iptables-${backend} -w -t mangle -A OUTPUT -p tcp -j yah-gr-10.128.3.9`)
      const before = await node.dump()
      const { swept, undo } = await recordedPass(node)
      expect(swept.complete).toBe(false)
      expect(await node.run(`ip link show ${GLOBEX}`)).toContain(GLOBEX)
      expect(await node.dump()).not.toEqual(before)
      await putBackTwice(node, undo, before)
    })

    test('a table changed meanwhile, so it was planned twice', async () => {
      await using node = await oneTenant()
      const before = await node.dump()
      let changed = false
      const { swept, scripts, undo } = await recordedPass(node, (host) =>
        hooked(host, async ({ run }) => {
          if (changed || run === undefined || !isRestore(run)) return
          changed = true
          await node.run(`iptables-${backend} -w -t mangle -D PREROUTING -s 10.128.3.9 -j yah-id-10.128.3.9`)
        }),
      )
      expect({ complete: swept.complete, scripts: scripts.length }).toEqual({ complete: true, scripts: 2 })
      await putBackTwice(node, undo, before)
    })

    test('a kernel without IPv6 has nothing to be set', async () => {
      await using node = await oneTenant()
      const before = await node.dump()
      const { undo } = await recordedPass(node)
      await node.run('mount --no-mtab -t tmpfs tmpfs /proc/sys/net/ipv6')
      await putBackTwice(node, undo, before)
    })

    test('what cannot be put back is named, the rest is put back, and the status is 1', async () => {
      await using node = await oneTenant()
      const before = await node.dump()
      const { undo } = await recordedPass(node)
      const similar = 'priority 1202 from 10.1.1.1 iif'
      const destination = `${GLOBEX} to 10.128.3.0/24 fwmark 0/0x2000000`
      await node.run(`ip rule add ${similar} ${destination} prohibit`)
      const { status, stderr } = await node.tryRun('sh -s', { input: undo })
      expect({ status, stderr: stderr.trimEnd().split('\n') }).toEqual({
        status: 1,
        stderr: [
          'RTNETLINK answers: File exists',
          `not put back: ip rule add priority 1202 iif ${destination} prohibit`,
        ],
      })
      await node.run(`ip rule del ${similar} ${destination} prohibit`)
      await putBackTwice(node, undo, before)
    })
  },
)
