import { expect, test } from 'vitest'
import { TestNode } from '../support/node.js'
import { nameOfWrite, onWrites, oracleArgs, Project, spec } from './deploys.js'

test('try', async () => {
  await using one = await TestNode.create()
  await using two = await TestNode.create()
  using project = await Project.on(one)
  let t = performance.now()
  const lap = (w: string) => {
    console.log(w, Math.round(performance.now() - t))
    t = performance.now()
  }
  const host = onWrites(project.host, async (w) => {
    console.log(nameOfWrite(w))
  })
  const d = await project.deploy(spec('api', 7, 'acme'), host)
  lap('deploy')
  console.log(d)
  await project.deploy(spec('web', 8, 'acme'))
  lap('second')
  await project.deploy(spec('acct', 2))
  lap('singleton')
  console.log(await project.deploy(spec('acct', 2)))
  lap('re')
  await two.oracle(...oracleArgs(spec('api', 7, 'acme')))
  lap('oracle')
  await two.oracle(...oracleArgs(spec('web', 8, 'acme')))
  lap('oracle')
  await two.oracle(...oracleArgs(spec('acct', 2)))
  lap('oracle')
  await one.dump()
  lap('dump')
  expect(await one.dump()).toEqual(await two.dump())
  await one.oracle('sweep')
  lap('oracle sweep')
  await project.sweep()
  lap('sweep')
})
