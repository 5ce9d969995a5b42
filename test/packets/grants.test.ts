/**
 * Grants: who is let through by one, and who is not. Only on kernels that have cls_flower and act_skbedit, so in a guest of
 * scripts/vm.sh where this machine's has not.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { lack } from '../support/machine.js'
import { describeKnobs, EXTREME_KNOBS, turn } from './knobs.js'
import { BRIEF, GATEWAY, type Name, Network, PATIENT, portOf, WORKLOADS } from './network.js'
import type { Kind } from './prober.js'
import type { By, Workload } from './wirer.js'

const KINDS: readonly Kind[] = ['tcp', 'udp', 'icmp', 'arp']
/** On which nobody listens. */
const CLOSED = 8000
const NO = KINDS.map(() => 'no')

/** The workload that grants, and the one that it admits. */
interface Pair {
  readonly api: Workload
  readonly billing: Workload
}

const PAIR: Pair = {
  api: { ...WORKLOADS.api, allow: [WORKLOADS.billing.identity] },
  billing: WORKLOADS.billing,
}

/** Asks by every kind of probe, with patience for what is to be answered. */
async function expectAnswers(
  network: Network,
  [from, to, dst]: readonly [Name, Name, string],
  expected: readonly string[],
): Promise<void> {
  await network.at(to).heard()
  const wait = (i: number): number => (expected[i] === 'no' ? BRIEF : PATIENT)
  const answers = await network
    .at(from)
    .probe(KINDS.map((kind, i) => ({ kind, dst, port: portOf(from), wait: wait(i) })))
  const heard = await network.at(to).heard()
  const found = KINDS.map((kind, i) => {
    const answer = answers[i] ?? ''
    if (answer !== '' && !answer.startsWith('!')) return answer
    return `${kind} ${portOf(from)}` in heard ? 'unanswered, but it arrived' : 'no'
  })
  expect(found, `${from} asks ${to} at ${dst}`).toEqual(expected)
}

async function expectGrant(network: Network, { api, billing }: Pair): Promise<void> {
  await network.run('conntrack -F 2>/dev/null')
  const hears = `api hears ${billing.address}`
  await expectAnswers(network, ['billing', 'api', api.address], [hears, hears, 'yes', 'yes'])
  const related = [{ kind: 'udp', dst: api.address, port: CLOSED, wait: PATIENT }] as const
  expect(await network.at('billing').probe(related)).toEqual(['!ECONNREFUSED'])

  // Each is a neighbour of the other, or no reply could find its way; but nothing is let through that way.
  await expectAnswers(network, ['api', 'billing', billing.address], ['no', 'no', 'no', 'yes'])
  for (const mate of ['web', 'acct'] as const) await expectAnswers(network, [mate, 'billing', billing.address], NO)
  for (const mate of ['ledger', 'acct'] as const) await expectAnswers(network, [mate, 'api', api.address], NO)
}

/** The same of those who do not ask on their own link, but send it to the node. */
async function expectNobodyElse(network: Network, { api, billing }: Pair): Promise<void> {
  for (const [mate, to, { address }] of [
    ['web', 'billing', billing],
    ['ledger', 'api', api],
    ['acct', 'api', api],
    ['acct', 'billing', billing],
  ] as const) {
    await network.run(`ip -n ${mate} route replace ${address} via ${GATEWAY}`)
    await expectAnswers(network, [mate, to, address], NO)
  }
}

const GRANTING_FIRST: Name[] = ['api', 'billing', 'web', 'ledger', 'acct']
const GRANTING_LAST: Name[] = ['acct', 'ledger', 'billing', 'web', 'api']

let reason: string | undefined
beforeAll(async () => {
  reason = await lack('flower')
})
beforeEach((context) => {
  if (reason !== undefined) context.skip(reason)
})

/** The same network for all tests of a block, as each of them leaves it. */
function networkOf(order: readonly Name[], by: By): () => Network {
  let network: Network | undefined
  beforeAll(async () => {
    if (reason === undefined) network = await Network.create(order, { by, changes: { api: PAIR.api } })
  })
  afterAll(() => network?.[Symbol.asyncDispose]())
  return () => {
    if (network === undefined) throw new Error('no network')
    return network
  }
}

describe.each<{ by: By; first: string; order: Name[] }>([
  { by: 'library', first: 'admitted', order: GRANTING_LAST },
  { by: 'oracle', first: 'granting', order: GRANTING_FIRST },
])('wired by the $by, the $first workload first', ({ by, order }) => {
  const network = networkOf(order, by)

  // In a guest the oracle takes minutes to wire a network.
  const tagged = by === 'library' ? { tags: 'guest' } : {}
  test('the admitted workload reaches the granting one, and nobody else does', tagged, async () => {
    await expectGrant(network(), PAIR)
    await expectNobodyElse(network(), PAIR)
  })
})

describe('wired by the library, the granting workload first', { tags: 'guest' }, () => {
  const network = networkOf(GRANTING_FIRST, 'library')
  let pair = PAIR

  test('the admitted workload reaches the granting one, and nobody else does', async () => {
    await expectGrant(network(), pair)
    await expectNobodyElse(network(), pair)
  })

  for (const knobs of EXTREME_KNOBS.toReversed()) {
    test(`so it is with ${describeKnobs(knobs)}`, async (context) => {
      await turn(context, network(), knobs)
      await expectGrant(network(), pair)
      await expectNobodyElse(network(), pair)
    })
  }

  test.each<{ mover: keyof Pair; address: string }>([
    { mover: 'api', address: '10.128.3.17' },
    { mover: 'billing', address: '10.128.3.19' },
  ])('when $mover has moved, the grant holds at its new address, and not for the heir of the old one', async (move) => {
    const { mover, address } = move
    const { by } = network()
    const { tenant, address: old } = pair[mover]
    pair = { ...pair, [mover]: { ...pair[mover], address } }
    await network().leave(mover)
    await by.deploy(pair[mover])
    await network().enter(mover)
    await expectGrant(network(), pair)

    await by.sweep()
    const heir = { ...WORKLOADS.desk, tenant, identity: `${tenant}/prod/heir`, address: old }
    await by.deploy(heir)
    await network().enter('desk')
    const [from, to]: [Name, Name] = mover === 'api' ? ['billing', 'desk'] : ['desk', 'api']
    await expectAnswers(network(), [from, to, mover === 'api' ? old : pair.api.address], NO)
    await expectGrant(network(), pair)
    await network().stop('desk')
  })

  /** As a client would that still knows the way. */
  async function expectNone(): Promise<void> {
    const { address } = pair.api
    await network().run('conntrack -F 2>/dev/null; ip -n billing neigh flush dev eth0')
    await expectAnswers(network(), ['billing', 'api', address], NO)
    await network().run(`ip -n billing route add ${address} via ${GATEWAY}`)
    await expectAnswers(network(), ['billing', 'api', address], NO)
    await network().run(`ip -n billing route del ${address}`)
  }

  test('deployed without the grant, it admits nobody any more, and deployed with it again it does', async () => {
    await network().by.deploy({ ...pair.api, allow: [] })
    await expectNone()
    await network().by.deploy(pair.api)
    await expectGrant(network(), pair)
  })

  test('stopped, swept and deployed without the grant, it admits nobody any more', async () => {
    await network().stop('api')
    await network().by.sweep()
    await network().by.deploy({ ...pair.api, allow: [] })
    await network().enter('api')
    await expectNone()
  })
})
