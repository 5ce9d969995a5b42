/** Clients on the mesh, and what becomes of them when workloads stop and addresses change hands. */
import { describe, expect, test } from 'vitest'
import { BRIEF, MESH, NAMES, type Name, Network, OTHER_PORT, PATIENT, type Place, WORKLOADS } from './network.js'
import type { By } from './wirer.js'

const KINDS = ['tcp', 'udp', 'icmp'] as const

/** What the mesh peer is answered. */
async function asks(network: Network, names: readonly Name[], wait: number): Promise<string[]> {
  await network.run('conntrack -F 2>/dev/null')
  const probes = names.flatMap((name) =>
    KINDS.map((kind) => ({ kind, dst: WORKLOADS[name].address, port: OTHER_PORT, wait })),
  )
  return network.at('mesh').probe(probes)
}

const answered = (names: readonly Name[]): string[] =>
  names.flatMap((name) => [`${name} hears ${MESH}`, `${name} hears ${MESH}`, 'yes'])

describe.each<{ by: By }>([{ by: 'library' }, { by: 'oracle' }])('wired and swept by the $by', ({ by }) => {
  test("the mesh reaches every tenant that is left after another one's last workload stopped", async () => {
    await using network = await Network.create(NAMES, { by })
    // Without the mesh's mark, a reverse-path check, a loose one too, asks the tenants' prohibits about the way back.
    await network.run('sysctl -qw net.ipv4.conf.all.rp_filter=2')
    expect(await asks(network, NAMES, PATIENT)).toEqual(answered(NAMES))

    await network.stop('billing')
    await network.by.sweep()
    const without = NAMES.filter((name) => name !== 'billing')
    expect(await asks(network, without, PATIENT)).toEqual(answered(without))

    await network.stop('ledger')
    await network.by.sweep()
    const left = without.filter((name) => name !== 'ledger')
    expect(await network.run('ip -o link show type bridge')).not.toContain('yah0-91auqknbeu')
    expect(await asks(network, left, PATIENT)).toEqual(answered(left))

    // Were the mark gone with that tenant, it would show.
    const mark =
      '-s 100.64.0.0/10 -d 10.128.3.0/24 -m comment --comment yah-isolation-b -j MARK --set-xmark 0x1000000/0x1000000'
    await network.run(`iptables-nft -w -t mangle -D PREROUTING ${mark}`)
    expect(await asks(network, ['api', 'web'], BRIEF)).toEqual(Array(6).fill(''))
    expect(await asks(network, ['acct', 'desk'], PATIENT)).toEqual(answered(['acct', 'desk']))

    await network.by.deploy(WORKLOADS.web)
    await network.enter('web')
    await network.stop('api')
    await network.by.sweep()
    const end: Name[] = ['acct', 'desk', 'web']
    expect(await asks(network, end, PATIENT)).toEqual(answered(end))
  })
})

test('whoever gets an address does not go on with the connections of the one who had it', async () => {
  await using network = await Network.create(['api', 'web', 'billing'])
  const { address } = WORKLOADS.api
  const PORTS = { theirs: 5000, own: 8000 }
  /** Whether a packet out of that connection, and no other, gets from the workload to the mesh. */
  const goesOn = async (place: Place): Promise<boolean> => {
    await network.at('mesh').heard()
    const { theirs: port, own: bind } = PORTS
    await network.at(place).probe([{ kind: 'udp', dst: MESH, port, bind, wait: BRIEF }])
    return `udp ${port}` in (await network.at('mesh').heard())
  }
  expect(await goesOn('api')).toBe(false)

  const { theirs: bind, own: port } = PORTS
  // Nobody listens, and a port is no less open for that.
  const opening = await network.at('mesh').probe([{ kind: 'udp', dst: address, port, bind, wait: PATIENT }])
  expect(opening).toEqual(['!ECONNREFUSED'])
  expect(await goesOn('api')).toBe(true)

  await network.stop('api')
  await network.by.deploy({ ...WORKLOADS.ledger, address })
  await network.enter('ledger')
  expect(await goesOn('ledger')).toBe(false)
})
