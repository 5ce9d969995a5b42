/** The node as data: what the sweep decides from, and what it concludes. `netsweep show --json` prints it. */
import { byAddress } from '../kernel/ipv4.js'
import type { Conclusion, Live } from '../node/conclude.js'
import { isGateway } from '../node/conclude.js'
import { hostVethOctet } from '../node/contract.js'
import { bridgeNames, type OwnBridge } from '../node/links.js'
import type { Notice } from '../node/plan.js'
import type { Decision } from '../node/reconcile.js'

export interface NodeReport {
  /** The node's `/24`; null when no bridge carries a gateway in the range, and then nothing is concluded. */
  readonly subnet: string | null
  readonly nodeBridge: string
  readonly bridges: readonly BridgeReport[]
  /** In order of the address; of the host veth when the `/24` is not known. */
  readonly workloads: readonly WorkloadReport[]
  readonly hostRoutes: readonly { readonly address: string; readonly bridge: string }[]
  readonly prohibits: readonly ProhibitReport[]
  readonly proxies: readonly { readonly address: string; readonly bridge: string; readonly wanted: boolean }[]
  readonly filters: readonly FilterReport[]
  readonly chains: readonly ChainReport[]
  /** Addresses that no workload has any more, and that something still names. */
  readonly departed: readonly string[]
  /** Tenant bridges without a workload. */
  readonly dead: readonly string[]
  /** Tenant bridges that do not exist, and that something still names. */
  readonly detached: readonly string[]
  readonly foreign: readonly { readonly bridge: string; readonly reason: string }[]
  readonly misplaced: readonly Notice[]
  /** What else a sweep would say; without a `/24` what would go if it were known. */
  readonly notices: readonly Notice[]
}

export interface BridgeReport {
  readonly name: string
  readonly index: number
  /** `10.128.3.1/24`; null when it carries none. */
  readonly gateway: string | null
  /** Whether a workload, or somebody else's port, hangs on it. */
  readonly occupied: boolean
  /** Null when the `/24` is not known. */
  readonly verdict: 'node' | 'live' | 'dead' | 'foreign' | null
}

export interface WorkloadReport {
  /** Null when the `/24` is not known. */
  readonly address: string | null
  readonly veth: string
  readonly bridge: string
  /** Null when the namespace has no name below /run/netns. */
  readonly namespace: string | null
  /** Null when it has no identity chain that is understood. */
  readonly identityMark: number | null
  /** Whom its grant chain lets in; `address`: the live workload that this is, null when none is. */
  readonly admittedPeers: readonly { readonly bridge: string; readonly mark: number; readonly address: string | null }[]
}

export interface ProhibitReport {
  readonly priority: number
  readonly iif: string
  readonly to: string
}

export interface FilterReport {
  readonly bridge: string
  readonly sender: string
  readonly target: string
  readonly handle: number
  /** Whether a pair of live workloads has it for its grant. */
  readonly wanted: boolean
}

export interface ChainReport {
  readonly backend: string
  readonly name: string
  readonly address: string
  readonly rules: number
}

/** `namespaces`: the names of network namespaces by the ids that links carry. */
export function reportNode(decision: Decision, namespaces: ReadonlyMap<number, string>): NodeReport {
  const { view, plan, conclusion } = decision
  const reporter = new Reporter(decision, namespaces)
  const { own } = conclusion ?? {}
  return {
    subnet: conclusion === null ? null : String(conclusion.subnet),
    nodeBridge: view.net.bridge,
    bridges: view.links.bridges.map((bridge) => reporter.bridge(bridge)).sort(nodeBridgeFirst),
    workloads: conclusion === null ? reporter.unknownWorkloads() : reporter.workloads(conclusion),
    hostRoutes: (own?.hostRoutes ?? []).map(({ object, mine }) => ({
      address: mine,
      bridge: reporter.name(object.oif),
    })),
    prohibits: [...(own?.workloadProhibits ?? []), ...(own?.bridgeProhibits ?? [])].map(({ object }) => ({
      priority: object.priority,
      iif: object.iif,
      to: `${object.destination}/${object.destinationPrefix}`,
    })),
    proxies: (own?.proxies ?? []).map((proxy) => ({
      address: proxy.mine,
      bridge: reporter.name(proxy.object.index),
      wanted: conclusion?.unwantedProxies.includes(proxy) === false,
    })),
    filters: (own?.filters ?? []).map((filter) => ({
      bridge: reporter.name(filter.object.index),
      ...filter.mine,
      handle: filter.object.handle,
      wanted: conclusion?.unwantedFilters.includes(filter) === false,
    })),
    chains: (own?.tables.chains ?? []).flatMap(({ backend, address, chains }) =>
      chains.map(({ name, rules }) => ({ backend, name, address, rules: rules.length })),
    ),
    departed: conclusion?.departed ?? [],
    dead: (conclusion?.dead ?? []).map(({ link }) => link.name).sort(),
    detached: conclusion?.detached ?? [],
    foreign: [...(conclusion?.foreign ?? [])].map(([bridge, reason]) => ({ bridge, reason })),
    misplaced: conclusion?.misplaced ?? [],
    notices:
      conclusion === null ? plan.steps.map(({ object, held }) => ({ object, reason: held ?? '' })) : conclusion.spared,
  }
}

