/** What a pass with nothing to do asks, on a node that others have filled. How long it takes is for bench/. */
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Host } from '../../src/kernel/host.js'
import type { Message } from '../../src/kernel/netlink/message.js'
import { readMessages } from '../../src/kernel/netlink/message.js'
import { delegate } from '../support/fake-host.js'
import { TestNode } from '../support/node.js'
import { changesOf, isDump, isRequest, isRun, machine, nameOf, pass, question, recorded } from './passes.js'

const CROWD = fileURLToPath(new URL('../../bench/crowd.sh', import.meta.url))

let node: TestNode
let host: Host

beforeAll(async () => {
  node = await TestNode.create()
  await node.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  await node.oracle('deploy', '--workload', 'api', '--addr', '10.128.3.7', '--tenant', 'acme')
  await node.oracle('deploy', '--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex')
  host = await machine(node)
})
afterAll(async () => {
  host.close()
  await node[Symbol.asyncDispose]()
})

interface Traffic {
  readonly questions: readonly Message[]
  readonly exchanges: number
  /** Bytes of all answers. */
  readonly bytes: number
}

async function traffic(): Promise<Traffic> {
  const questions: Message[] = []
  let bytes = 0
  let exchanges = 0
  const counting: Host = {
    ...delegate(host),
    async exchange(requests, options) {
      exchanges++
      questions.push(...readMessages(requests))
      const answer = await host.exchange(requests, options)
      bytes += answer.length
      return answer
    },
  }
  expect((await pass(counting)).steps).toEqual([])
  return { questions, exchanges, bytes }
}

const linkCount = async (): Promise<number> => Number(await node.run('ip -o link | wc -l'))

test('neither the questions nor the answers grow with the number of other links', async () => {
  await node.run(`bash '${CROWD}' links 100`)
  const few = await traffic()
  // The same bridges beside it: they are listed, and nothing else of the crowd is.
  await node.run('for ((i = 101; i <= 350; i++)); do echo "link add vc$i type veth peer name vp$i"; done | ip -batch -')
  expect(await linkCount()).toBeGreaterThan(600)
  const many = await traffic()
  expect(many.questions.map(question)).toEqual(few.questions.map(question))
  expect(many.exchanges).toBe(few.exchanges)
  expect(many.bytes).toBe(few.bytes)
  expect(many.exchanges).toBeLessThanOrEqual(8)
  expect(many.bytes).toBeLessThan(64_000)
})

test('no link is listed: the bridge module tells the bridges', async () => {
  const { calls, swept } = await recorded(host)
  expect(swept.steps).toEqual([])
  expect(changesOf(calls)).toEqual([])
  const dumps = calls.filter(isRequest).filter(isDump)
  // nameOf knows no dump of all addresses or of all neighbours: such a question would fail it.
  const names = dumps.map(nameOf).map((name) => name.replace(/\d+$/, 'N'))
  expect(names.filter((name) => /\b(links|ports)\b/.test(name))).toEqual([])
  expect(calls.filter(isRun).map(({ command }) => command)).toEqual(['iptables-nft-save'])
})

test('the kernel itself was asked no more: what the process sends and receives', async () => {
  // The sizes that the kernel counted for a dump of all links, for comparison: it would not fit.
  const all = Buffer.byteLength(await node.run('ip -j link'))
  const { bytes } = await traffic()
  expect(bytes).toBeLessThan(all / 3)
})
