/**
 * Grants: who is let through by one, and who is not. Only on kernels that have cls_flower and act_skbedit, so in a guest of
 * scripts/vm.sh where this machine's has not.
 */
import { describe, expect, test } from 'vitest'
import { need } from '../support/machine.js'
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

/** What becomes of every kind of probe. */
async function ask(network: Network, from: Name, to: Name, dst: string, wait: number): Promise<string[]> {
  await network.at(to).heard()
  const answers = await network.at(from).probe(KINDS.map((kind) => ({ kind, dst, port: portOf(from), wait })))
  const heard = await network.at(to).heard()
  return KINDS.map((kind, i) => {
    const answer = answers[i] ?? ''
    if (answer !== '' && !answer.startsWith('!')) return answer
    return `${kind} ${portOf(from)}` in heard ? 'unanswered, but it arrived' : 'no'
  })
}

async function expectGrant(network: Network, { api, billing }: Pair): Promise<void> {
  await network.run('conntrack -F 2>/dev/null')
  const hears = `api hears ${billing.address}`
  expect(await ask(network, 'billing', 'api', api.address, PATIENT)).toEqual([hears, hears, 'yes', 'yes'])
  const related = [{ kind: 'udp', dst: api.address, port: CLOSED, wait: PATIENT }] as const
  expect(await network.at('billing').probe(related)).toEqual(['!ECONNREFUSED'])

  // Each is a neighbour of the other, or no reply could find its way; but nothing is let through that way.
  expect(await ask(network, 'api', 'billing', billing.address, BRIEF)).toEqual(['no', 'no', 'no', 'yes'])
  for (const mate of ['web', 'acct'] as const)
    expect([mate, await ask(network, mate, 'billing', billing.address, BRIEF)]).toEqual([mate, NO])
  for (const mate of ['ledger', 'acct'] as const)
    expect([mate, await ask(network, mate, 'api', api.address, BRIEF)]).toEqual([mate, NO])
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
    expect([mate, await ask(network, mate, to, address, BRIEF)]).toEqual([mate, NO])
  }
}

const GRANTING_FIRST: Name[] = ['api', 'billing', 'web', 'ledger', 'acct']
const GRANTING_LAST: Name[] = ['acct', 'ledger', 'billing', 'web', 'api']

describe.each<{ by: By; order: Name[]; first: string }>([
  { by: 'library', order: GRANTING_FIRST, first: 'the granting workload' },
  { by: 'library', order: GRANTING_LAST, first: 'the admitted workload' },
  { by: 'oracle', order: GRANTING_FIRST, first: 'the granting workload' },
])('wired by the $by, $first first', ({ by, order }) => {
  test('the admitted workload reaches the granting one, and nobody else does', async (context) => {
    await need(context, 'flower')
    await using network = await Network.create(order, { by, changes: { api: PAIR.api } })
    await expectGrant(network, PAIR)
    await expectNobodyElse(network, PAIR)
  })
})

describe.each<{ mover: keyof Pair; address: string }>([
  { mover: 'api', address: '10.128.3.17' },
  { mover: 'billing', address: '10.128.3.19' },
])('when $mover has moved to $address', ({ mover, address }) => {
  test('the grant holds there, and at the old address no more', async (context) => {
    await need(context, 'flower')
    await using network = await Network.create(GRANTING_FIRST, { changes: { api: PAIR.api } })
    await expectGrant(network, PAIR)
    const moved: Pair = { ...PAIR, [mover]: { ...PAIR[mover], address } }
    await network.leave(mover)
    await network.by.deploy(moved[mover])
    await network.enter(mover)
    await expectGrant(network, moved)

    // Whoever gets the old address is nobody's peer.
    const heir: Name = 'desk'
    const { tenant, address: old } = PAIR[mover]
    await network.by.sweep()
    await network.by.deploy({ ...WORKLOADS[heir], tenant, identity: `${tenant}/prod/heir`, address: old })
    await network.enter(heir)
    const [from, to]: [Name, Name] = mover === 'api' ? ['billing', heir] : [heir, 'api']
    expect(await ask(network, from, to, PAIR.api.address, BRIEF)).toEqual(NO)
    await expectGrant(network, moved)
  })
})

describe('a grant that is withdrawn', () => {
  test.for(['the same deploy without it', 'a stop and a sweep of the granting workload'])(
    'by %s',
    async (how, context) => {
      await need(context, 'flower')
      await using network = await Network.create(GRANTING_FIRST, { changes: { api: PAIR.api } })
      await expectGrant(network, PAIR)
      if (how.startsWith('a stop')) {
        await network.stop('api')
        await network.by.sweep()
      }
      await network.by.deploy(WORKLOADS.api)
      if (how.startsWith('a stop')) await network.enter('api')
      await network.run(`conntrack -F 2>/dev/null; ip -n billing neigh flush dev eth0`)
      expect(await ask(network, 'billing', 'api', PAIR.api.address, BRIEF)).toEqual(NO)
      await network.run(`ip -n billing route replace ${PAIR.api.address} via ${GATEWAY}`)
      expect(await ask(network, 'billing', 'api', PAIR.api.address, BRIEF)).toEqual(NO)
    },
  )
})
