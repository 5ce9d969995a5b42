/** IPv4 routes (`struct rtmsg`, rtnetlink(7)). */
import {
  AF_INET,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  NLM_F_REPLACE,
  RT_SCOPE_LINK,
  RT_SCOPE_NOWHERE,
  RT_SCOPE_UNIVERSE,
  RT_TABLE_MAIN,
  RT_TABLE_UNSPEC,
  RTA_DST,
  RTA_ENCAP,
  RTA_ENCAP_TYPE,
  RTA_GATEWAY,
  RTA_METRICS,
  RTA_MULTIPATH,
  RTA_NH_ID,
  RTA_OIF,
  RTA_PREFSRC,
  RTA_PRIORITY,
  RTA_TABLE,
  RTA_VIA,
  RTM_DELROUTE,
  RTM_GETROUTE,
  RTM_NEWROUTE,
  RTN_UNICAST,
  RTPROT_BOOT,
} from '../linux.js'
import { AttributeReader, AttributeWriter, type UnknownAttribute } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt, linkIndex } from './expect.js'
import { type NextHop, readMultipath, readVia } from './next-hop.js'

export interface Route {
  /** Dotted; '0.0.0.0' for the default route. */
  readonly destination: string
  readonly prefix: number
  /** RT_TABLE_*, or a number of somebody's own. */
  readonly table: number
  /** RTN_*. */
  readonly type: number
  /** RT_SCOPE_*. */
  readonly scope: number
  /** RTPROT_*: who made it. */
  readonly protocol: number
  readonly tos: number
  /** RTNH_F_*, RTM_F_*. */
  readonly flags: number
  /** Index of the link that it goes out of; 0 for a route of several hops, or of none (prohibit, blackhole). */
  readonly oif: number
  /** Dotted, or `via …` for a gateway of another family; null when there is none. */
  readonly gateway: string | null
  /** RTA_PRIORITY: lower wins; 0 when not set. */
  readonly metric: number
  readonly preferredSource: string | null
  /** RTA_METRICS (MTU, window, …) as it came; null when there are none. */
  readonly metrics: Buffer | null
  /** How many next hops it has: 1 unless it is a multipath route. */
  readonly hops: number
  /** The hops of a multipath route, in the kernel's order; empty for any other. */
  readonly nextHops: readonly NextHop[]
  /** Of a next hop object; 0 when the route has its own. */
  readonly nexthopId: number
  /** LWTUNNEL_ENCAP_*; 0 when packets leave as they are. */
  readonly encapsulation: number
  readonly unknown: readonly UnknownAttribute[]
}

const RTMSG = 12

/** Undefined for a route that is not IPv4. @throws MalformedMessage */
export function decodeRoute(message: Message): Route | undefined {
  const { bytes, payload } = message
  const attributes = new AttributeReader(bytes, attributesAt(message, RTM_NEWROUTE, RTMSG))
  if (bytes[payload] !== AF_INET) return undefined
  const prefix = bytes.readUInt8(payload + 1)
  if (prefix > 32) throw attributes.malformed(`prefix length ${prefix}`)
  let destination = '0.0.0.0'
  let table = bytes.readUInt8(payload + 4)
  let oif = 0
  let gateway: string | null = null
  let metric = 0
  let preferredSource: string | null = null
  let metrics: Buffer | null = null
  let nextHops: readonly NextHop[] = []
  let nexthopId = 0
  let encapsulation = 0
  const unknown: UnknownAttribute[] = []
  while (attributes.next()) {
    switch (attributes.type) {
      case RTA_DST:
        destination = attributes.ipv4()
        break
      case RTA_TABLE:
        table = attributes.u32()
        break
      case RTA_OIF:
        oif = attributes.u32()
        break
      case RTA_GATEWAY:
        gateway = attributes.ipv4()
        break
      case RTA_VIA:
        gateway = readVia(attributes)
        break
      case RTA_PRIORITY:
        metric = attributes.u32()
        break
      case RTA_PREFSRC:
        preferredSource = attributes.ipv4()
        break
      case RTA_METRICS:
        metrics = attributes.raw()
        break
      case RTA_MULTIPATH:
        nextHops = readMultipath(attributes)
        break
      case RTA_NH_ID:
        nexthopId = attributes.u32()
        break
      case RTA_ENCAP_TYPE:
        encapsulation = attributes.u16()
        break
      case RTA_ENCAP:
        break // means nothing without its type, which tells that it is there
      default:
        unknown.push(attributes.unknown())
    }
  }
  return {
    destination,
    prefix,
    table,
    type: bytes.readUInt8(payload + 7),
    scope: bytes.readUInt8(payload + 6),
    protocol: bytes.readUInt8(payload + 5),
    tos: bytes.readUInt8(payload + 3),
    flags: bytes.readUInt32LE(payload + 8),
    oif,
    gateway,
    metric,
    preferredSource,
    metrics,
    hops: nextHops.length || 1,
    nextHops,
    nexthopId,
    encapsulation,
    unknown,
  }
}

