/** Deploys without end, under constant fire: nothing gets across, and nothing of a tenant's own is lost. */
import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { DELETE_PROHIBITS, FLUSH_IPTABLES } from './knobs.js'
import { BRIDGES, type Name, Network, OTHER_PORT, OUTSIDE, PATIENT, type Place, WORKLOADS } from './network.js'
import { type By, type Workload, wirer } from './wirer.js'

const DEPLOYS = 200
/** Milliseconds that they may take, on a machine as slow as a guest of scripts/vm.sh. */
const SLOW = 1_800_000
/** Seconds between two packets of a stream. */
const EVERY = 0.005

const { acct, api, web, billing } = WORKLOADS

const of = (tenant: string, workload: string, octet: number): Workload => ({
  workload,
  address: `10.128.3.${octet}`,
  tenant,
  identity: `${tenant}/prod/${workload}`,
})
const MATE = of('acme', 'mate', 11)
const NEXT_MATE = of('acme', 'next-mate', 11)
const MAIL = of('initech', 'mail', 12)
/** One address that goes from tenant to tenant, none of whom is one of those who fire. */
const NOMADS = [of('initech', 'nomad-a', 13), of('umbrella', 'nomad-b', 13)]

/** As if another program's deploy had stopped half-way: everything of the bridge in its passing generation. */
const PASSING_GENERATION = `
iptables-nft-save | sed 's/yah-isolation-b/yah-isolation-a/' | iptables-nft-restore
for selector in "1202 to 10.128.3.0/24 fwmark 0/0x2000000" "1204 to 100.64.0.0/10 fwmark 0/0x3000000"; do
  set -- $selector
  ip rule add priority $(($1 - 1)) iif ${BRIDGES.acme} \${selector#* } prohibit
  ip rule del priority $1 iif ${BRIDGES.acme} \${selector#* } prohibit
done`

/** The ways a deploy, or a stop and its sweep, can come along. */
const TURNS: readonly ((network: Network, turn: number) => Promise<void>)[] = [
  ({ by }) => by.deploy(api),
  ({ by }) => by.deploy(web),
  ({ by }) => by.deploy(MATE),
  ({ by }) => by.deploy(NEXT_MATE),
  ({ by }) => by.deploy({ ...api, allow: ['globex/prod/nobody'], mtu: 1400 }),
  async ({ by, node }) => {
    await node.run(PASSING_GENERATION)
    await by.deploy(web)
  },
  ({ by }) => by.deploy({ ...api, mtu: 1500 }),
  ({ by }, turn) => by.deploy(NOMADS[turn % 2] ?? MAIL),
  ({ by }) => by.deploy(MAIL),
  async ({ by }) => {
    await by.stop(NEXT_MATE)
    await by.stop(MAIL)
    await by.sweep()
    await by.deploy(web)
  },
]

interface Flow {
  readonly from: Place
  readonly to: Name | 'outside'
}

interface Count {
  readonly sent: number
  readonly arrived: number
}

const nameOf = ({ from, to }: Flow): string => `${from} to ${to}`
const addressOf = (to: Flow['to']): string => (to === 'outside' ? OUTSIDE : WORKLOADS[to].address)

/** Starts these streams and returns what ends them, and counts what each of them sent and what of it arrived. */
async function start(network: Network, flows: readonly Flow[]): Promise<() => Promise<Map<string, Count>>> {
  const senders = [...new Set(flows.map(({ from }) => from))]
  const receivers = [...new Set(flows.map(({ to }) => to))]
  for (const place of senders) {
    const own = flows.filter(({ from }) => from === place)
    const streams = own.map((flow) => ({ name: nameOf(flow), dst: addressOf(flow.to), every: EVERY }))
    await network.at(place).stream(streams)
  }
  return async () => {
    const sent: Record<string, number> = {}
    for (const place of senders) Object.assign(sent, await network.at(place).sent())
    const arrived: Record<string, number> = {}
    const isComplete = (flow: Flow): boolean => arrived[nameOf(flow)] === sent[nameOf(flow)]
    // What was sent last may be on its way still.
    for (let tries = 0; tries < 20 && !OWN.every(isComplete); tries++) {
      if (tries > 0) await setTimeout(100)
      for (const place of receivers) {
        const heard = await network.at(place).heard()
        const own = flows.filter(({ to }) => to === place).map(nameOf)
        for (const name of own) arrived[name] = (arrived[name] ?? 0) + (heard[name] ?? 0)
      }
    }
    return new Map(flows.map(nameOf).map((name) => [name, { sent: sent[name] ?? 0, arrived: arrived[name] ?? 0 }]))
  }
}

const OWN: readonly Flow[] = [
  { from: 'api', to: 'web' },
  { from: 'web', to: 'api' },
  { from: 'mesh', to: 'api' },
  { from: 'api', to: 'outside' },
]
const ACROSS: readonly Flow[] = [
  { from: 'billing', to: 'api' },
  { from: 'billing', to: 'web' },
  { from: 'acct', to: 'api' },
  { from: 'acct', to: 'web' },
  { from: 'api', to: 'billing' },
  { from: 'api', to: 'acct' },
]

