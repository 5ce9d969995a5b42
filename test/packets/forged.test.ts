/** Sources that are not the sender's own, marks that are set inside a workload, and IPv6: none of it gets anywhere. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { describeKnobs, FLUSH_IPTABLES, type Knobs, turn } from './knobs.js'
import {
  BRIDGES,
  BRIEF,
  GATEWAY,
  MESH,
  NAMES,
  type Name,
  Network,
  NODE,
  OTHER_PORT,
  OUTSIDE,
  PATIENT,
  type Place,
  WORKLOADS,
} from './network.js'
import type { Forged } from './prober.js'

const KINDS = ['tcp', 'udp', 'icmp'] as const
const ADDRESSES: Record<Place, string> = {
  ...(Object.fromEntries(NAMES.map((name) => [name, WORKLOADS[name].address])) as Record<Name, string>),
  node: GATEWAY,
  outside: OUTSIDE,
  mesh: MESH,
}
const FREE = '10.128.3.77'

let network: Network
beforeAll(async () => {
  network = await Network.create()
  await network.useGateway()
})
afterAll(() => network?.[Symbol.asyncDispose]())

/** The places among `to` at which anything arrives of what `from` sends by these sources, as `PLACE KIND`. */
async function arrivals(from: Place, bridge: string | undefined, to: readonly Place[], sources: readonly string[]) {
  const mac = await network.macOf(bridge)
  const packets = to.flatMap((place) =>
    KINDS.flatMap((kind) =>
      sources
        .filter((src) => src !== ADDRESSES[place])
        .map((src): Forged => ({ kind, src, dst: ADDRESSES[place], port: OTHER_PORT, mac })),
    ),
  )
  await network.run('conntrack -F 2>/dev/null')
  await Promise.all(to.map((place) => network.at(place).heard()))
  for (let times = 0; times < 3; times++) {
    await network.at(from).forge(packets)
    // What was sent before has arrived when this one has.
    const answers = await network.at(from).probe([{ kind: 'icmp', dst: GATEWAY, port: OTHER_PORT - 1, wait: PATIENT }])
    expect(answers).toEqual(['yes'])
  }
  const heard = await Promise.all(
    to.map(async (place) => {
      const counts = await network.at(place).heard()
      return Object.keys(counts).flatMap((what) =>
        what.endsWith(` ${OTHER_PORT}`) ? [`${place} ${what.split(' ')[0]}`] : [],
      )
    }),
  )
  return heard.flat().sort()
}

const everywhere = (places: readonly Place[]): string[] =>
  places.flatMap((place) => KINDS.map((kind) => `${place} ${kind}`)).sort()

describe('the source', () => {
  const KNOBS: readonly Knobs[] = [
    { bridgeNetfilter: false, forward: 'ACCEPT', rpFilter: 0 },
    { bridgeNetfilter: true, forward: 'ACCEPT', rpFilter: 0 },
    { bridgeNetfilter: false, forward: 'ACCEPT', rpFilter: 2 },
    { bridgeNetfilter: true, forward: 'ACCEPT', rpFilter: 2 },
  ]
  const FOREIGN = [
    ADDRESSES.billing,
    ADDRESSES.acct,
    FREE,
    GATEWAY,
    NODE.lan,
    NODE.mesh,
    MESH,
    OUTSIDE,
    '127.0.0.1',
    '0.0.0.0',
  ]
  const TARGETS: Place[] = ['acct', 'billing', 'node', 'outside', 'mesh']

  for (const knobs of KNOBS) {
    test(`that a tenant spoofs gets nowhere: ${describeKnobs(knobs)}`, async (context) => {
      await turn(context, network, knobs)
      expect(await arrivals('api', BRIDGES.acme, TARGETS, FOREIGN)).toEqual([])
      // The same way of sending, by its own address.
      expect(await arrivals('api', BRIDGES.acme, ['outside'], [ADDRESSES.api])).toEqual(everywhere(['outside']))
      expect(await arrivals('api', BRIDGES.acme, ['node'], [ADDRESSES.api])).toEqual(['node icmp'])
    })
  }

  test('that a workload of the singleton tenant spoofs gets to no tenant', async (context) => {
    await turn(context, network, { bridgeNetfilter: true, forward: 'ACCEPT', rpFilter: 2 })
    const sources = [ADDRESSES.billing, ADDRESSES.web, ADDRESSES.acct, FREE, GATEWAY, MESH, OUTSIDE]
    expect(await arrivals('acct', BRIDGES.singleton, ['api', 'web', 'billing'], sources)).toEqual([])
    expect(await arrivals('acct', BRIDGES.singleton, ['outside'], [ADDRESSES.acct])).toEqual(everywhere(['outside']))
  })

  test('that others spoof gets to no tenant', async () => {
    const inSubnet = [ADDRESSES.billing, ADDRESSES.web, ADDRESSES.acct, FREE, GATEWAY]
    for (const [from, link, own] of [
      ['outside', 'uplink', OUTSIDE],
      ['mesh', 'mesh0', MESH],
    ] as const) {
      expect(await arrivals(from, link, ['api', 'web'], inSubnet)).toEqual([])
      expect(await arrivals(from, link, ['api', 'web'], [own])).toEqual(everywhere(['api', 'web']))
    }
  })
})

