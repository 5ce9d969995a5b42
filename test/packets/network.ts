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

export class Network implements AsyncDisposable {
  private constructor(
    readonly node: TestNode,
    readonly by: Wirer,
    readonly probers: ReadonlyMap<Place, Prober>,
  ) {}

  /** With these workloads on it. `how`: a change of any of them. */
  static async create(
    names: readonly Name[] = NAMES,
    options: { readonly by?: By; readonly backend?: Backend } = {},
  ): Promise<Network> {
    const node = await TestNode.create(options)
    try {
      await node.run(SURROUNDINGS)
      const by = await wirer(node, options.by ?? 'library')
      for (const name of names) await by.deploy(WORKLOADS[name])
      const probers = await Promise.all([
        ...names.map(async (name) => [name, await prober(node, name)] as const),
        Prober.start(node, 'node').then((prober) => ['node', prober] as const),
        ...(['outside', 'mesh'] as const).map(async (name) => [name, await prober(node, name)] as const),
      ])
      return new Network(node, by, new Map<Place, Prober>(probers))
    } catch (error) {
      await node[Symbol.asyncDispose]()
      throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]()
  }

  at(place: Place): Prober {
    const found = this.probers.get(place)
    if (found === undefined) throw new Error(`no prober in ${place}`)
    return found
  }

  run(script: string): Promise<string> {
    return this.node.run(script)
  }

  /** Runs plain commands inside a place's namespace. */
  inside(place: Exclude<Place, 'node'>, script: string): Promise<string> {
    return this.node.run(`nsenter --net=/run/netns/${place} -- bash -eu <<'END'\n${script}\nEND`)
  }

  /** The link address of a bridge. */
  async macOf(link: string): Promise<string> {
    return (
      await this.run(`cat /sys/class/net/${link}/address 2>/dev/null || ip -o link show ${link} |
      sed 's/.*ether \\([^ ]*\\).*/\\1/'`)
    ).trim()
  }

  /**
   * From now on each workload sends what is for another tenant to the node, instead of asking for it on its own link, where
   * nobody would answer.
   */
  async useGateway(names: readonly Name[] = NAMES): Promise<void> {
    const routes = names.map((name) => {
      const others = names.filter((other) => WORKLOADS[other].tenant !== WORKLOADS[name].tenant)
      const lines = others.map((other) => `route replace ${WORKLOADS[other].address} via ${GATEWAY}`)
      return `ip -n ${name} -batch - <<END\n${lines.join('\n')}\nEND`
    })
    await this.run(routes.join('\n'))
  }
}

function prober(node: TestNode, name: Exclude<Place, 'node'>): Promise<Prober> {
  const link = name === 'outside' ? 'lan' : name === 'mesh' ? 'mesh' : 'eth0'
  return Prober.start(node, name, { namespace: name, link })
}
