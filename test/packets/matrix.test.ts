/** Who reaches whom on a node, with real packets. The oracle's node is the control: it should behave likewise. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { lack } from '../support/machine.js'
import type { Backend } from '../support/node.js'
import { ALL_KNOBS, DELETE_PROHIBITS, describeKnobs, EXTREME_KNOBS, FLUSH_IPTABLES, type Knobs, turn } from './knobs.js'
import { askMatrix, expectedMatrix, ISOLATED, OPEN } from './matrix.js'
import { NAMES, Network, WORKLOADS } from './network.js'
import type { By } from './wirer.js'

const WIRED: readonly { readonly by: By; readonly backend: Backend; readonly knobs: readonly Knobs[] }[] = [
  { by: 'library', backend: 'nft', knobs: ALL_KNOBS },
  { by: 'library', backend: 'legacy', knobs: EXTREME_KNOBS },
  { by: 'oracle', backend: 'nft', knobs: EXTREME_KNOBS },
]

describe.each(WIRED)('wired by the $by, $backend', ({ by, backend, knobs: all }) => {
  let network: Network
  let reason: string | undefined

  beforeAll(async () => {
    reason = await lack(backend)
    if (reason === undefined) network = await Network.create(NAMES, { by, backend })
  })
  beforeEach((context) => {
    if (reason !== undefined) context.skip(reason)
  })
  afterAll(() => network?.[Symbol.asyncDispose]())

  test('workloads that ask for everybody on their own link', async () => {
    expect(await askMatrix(network)).toEqual(expectedMatrix())
  })

  describe('workloads that send to the node what is for other tenants', () => {
    beforeAll(() => network?.useGateway())

    for (const knobs of all) {
      test(describeKnobs(knobs), async (context) => {
        await turn(context, network, knobs)
        expect(await askMatrix(network)).toEqual(expectedMatrix())
      })
    }

    test('without any prohibit, iptables alone keeps tenants apart', async () => {
      const restore = await network.run(DELETE_PROHIBITS)
      expect(await askMatrix(network)).toEqual(expectedMatrix())
      await network.run(restore)
    })

    test('without any iptables rule, the prohibits alone keep tenants apart', async () => {
      await network.run(FLUSH_IPTABLES)
      expect(await askMatrix(network, ISOLATED, 'workloads')).toEqual(expectedMatrix(WITHOUT_NAT, 'workloads'))
    })

    test('without both, tenants reach each other, so the probes can tell', async () => {
      await network.run(DELETE_PROHIBITS)
      expect(await askMatrix(network, OPEN, 'workloads')).toEqual(expectedMatrix(OPEN, 'workloads'))
    })

    // The oracle's deploy makes every namespace anew.
    if (by === 'library') {
      test('deployed again, everything is as it was, and the namespaces are the same ones', async () => {
        for (const name of NAMES) await network.by.deploy(WORKLOADS[name])
        expect(await askMatrix(network)).toEqual(expectedMatrix())
      })
    }
  })
})

const WITHOUT_NAT = { ...ISOLATED, masquerades: false }