/**
 * The IPv4 routes of one table, of a type or out of some links only where told. The kernel filters by one link; for several
 * it lists the table. ENOENT when the table does not exist, as main does not in a fresh namespace; ENODEV when the one
 * link is gone.
 */
export function routes(wanted: { table: number; type?: number; devices?: readonly number[] }): Request<Route> {
  const { table, type = 0, devices } = wanted
  if (table === RT_TABLE_UNSPEC) throw new RangeError('routes of table 0')
  const payload = new AttributeWriter(header({ type })).u32(RTA_TABLE, table)
  const [device, ...more] = devices?.map(linkIndex) ?? []
  const only = more.length === 0 ? device : undefined
  const leaving = devices && new Set(devices)
  if (only !== undefined) payload.u32(RTA_OIF, only)
  return {
    what: `IPv4 routes of table ${table}${only === undefined ? '' : ` out of link ${only}`}`,
    type: RTM_GETROUTE,
    flags: NLM_F_DUMP,
    payload: payload.finish(),
    // A multipath route has its links elsewhere.
    keep: devices && { header: RTMSG, attribute: RTA_OIF, values: devices, without: true },
    decode(message) {
      const route = decodeRoute(message)
      if (route === undefined || route.table !== table) return undefined
      if (type !== 0 && route.type !== type) return undefined
      return leaving === undefined || leavesBy(route, leaving) ? route : undefined
    },
  }
}

/** The routes of table main to exactly that address, of every type. The rest is sifted out as it comes. */
export function routesTo(address: string): Request<Route> {
  const main = routes({ table: RT_TABLE_MAIN })
  const destination = Buffer.from(address.split('.').map(Number)).readUInt32LE()
  return {
    ...main,
    what: `IPv4 routes to ${address}`,
    keep: { header: RTMSG, attribute: RTA_DST, values: [destination], without: false },
    decode(message) {
      const route = main.decode(message)
      return route?.destination === address && route.prefix === 32 ? route : undefined
    },
  }
}

/** A route of one hop of table main, as ip(8) makes it: protocol boot, scope link without a gateway and universe with one. */
export interface NewRoute extends Pick<Route, 'destination' | 'prefix'> {
  /** Left out: the kernel finds the link that the gateway is reached by. */
  readonly oif?: number
  /** Dotted. */
  readonly gateway?: string
}

/**
 * Adds a route; one of that destination and metric makes room, whosever it is; of several, the first. ENETUNREACH when the
 * gateway cannot be reached; ENETDOWN when the link is down, ENODEV when it is gone.
 */
export function replaceRoute(route: NewRoute, what: string): Request<never> {
  return newRoute(route, what, NLM_F_CREATE | NLM_F_REPLACE)
}

/** Adds a route where there is none of that destination, tos and metric: else EEXIST. The rest as `replaceRoute`. */
export function addRoute(route: NewRoute, what: string): Request<never> {
  return newRoute(route, what, NLM_F_CREATE | NLM_F_EXCL)
}

