/** Which `/24` is this node's: what a gateway on one of its bridges says, or what the caller says. Pure. */
import { conclude, isGateway } from './conclude.js'
import { ReadError } from './errors.js'
import type { Plan, Step } from './plan.js'
import { Subnet } from './subnet.js'
import { planSweep } from './sweep.js'
import { subnetsNamed } from './tables.js'
import type { NodeView } from './view.js'

/** Null when no bridge carries a gateway in the range. @throws ReadError TWO_SUBNETS */
export function recoverSubnet(view: Pick<NodeView, 'net' | 'links' | 'confirmed'>): Subnet | null {
  const { net } = view
  if (net.subnet !== null) return net.subnet
  const found = new Map<string, string>()
  for (const { bridges } of [view.links, ...(view.confirmed ? [view.confirmed.links] : [])]) {
    for (const { link, addresses } of bridges) {
      for (const address of addresses) {
        const subnet = net.subnetOf(address.address)
        if (subnet !== null && isGateway(address, subnet)) found.set(String(subnet), link.name)
      }
    }
  }
  const [first, second] = found.keys()
  if (first !== undefined && second !== undefined) {
    throw new ReadError({
      read: 'addresses of the bridges',
      code: 'TWO_SUBNETS',
      reason: `gateways of two subnets: ${first} on ${found.get(first)} and ${second} on ${found.get(second)}`,
      hint: `say which is meant with --subnet ${first} or --subnet ${second}`,
    })
  }
  return first === undefined ? null : Subnet.containing(first.slice(0, -'/24'.length))
}

/**
 * Without a gateway nothing is removed. What would go if the `/24` were known is told, each step with the `--subnet` that
 * lets it go.
 */
export function planWithoutSubnet(view: NodeView): Plan {
  const steps = new Map<string, Step>()
  for (const subnet of candidates(view)) {
    for (const step of planSweep(view, conclude(view, subnet)).steps) {
      const held = `no bridge carries a gateway in ${view.net.range}, so the node's /24 is not known; --subnet ${subnet} lets it go`
      const key = `${step.action} ${step.object}`
      if (!steps.has(key)) steps.set(key, { ...step, held })
    }
  }
  return { subnet: null, steps: [...steps.values()], notices: [], gatewayStays: false }
}

/** Every `/24` that something of this project's form names; the range's first one when there is only what names none. */
function candidates(view: NodeView): Subnet[] {
  const { net } = view
  const named = [
    ...subnetsNamed(view.iptables, net),
    ...[
      ...view.rules.map(({ destination }) => destination),
      ...view.routes.map(({ destination }) => destination),
      ...view.proxies.map(({ address }) => address),
    ].flatMap((address) => net.subnetOf(address) ?? []),
  ]
  const first = Subnet.containing(net.range.slice(0, net.range.indexOf('/')))
  const distinct = new Map([...named, first].map((subnet) => [subnet.base, subnet]))
  return [...distinct.values()]
}
