/** Who reaches whom: every place asks every other one by every kind of probe, and what should come of it. */
import {
  BRIEF,
  GATEWAY,
  MESH,
  NAMES,
  type Name,
  type Network,
  NODE,
  OUTSIDE,
  PATIENT,
  PLACES,
  type Place,
  portOf,
  WORKLOADS,
} from './network.js'
import type { Kind, Probe } from './prober.js'

/** `ASKER KIND ASKED`: what came of it. */
export type Matrix = Record<string, string>

export const NO = 'no'
const KINDS: readonly Kind[] = ['tcp', 'udp', 'icmp', 'arp']

interface Target {
  readonly place: Place
  readonly name: string
  readonly address: string
}

const TARGETS: readonly Target[] = [
  ...NAMES.map((name) => ({ place: name, name, address: WORKLOADS[name].address })),
  { place: 'node', name: 'node', address: GATEWAY },
  { place: 'node', name: 'node (LAN)', address: NODE.lan },
  { place: 'node', name: 'node (mesh)', address: NODE.mesh },
  { place: 'outside', name: 'outside', address: OUTSIDE },
  { place: 'mesh', name: 'mesh', address: MESH },
]

const isWorkload = (place: Place): place is Name => place in WORKLOADS
const tenantOf = (place: Place): string | null => (isWorkload(place) ? WORKLOADS[place].tenant : null)
const isTenants = (place: Place): boolean => isWorkload(place) && tenantOf(place) !== 'singleton'

/** What holds on a node. */
export interface World {
  allows(from: Place, kind: Kind, to: Place): boolean
  /** Whether what leaves by the node's own links goes by the node's address. */
  readonly masquerades: boolean
}

/** As the product promises. */
export const ISOLATED: World = {
  allows(from, kind, to) {
    if (kind === 'arp') return to === 'node' || (tenantOf(from) !== null && tenantOf(from) === tenantOf(to))
    if (isWorkload(from) && isWorkload(to)) return tenantOf(from) === tenantOf(to)
    if (!isTenants(from)) return true
    return to === 'outside' || (to === 'node' && kind === 'icmp')
  },
  masquerades: true,
}

/** As it would be with nothing but bridges and routes: then only nobody answers ARP for another tenant's workload. */
export const OPEN: World = {
  allows: (from, kind, to) => kind !== 'arp' || ISOLATED.allows(from, kind, to),
  masquerades: false,
}

/** Of whom something is asked: everybody, or workloads and the mesh by workloads. */
export type Scope = 'all' | 'workloads'

/** The address that it arrives with. */
function sourceOf(from: Place, { place, address }: Target, { masquerades }: World): string {
  if (from === 'outside') return OUTSIDE
  if (from === 'mesh') return MESH
  if (from === 'node' && isWorkload(place)) return GATEWAY
  if (place === 'outside' && (from === 'node' || masquerades)) return NODE.lan
  if (place === 'mesh' && (from === 'node' || masquerades)) return NODE.mesh
  return isWorkload(from) ? WORKLOADS[from].address : address
}

interface Question {
  readonly from: Place
  readonly kind: Kind
  readonly to: Target
}

/** What goes on between the outside and the mesh is nobody's business here. */
function isAsked(from: Place, { place, name }: Target): boolean {
  const isBetweenThem = (from === 'outside' && /mesh/.test(name)) || (from === 'mesh' && place === 'outside')
  return place !== from && !isBetweenThem
}

function questions(scope: Scope): Question[] {
  const inScope = (from: Place, to: Place): boolean =>
    scope === 'all' || (isWorkload(from) && (isWorkload(to) || (isTenants(from) && to === 'mesh')))
  return PLACES.flatMap((from) =>
    TARGETS.filter((to) => isAsked(from, to) && inScope(from, to.place)).flatMap((to) =>
      KINDS.filter((kind) => kind !== 'arp' || from !== 'node').map((kind) => ({ from, kind, to })),
    ),
  )
}

const key = ({ from, kind, to }: Question): string => `${from} ${kind} ${to.name}`

export function expectedMatrix(world = ISOLATED, scope: Scope = 'all'): Matrix {
  return Object.fromEntries(questions(scope).map((question) => [key(question), expected(question, world)]))
}

function expected({ from, kind, to }: Question, world: World): string {
  if (!world.allows(from, kind, to.place)) return NO
  return kind === 'tcp' || kind === 'udp' ? `${to.place} hears ${sourceOf(from, to, world)}` : 'yes'
}

/**
 * Asks everything at once, with patience where an answer is expected. What is not answered and still arrived is told apart
 * from what got nowhere.
 */
export async function askMatrix(network: Network, world = ISOLATED, scope: Scope = 'all'): Promise<Matrix> {
  // Connections of another time would let pass what should not.
  await network.run('conntrack -F 2>/dev/null')
  await Promise.all(PLACES.map((place) => network.at(place).heard()))
  const all = questions(scope)
  const matrix: Matrix = {}
  await Promise.all(
    PLACES.map(async (place) => {
      const own = all.filter(({ from }) => from === place)
      const answers = await network.at(place).probe(own.map((question) => probeOf(question, world)))
      own.forEach((question, i) => {
        const answer = answers[i] ?? ''
        matrix[key(question)] = answer === '' || answer.startsWith('!') ? NO : answer
      })
    }),
  )
  const heard = new Map(await Promise.all(PLACES.map(async (to) => [to, await network.at(to).heard()] as const)))
  for (const question of all) {
    const { from, kind, to } = question
    const arrived = (heard.get(to.place)?.[`${kind} ${portOf(from)}`] ?? 0) > 0
    // The node has three addresses, and does not tell which of them was asked.
    const isTold = to.place !== 'node' || !world.allows(from, kind, 'node')
    if (arrived && isTold && matrix[key(question)] === NO) matrix[key(question)] = 'unanswered, but it arrived'
  }
  return matrix
}

function probeOf(question: Question, world: World): Probe {
  const { from, kind, to } = question
  return { kind, dst: to.address, port: portOf(from), wait: expected(question, world) === NO ? BRIEF : PATIENT }
}
