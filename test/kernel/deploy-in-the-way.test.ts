import { expect, test } from 'vitest'
import { TestNode } from '../support/node.js'

// The kernel does not compare `not` when a rule is added, and answers EEXIST.
test('a prohibit that the kernel takes another rule for: the deploy fails, names that rule, and is undone', async () => {
  await using node = await TestNode.create()
  const rule = 'priority 1202 iif yah0-91auqknbeu to 10.128.3.0/24 fwmark 0/0x2000000 prohibit'
  await node.run(`ip rule add not ${rule}`)
  const before = await node.dump()
  const call = ['deploy', '--workload', 'billing', '--address', '10.128.3.9', '--tenant', 'globex']

  const { status, stderr } = await node.netsweep(call)
  expect(status).toBe(1)
  expect(stderr).toContain(`ip rule del not ${rule}; it was undone`)
  expect(await node.dump()).toEqual(before)

  await node.run(`ip rule del not ${rule}`)
  expect((await node.netsweep(call)).status).toBe(0)
})