class Reporter {
  readonly #names: ReadonlyMap<number, string>

  constructor(
    readonly decision: Decision,
    readonly namespaces: ReadonlyMap<number, string>,
  ) {
    this.#names = bridgeNames(decision.view.links)
  }

  name(index: number): string {
    return this.#names.get(index) ?? `link ${index}`
  }

  bridge({ link, tenant, addresses, ports }: OwnBridge): BridgeReport {
    const { view, conclusion } = this.decision
    const gateway = addresses.find((each) => {
      const subnet = view.net.subnetOf(each.address)
      return subnet !== null && isGateway(each, subnet)
    })
    return {
      name: link.name,
      index: link.index,
      gateway: gateway === undefined ? null : `${gateway.address}/${gateway.prefix}`,
      occupied: ports.length > 0 || view.links.veths.some(({ master }) => master === link.index),
      verdict: tenant ? tenantVerdict(link.name, conclusion) : 'node',
    }
  }

  workloads({ live, own, pairs }: Conclusion): WorkloadReport[] {
    return [...live.values()]
      .sort((a, b) => byAddress(a.address, b.address))
      .map(({ address, veth, bridge }) => {
        const chains = own.tables.chains.filter((each) => each.address === address)
        const identity = chains.flatMap(({ identities }) => identities)[0]
        const admitted = new Map(
          chains.flatMap((each) => each.admitted).map((peer) => [`${peer.bridge} ${peer.mark}`, peer]),
        )
        const marks = new Map(own.tables.chains.map((each) => [each.address, each.identities]))
        return {
          address,
          ...this.#link(veth, bridge),
          identityMark: identity?.mark ?? null,
          admittedPeers: [...admitted.values()].map((peer) => {
            const pair = pairs.find(
              (each) =>
                each.granting.address === address &&
                each.peer.bridge === peer.bridge &&
                marks.get(each.peer.address)?.some(({ mark }) => mark === peer.mark),
            )
            return { ...peer, address: pair?.peer.address ?? null }
          }),
        }
      })
  }

  /** Host veths on the bridges, when their addresses cannot be told. */
  unknownWorkloads(): WorkloadReport[] {
    const { bridges, veths } = this.decision.view.links
    return bridges
      .flatMap((bridge) => veths.filter(({ master }) => master === bridge.link.index).map((veth) => ({ veth, bridge })))
      .sort((a, b) => (hostVethOctet(a.veth.name) ?? 0) - (hostVethOctet(b.veth.name) ?? 0))
      .map(({ veth, bridge }) => ({
        address: null,
        ...this.#link(veth, bridge),
        identityMark: null,
        admittedPeers: [],
      }))
  }

  #link(veth: Live['veth'], { link }: OwnBridge): Pick<WorkloadReport, 'veth' | 'bridge' | 'namespace'> {
    return { veth: veth.name, bridge: link.name, namespace: this.namespaces.get(veth.peerNamespace) ?? null }
  }
}

function nodeBridgeFirst(a: BridgeReport, b: BridgeReport): number {
  return Number(b.verdict === 'node') - Number(a.verdict === 'node') || (a.name < b.name ? -1 : 1)
}

function tenantVerdict(name: string, conclusion: Conclusion | null): BridgeReport['verdict'] {
  if (conclusion === null) return null
  if (conclusion.foreign.has(name)) return 'foreign'
  return conclusion.dead.some(({ link }) => link.name === name) ? 'dead' : 'live'
}
