/** Once a deploy has returned, a workload's first packet passes. */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { Network, OTHER_PORT, OUTSIDE } from './network.js'
import { PYTHON_PATH } from './prober.js'
import { Talker } from './talker.js'

const SCRIPT = fileURLToPath(new URL('./first.py', import.meta.url))
/** Without the wait for the carrier, about every second one is lost. */
const ROUNDS = 8

test.each([
  ['of a new tenant', (round: number) => `tenant-${round}`],
  ['of a tenant that is there', () => 'acme'],
  ['of the singleton tenant', () => 'singleton'],
])('the first packet of a workload %s', async (_what, tenantOf) => {
  await using network = await Network.create(['acct', 'api'])
  const sender = new Talker(
    await network.node.start('python3', ['-B', SCRIPT], { env: { PATH: PYTHON_PATH } }),
    'first.py',
  )
  await sender.ready()
  const answers: unknown[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const [workload, tenant] = [`new-${round}`, tenantOf(round)]
    await network.by.deploy({
      workload,
      address: `10.128.3.${20 + round}`,
      tenant,
      identity: `${tenant}/prod/${workload}`,
    })
    answers.push(await sender.ask(workload, OUTSIDE, String(OTHER_PORT)))
  }
  expect(answers).toEqual(Array(ROUNDS).fill('outside hears 192.0.2.1'))
})
