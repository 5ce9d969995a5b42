import { expect, test } from 'vitest'
import { lines, TestNode } from '../support/node.js'

// iptables-nft-save 1.8.9 leaves out what looks into a set, without a remark.
test('a native nft rule that prints like our ACCEPT is not taken for it, and the bridge stays with its rules', async () => {
  await using node = await TestNode.create()
  await node.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  await node.oracle('deploy', '--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex')
  await node.run('ip link del veth9; ip netns del billing')
  const native = 'iifname "yah0-91auqknbeu" ip saddr { 192.0.2.1, 192.0.2.2 } counter accept'
  await node.run(`nft 'insert rule ip filter FORWARD ${native}'`)
  const accepts = lines(await node.run('iptables-nft-save -t filter')).filter((line) => line.endsWith('-j ACCEPT'))
  expect(accepts.filter((line) => line === '-A FORWARD -i yah0-91auqknbeu -j ACCEPT')).toHaveLength(2)

  const swept = await node.netsweep(['sweep', '--json'])

  expect(await node.run('nft list chain ip filter FORWARD')).toContain('{ 192.0.2.1, 192.0.2.2 }')
  expect(await node.run('ip link show yah0-91auqknbeu')).toContain('yah0-91auqknbeu')
  expect(swept.status).toBe(1)
  expect(swept.json).toMatchObject({ complete: false })

  await node.run(
    `nft delete rule ip filter FORWARD handle "$(nft -a list chain ip filter FORWARD | sed -n 's/.*192.0.2.1.*handle //p')"`,
  )
  expect((await node.netsweep(['sweep'])).status).toBe(0)
  expect((await node.dump()).join('\n')).not.toContain('yah0-91auqknbeu')
})