function newRoute({ destination, prefix, oif, gateway }: NewRoute, what: string, how: number): Request<never> {
  const scope = gateway === undefined ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE
  const payload = new AttributeWriter(header({ prefix, type: RTN_UNICAST, protocol: RTPROT_BOOT, scope }))
  payload.u32(RTA_TABLE, RT_TABLE_MAIN)
  if (prefix > 0) payload.ipv4(RTA_DST, destination)
  if (oif !== undefined) payload.u32(RTA_OIF, oif)
  if (gateway !== undefined) payload.ipv4(RTA_GATEWAY, gateway)
  return { what, type: RTM_NEWROUTE, flags: NLM_F_ACK | how, payload: payload.finish(), decode: () => undefined }
}

/**
 * Deletes the first route that agrees in what is sent: look at `routeTakenFirst` before. ESRCH when there is none, or
 * when its link is gone.
 *
 * @throws RangeError for a route of several hops, of a next hop object, with an encapsulation or a gateway of another
 *   family: what tells those apart is not sent.
 */
export function deleteRoute(route: Route, what: string): Request<never> {
  if (route.nextHops.length > 0 || route.nexthopId !== 0 || route.encapsulation !== 0) {
    throw new RangeError(`${what}: not a route of one plain hop`)
  }
  const payload = new AttributeWriter(header(route)).u32(RTA_TABLE, route.table)
  if (route.prefix > 0) payload.ipv4(RTA_DST, route.destination)
  if (route.oif !== 0) payload.u32(RTA_OIF, route.oif)
  if (route.gateway !== null) payload.ipv4(RTA_GATEWAY, route.gateway)
  if (route.metric !== 0) payload.u32(RTA_PRIORITY, route.metric)
  if (route.preferredSource !== null) payload.ipv4(RTA_PREFSRC, route.preferredSource)
  return { what, type: RTM_DELROUTE, flags: NLM_F_ACK, payload: payload.finish(), decode: () => undefined }
}

/**
 * The route that the kernel would take for `deleteRoute(route)`, from all routes of that destination in the order
 * of their dump (fib_table_delete). What the request leaves out, or holds 0 for, matches anything: so a route without metric and
 * preferred source may stand for one that has them, and metrics are never compared.
 */
export function routeTakenFirst(routes: readonly Route[], route: Route): Route | undefined {
  return routes.find(
    (other) =>
      other.table === route.table &&
      other.destination === route.destination &&
      other.prefix === route.prefix &&
      other.tos === route.tos &&
      (route.type === 0 || other.type === route.type) &&
      (route.scope === RT_SCOPE_NOWHERE || other.scope === route.scope) &&
      (route.preferredSource === null || other.preferredSource === route.preferredSource) &&
      (route.protocol === 0 || other.protocol === route.protocol) &&
      (route.metric === 0 || other.metric === route.metric) &&
      agreesInHop(other, route),
  )
}

/** Of a multipath route the first hop is compared; one with a next hop object only agrees with who names no hop. */
function agreesInHop(other: Route, route: Route): boolean {
  if (route.oif === 0 && route.gateway === null) return true
  if (other.nexthopId !== 0) return false
  const first = other.nextHops[0] ?? other
  return (route.oif === 0 || first.oif === route.oif) && (route.gateway === null || first.gateway === route.gateway)
}

function leavesBy({ oif, nextHops }: Route, devices: ReadonlySet<number>): boolean {
  return devices.has(oif) || nextHops.some((hop) => devices.has(hop.oif))
}

function header(fields: Partial<Pick<Route, 'prefix' | 'tos' | 'protocol' | 'scope' | 'type'>>): Buffer {
  const { prefix = 0, tos = 0, protocol = 0, scope = 0, type = 0 } = fields
  // The table is an attribute: the header has a byte for it, and tables have 32 bits.
  return Buffer.of(AF_INET, prefix, 0, tos, RT_TABLE_UNSPEC, protocol, scope, type, 0, 0, 0, 0)
}