describe('a mark that is set inside a workload does not leave it', () => {
  const MARKS = [0x1000000, 0x2000000, 0x3000000, 6249]
  const TARGETS: Place[] = ['acct', 'billing', 'mesh']

  async function heardOf(mark: number, wait: number): Promise<string[]> {
    await network.run('conntrack -F 2>/dev/null')
    await Promise.all(TARGETS.map((place) => network.at(place).heard()))
    const probes = TARGETS.flatMap((place) =>
      KINDS.map((kind) => ({ kind, dst: ADDRESSES[place], port: OTHER_PORT, wait, mark })),
    )
    const answers = await network.at('api').probe(probes)
    expect(answers.filter((answer) => answer !== '' && !answer.startsWith('!'))).toEqual([])
    const heard = await Promise.all(TARGETS.map((place) => network.at(place).heard()))
    return heard.flatMap((counts, i) => Object.keys(counts).map((what) => `${TARGETS[i]} ${what.split(' ')[0]}`)).sort()
  }

  test.each(MARKS)('by SO_MARK: %i', async (mark) => {
    expect(await heardOf(mark, BRIEF)).toEqual([])
  })

  test.each(MARKS)('by its own iptables: %i', async (mark) => {
    const rule = (chain: string) => `iptables-nft -w -t mangle -A ${chain} -j MARK --set-mark ${mark}`
    await network.run(`nsenter --net=/run/netns/api -- bash -euc '${rule('OUTPUT')}; ${rule('POSTROUTING')}'`)
    expect(await heardOf(0, BRIEF)).toEqual([])
    await network.run(`nsenter --net=/run/netns/api -- iptables-nft -w -t mangle -F`)
  })

  test('the same mark, set by the node, would let all of it through', async () => {
    const rule = `PREROUTING -i ${BRIDGES.acme} -j MARK --set-mark 0x2000000/0x2000000`
    await network.run(`iptables-nft -w -t mangle -A ${rule}`)
    expect(await heardOf(0, BRIEF)).toEqual(everywhere(TARGETS))
    await network.run(`iptables-nft -w -t mangle -D ${rule}`)
  })
})

describe('IPv6', () => {
  const GLOBAL = 'fd00::1'
  const REACHED = KINDS.map(() => true)

  /** Whether the node answers the tenant by that address, when nobody has to be asked for its link address. */
  async function reaches(address: string, wait: number): Promise<boolean[]> {
    const scoped = address.startsWith('fe80:') ? `${address}%eth0` : address
    await network.run(`ip -n api -batch - <<END
neigh replace ${address} lladdr ${await network.macOf(BRIDGES.acme)} dev eth0
route replace ${address} dev eth0
END`)
    const answers = await network.at('api').probe(KINDS.map((kind) => ({ kind, dst: scoped, port: OTHER_PORT, wait })))
    return answers.map((answer) => answer !== '' && !answer.startsWith('!'))
  }

  const unreached = REACHED.map(() => false)

  test("the node is out of a tenant's reach, by its bridge's link-local address and by any other", async () => {
    const disable = `net.ipv6.conf.${BRIDGES.acme}.disable_ipv6`
    await network.run(`ip -6 addr add ${GLOBAL}/128 dev lo nodad`)
    expect(await network.run(`ip -6 -o addr show dev ${BRIDGES.acme}`)).toBe('')
    expect(await reaches(GLOBAL, BRIEF)).toEqual(unreached)

    await network.run(`sysctl -qw ${disable}=0`)
    const local = (await network.run(`ip -6 -o addr show dev ${BRIDGES.acme}`)).match(/fe80:[^/]*/)?.[0] ?? ''
    expect(await reaches(local, PATIENT)).toEqual(REACHED)
    expect(await reaches(GLOBAL, PATIENT)).toEqual(REACHED)

    await network.by.deploy(WORKLOADS.web)
    expect(await network.run(`sysctl -n ${disable}`)).toBe('1\n')
    expect(await reaches(local, BRIEF)).toEqual(unreached)
    expect(await reaches(GLOBAL, BRIEF)).toEqual(unreached)
  })
})

describe('without iptables', () => {
  beforeAll(() => network.run(FLUSH_IPTABLES))
  const SOURCES = [ADDRESSES.billing, ADDRESSES.acct, FREE, GATEWAY, MESH]

  test("a tenant bridge's own strict reverse-path check stops what is spoofed", async (context) => {
    await turn(context, network, { bridgeNetfilter: false, forward: 'ACCEPT', rpFilter: 0 })
    expect(await arrivals('api', BRIDGES.acme, ['acct', 'billing', 'node', 'outside', 'mesh'], SOURCES)).toEqual([])
  })

  test('and with a loose one, it still gets to no other tenant, and the probes can tell', async (context) => {
    await turn(context, network, { bridgeNetfilter: false, forward: 'ACCEPT', rpFilter: 2 })
    expect(await arrivals('api', BRIDGES.acme, ['acct', 'billing', 'mesh'], SOURCES)).toEqual([])
    expect(await arrivals('api', BRIDGES.acme, ['outside'], [ADDRESSES.billing])).toEqual(everywhere(['outside']))
  })
})
