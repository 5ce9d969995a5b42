/**
 * A test's network: a node with workloads of three tenants, an outside host that is its default gateway, and a mesh peer
 * whose route sits in a table of its own. In each of these places runs a prober.
 */
import { type Backend, TestNode } from '../support/node.js'
import { Prober } from './prober.js'
import { type By, type Wirer, type Workload, wirer } from './wirer.js'

const workload = (name: string, octet: number, tenant: string): Workload => ({
  workload: name,
  address: `10.128.3.${octet}`,
  tenant,
  identity: `${tenant}/prod/${name}`,
})

export const WORKLOADS = {
  acct: workload('acct', 2, 'singleton'),
  desk: workload('desk', 3, 'singleton'),
  api: workload('api', 7, 'acme'),
  web: workload('web', 8, 'acme'),
  billing: workload('billing', 9, 'globex'),
  ledger: workload('ledger', 10, 'globex'),
} as const

export type Name = keyof typeof WORKLOADS
export const NAMES = Object.keys(WORKLOADS) as Name[]

export const GATEWAY = '10.128.3.1'
export const NODE = { gateway: GATEWAY, lan: '192.0.2.1', mesh: '100.64.0.3' } as const
export const OUTSIDE = '192.0.2.2'
export const MESH = '100.64.5.9'

export const BRIDGES: Readonly<Record<string, string>> = {
  singleton: 'yah0',
  acme: 'yah0-6jgfqfdnu6',
  globex: 'yah0-91auqknbeu',
}

/** Everything but the workloads. The outside host routes the /24 to the node, as any host on its LAN may. */
const SURROUNDINGS = `
ip netns add outside; ip netns add mesh
ip link add uplink type veth peer name lan netns outside
ip link add mesh0 type veth peer name mesh netns mesh
ip addr add ${NODE.lan}/24 dev uplink; ip addr add ${NODE.mesh}/32 dev mesh0
ip link set uplink up; ip link set mesh0 up
ip route add default via ${OUTSIDE}
ip route add 100.64.0.0/10 dev mesh0 table 52; ip rule add priority 5270 table 52
ip -n outside -batch - <<END
link set lo up
addr add ${OUTSIDE}/24 dev lan
link set lan up
route add 10.128.3.0/24 via ${NODE.lan}
END
ip -n mesh -batch - <<END
link set lo up
addr add ${MESH}/32 dev mesh
link set mesh up
route add ${NODE.mesh} dev mesh
route add default via ${NODE.mesh}
END`

export type Place = Name | 'node' | 'outside' | 'mesh'
export const PLACES: readonly Place[] = [...NAMES, 'node', 'outside', 'mesh']

/** The port that says which place asks. */
export const portOf = (place: Place): number => 7000 + PLACES.indexOf(place)
/** Of whatever else asks. */
export const OTHER_PORT = 7015

/** Seconds for an answer that is expected, on a slow and busy machine, and for one that is not. */
export const PATIENT = 20
export const BRIEF = 0.4

export interface NetworkOptions {
  readonly by?: By
  readonly backend?: Backend
  /** What differs from `WORKLOADS`. */
  readonly changes?: Readonly<Partial<Record<Name, Partial<Workload>>>>
}

export class Network implements AsyncDisposable {
  readonly #probers = new Map<Place, Prober>()

  private constructor(
    readonly node: TestNode,
    readonly by: Wirer,
  ) {}

  /** With these workloads on it, deployed in that order. */
  static async create(names: readonly Name[] = NAMES, options: NetworkOptions = {}): Promise<Network> {
    const { by = 'library', changes = {} } = options
    const node = await TestNode.create(options)
    try {
      await node.run(SURROUNDINGS)
      const grants = Object.values(changes).some(({ allow = [] }) => allow.length > 0)
      const network = new Network(node, await wirer(node, by, grants))
      for (const name of names) await network.by.deploy({ ...WORKLOADS[name], ...changes[name] })
      await Promise.all([...names, 'node', 'outside', 'mesh'].map((place) => network.enter(place as Place)))
      return network
    } catch (error) {
      await node[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
  }

  /** Starts a place's prober, in the namespace that the place has now. */
  async enter(place: Place): Promise<void> {
    await this.leave(place)
    const link = place === 'outside' ? 'lan' : place === 'mesh' ? 'mesh' : 'eth0'
    const inside = place === 'node' ? undefined : { namespace: place, link }
    this.#probers.set(place, await Prober.start(this.node, place, inside))
  }

  async leave(place: Place): Promise<void> {
    await this.#probers.get(place)?.end()
    this.#probers.delete(place)
  }

  /** Stops a workload, whose prober would hold its namespace. */
  async stop(name: Name): Promise<void> {
    await this.leave(name)
    await this.by.stop(WORKLOADS[name])
  }

  at(place: Place): Prober {
    const found = this.#probers.get(place)
    if (found === undefined) throw new Error(`no prober in ${place}`)
    return found
  }

  run(script: string): Promise<string> {
    return this.node.run(script)
  }

  /** The link address of a bridge, to which its workloads send what the node is to forward. */
  async macOf(bridge: string | undefined): Promise<string> {
    return (await this.run(`ip -o link show ${bridge} | sed 's/.* link.ether \\([^ ]*\\) .*/\\1/'`)).trim()
  }

  /**
   * From now on each of these workloads sends what is for another tenant to the node, instead of asking for it on its own
   * link, where nobody would answer.
   */
  async useGateway(names: readonly Name[] = NAMES): Promise<void> {
    const routes = names.map((name) => {
      const others = NAMES.filter((other) => WORKLOADS[other].tenant !== WORKLOADS[name].tenant)
      const lines = others.map((other) => `route replace ${WORKLOADS[other].address} via ${GATEWAY}`)
      return `ip -n ${name} -batch - <<END\n${lines.join('\n')}\nEND`
    })
    await this.run(routes.join('\n'))
  }
}