async function underFire(): Promise<Network> {
  const network = await Network.create(['acct', 'api', 'web', 'billing'])
  await network.useGateway(['acct', 'api', 'web', 'billing'])
  // Then the mesh depends on its mark.
  await network.run('sysctl -qw net.ipv4.conf.all.rp_filter=2')
  const others = [MATE, MAIL, ...NOMADS].map(({ address }) => `route replace ${address} via 10.128.3.1`).join('\n')
  await network.run(['acct', 'billing'].map((name) => `ip -n ${name} -batch - <<END\n${others}\nEND`).join('\n'))
  return network
}

test(`${DEPLOYS} deploys: not one packet gets across, and not one of a tenant's own is lost`, {
  timeout: SLOW,
}, async () => {
  await using network = await underFire()
  const enemies = [billing.address, acct.address]
  const victims = [api, web, MATE, MAIL, ...NOMADS].map(({ address }) => address)
  await network.at('node').watch(enemies, victims)
  for (const name of ['acct', 'billing'] as const) {
    const targets = [MATE, MAIL, ...NOMADS.slice(1)]
    await network.at(name).stream(targets.map(({ address: dst, workload }) => ({ name: workload, dst, every: EVERY })))
  }
  const end = await start(network, [...OWN, ...ACROSS])

  for (let turn = 0; turn < DEPLOYS; turn++)
    await TURNS[turn % TURNS.length]?.(network, Math.floor(turn / TURNS.length))

  const flows = await end()
  expect(await network.at('node').seen()).toEqual({ seen: {}, missed: 0 })
  const isOwn = new Set(OWN.map(nameOf))
  const expected = [...flows].map(([name, { sent }]) => [name, { sent, arrived: isOwn.has(name) ? sent : 0 }])
  expect([...flows]).toEqual(expected)
  for (const { sent } of flows.values()) expect(sent).toBeGreaterThan(DEPLOYS)
})

test.each<By>(['library', 'oracle'])(
  "a workload that comes and goes leaves its tenant-mates' way out alone, on a bridge made by the %s",
  async (by) => {
    await using network = await Network.create(['api', 'web'], { by })
    const library = await wirer(network.node, 'library')
    const gateway = await network.macOf(BRIDGES.acme)
    await library.deploy(MATE)
    // A bridge without an address of its own has the lowest of its ports'.
    await network.run('ip link set veth11 address 02:00:00:00:00:01')
    const ask = { kind: 'udp', dst: OUTSIDE, port: OTHER_PORT, wait: PATIENT } as const
    expect(await network.at('api').probe([ask])).toEqual(['outside hears 192.0.2.1'])
    expect(await network.macOf(BRIDGES.acme)).toBe(gateway)
    await library.stop(MATE)
    expect(await network.at('api').probe([ask])).toEqual(['outside hears 192.0.2.1'])
  },
)

test("stopping the workload whose link address a bridge has leaves its tenant-mates' way out alone", async () => {
  await using network = await Network.create(['api', 'web'], { by: 'oracle' })
  await network.by.deploy(MATE)
  await network.run('ip link set veth11 address 02:00:00:00:00:01')
  expect(await network.macOf(BRIDGES.acme)).toBe('02:00:00:00:00:01')
  const before = await network.node.dump()
  const ask = { kind: 'udp', dst: OUTSIDE, port: OTHER_PORT, wait: PATIENT } as const
  expect(await network.at('api').probe([ask])).toEqual(['outside hears 192.0.2.1'])
  await (await wirer(network.node, 'library')).stop(MATE)
  expect(await network.at('api').probe([ask])).toEqual(['outside hears 192.0.2.1'])
  expect(await network.macOf(BRIDGES.acme)).toBe('02:00:00:00:00:01')
  // Nothing else is another than after the oracle's stop.
  await network.by.deploy(MATE)
  expect(await network.node.dump()).toEqual(before)
  await network.by.stop(MATE)
  const left = await network.node.dump()
  await network.by.deploy(MATE)
  await (await wirer(network.node, 'library')).stop(MATE)
  expect(await network.node.dump()).toEqual(left)
})

test('an instant without isolation shows, and so does a lost packet', async () => {
  await using network = await underFire()
  await network.at('node').watch([billing.address], [api.address])
  const end = await start(network, [{ from: 'billing', to: 'api' }, ...OWN])
  await network.run(FLUSH_IPTABLES)
  await network.run(`${DELETE_PROHIBITS}\nip link set veth8 down; sleep 0.1; ip link set veth8 up`)
  await network.by.deploy(api)
  const flows = await end()
  const { seen } = await network.at('node').seen()
  expect(seen[`${billing.address} to ${api.address} out of ${BRIDGES.acme}`]).toBeGreaterThan(0)
  expect(seen[`${billing.address} to ${api.address} out of veth7`]).toBeGreaterThan(0)
  expect(flows.get('billing to api')?.arrived).toBeGreaterThan(0)
  const lossy = flows.get('api to web') ?? { sent: 0, arrived: 0 }
  expect(lossy.arrived).toBeLessThan(lossy.sent)
})
