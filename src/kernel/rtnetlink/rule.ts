/** IPv4 policy rules (`struct fib_rule_hdr`, linux/fib_rules.h). */
import {
  AF_INET,
  FIB_RULE_IIF_DETACHED,
  FIB_RULE_INVERT,
  FIB_RULE_OIF_DETACHED,
  FRA_DPORT_RANGE,
  FRA_DST,
  FRA_FLOW,
  FRA_FWMARK,
  FRA_FWMASK,
  FRA_GOTO,
  FRA_IIFNAME,
  FRA_IP_PROTO,
  FRA_L3MDEV,
  FRA_OIFNAME,
  FRA_PAD,
  FRA_PRIORITY,
  FRA_PROTOCOL,
  FRA_SPORT_RANGE,
  FRA_SRC,
  FRA_SUPPRESS_IFGROUP,
  FRA_SUPPRESS_PREFIXLEN,
  FRA_TABLE,
  FRA_TUN_ID,
  FRA_UID_RANGE,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_DUMP,
  NLM_F_EXCL,
  RTM_DELRULE,
  RTM_GETRULE,
  RTM_NEWRULE,
} from '../linux.js'
import { AttributeReader, AttributeWriter, type UnknownAttribute } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt } from './expect.js'
import {
  actionName,
  actionNumber,
  portBytes,
  type Range,
  type RuleAction,
  readPorts,
  readUids,
  uidBytes,
} from './rule-fields.js'
import { agrees, agreesInNetwork, agreesInRange } from './rule-match.js'

/** What a selector leaves open is 0, '' or null, as said beside it. */
export interface Rule {
  readonly priority: number
  /** FR_ACT_*, where it has no name here. */
  readonly action: RuleAction | number
  /** The table that is looked up; 0 for an action that looks up none. */
  readonly table: number
  /** Dotted; '0.0.0.0' with prefix 0: any. */
  readonly source: string
  readonly sourcePrefix: number
  readonly destination: string
  readonly destinationPrefix: number
  readonly tos: number
  /** The name, whether such a link exists or not; '': any. */
  readonly iif: string
  /** No link of that name exists. */
  readonly iifDetached: boolean
  readonly oif: string
  readonly oifDetached: boolean
  /** The packet's mark under `mask` is this; mask 0: any. */
  readonly mark: number
  readonly mask: number
  /** `not`: takes what the selectors do not match. */
  readonly invert: boolean
  /** FIB_RULE_*. */
  readonly flags: number
  /** RTPROT_*: who made it. */
  readonly protocol: number
  /** Longest prefix of the routes that the lookup passes over; -1 when none. */
  readonly suppressPrefixLength: number
  /** Group of the links whose routes the lookup passes over; -1 when none. */
  readonly suppressGroup: number
  /** 0n: any. */
  readonly tunnelId: bigint
  readonly l3mdev: boolean
  readonly uidRange: Range | null
  /** IPPROTO_*; 0: any. */
  readonly ipProtocol: number
  readonly sourcePorts: Range | null
  readonly destinationPorts: Range | null
  /** Priority of the rule that `goto` goes on with; 0 when none. */
  readonly goto: number
  /** Realms, from << 16 | to; 0 when none. */
  readonly realms: number
  readonly unknown: readonly UnknownAttribute[]
}

const FIB_RULE_HDR = 12

/** A rule that takes any packet, with what else a rule has when nobody sets it. */
export const ANY: Rule = {
  priority: 0,
  action: 0,
  table: 0,
  source: '0.0.0.0',
  sourcePrefix: 0,
  destination: '0.0.0.0',
  destinationPrefix: 0,
  tos: 0,
  iif: '',
  iifDetached: false,
  oif: '',
  oifDetached: false,
  mark: 0,
  mask: 0,
  invert: false,
  flags: 0,
  protocol: 0,
  suppressPrefixLength: -1,
  suppressGroup: -1,
  tunnelId: 0n,
  l3mdev: false,
  uidRange: null,
  ipProtocol: 0,
  sourcePorts: null,
  destinationPorts: null,
  goto: 0,
  realms: 0,
  unknown: [],
}

/** Undefined for a rule that is not IPv4. @throws MalformedMessage */
export function decodeRule(message: Message): Rule | undefined {
  const { bytes, payload } = message
  const attributes = new AttributeReader(bytes, attributesAt(message, RTM_NEWRULE, FIB_RULE_HDR))
  if (bytes[payload] !== AF_INET) return undefined
  const action = bytes.readUInt8(payload + 7)
  const flags = bytes.readUInt32LE(payload + 8)
  // A plain copy first: one with other values in it takes thirty times as long.
  const rule: { -readonly [K in keyof Rule]: Rule[K] } = { ...ANY }
  rule.action = actionName(action)
  rule.table = bytes.readUInt8(payload + 4)
  rule.sourcePrefix = bytes.readUInt8(payload + 2)
  rule.destinationPrefix = bytes.readUInt8(payload + 1)
  rule.tos = bytes.readUInt8(payload + 3)
  rule.iifDetached = (flags & FIB_RULE_IIF_DETACHED) !== 0
  rule.oifDetached = (flags & FIB_RULE_OIF_DETACHED) !== 0
  rule.invert = (flags & FIB_RULE_INVERT) !== 0
  rule.flags = flags
  const unknown: UnknownAttribute[] = []
  while (attributes.next()) {
    switch (attributes.type) {
      case FRA_PRIORITY:
        rule.priority = attributes.u32()
        break
      case FRA_TABLE:
        rule.table = attributes.u32()
        break
      case FRA_SRC:
        rule.source = attributes.ipv4()
        break
      case FRA_DST:
        rule.destination = attributes.ipv4()
        break
      case FRA_IIFNAME:
        rule.iif = attributes.string()
        break
      case FRA_OIFNAME:
        rule.oif = attributes.string()
        break
      case FRA_FWMARK:
        rule.mark = attributes.u32()
        break
      case FRA_FWMASK:
        rule.mask = attributes.u32()
        break
      case FRA_PROTOCOL:
        rule.protocol = attributes.u8()
        break
      case FRA_SUPPRESS_PREFIXLEN:
        rule.suppressPrefixLength = attributes.s32()
        break
      case FRA_SUPPRESS_IFGROUP:
        rule.suppressGroup = attributes.s32()
        break
      case FRA_TUN_ID:
        rule.tunnelId = attributes.u64be()
        break
      case FRA_L3MDEV:
        rule.l3mdev = attributes.u8() !== 0
        break
      case FRA_UID_RANGE:
        rule.uidRange = readUids(attributes.raw(8))
        break
      case FRA_IP_PROTO:
        rule.ipProtocol = attributes.u8()
        break
      case FRA_SPORT_RANGE:
        rule.sourcePorts = readPorts(attributes.raw(4))
        break
      case FRA_DPORT_RANGE:
        rule.destinationPorts = readPorts(attributes.raw(4))
        break
      case FRA_GOTO:
        rule.goto = attributes.u32()
        break
      case FRA_FLOW:
        rule.realms = attributes.u32()
        break
      case FRA_PAD:
        break
      default:
        unknown.push(attributes.unknown())
    }
  }
  if (rule.sourcePrefix > 32 || rule.destinationPrefix > 32) throw attributes.malformed('prefix length above 32')
  rule.unknown = unknown
  return rule
}

/** All IPv4 rules, in the order in which the kernel asks them. */
export function allRules(): Request<Rule> {
  const payload = Buffer.alloc(FIB_RULE_HDR)
  payload.writeUInt8(AF_INET, 0)
  return { what: 'IPv4 rules', type: RTM_GETRULE, flags: NLM_F_DUMP, payload, decode: decodeRule }
}

/** A rule to be added. A selector that is left out fits any packet. */
export type NewRule = Pick<Rule, 'priority' | 'action'> &
  Partial<Omit<Rule, 'flags' | 'iifDetached' | 'oifDetached' | 'unknown'>>

/** As decoded, but for what the kernel alone knows. */
export function wholeRule(rule: NewRule): Rule {
  return { ...ANY, ...rule }
}

/**
 * Adds a rule, behind those of its priority. EEXIST when there is one that the kernel takes for the same, and that is
 * no proof that it does the same: look at `ruleInTheWay`.
 */
export function addRule(rule: NewRule, what: string): Request<never> {
  const payload = selector(wholeRule(rule), rule.invert ? FIB_RULE_INVERT : 0)
  return { what, type: RTM_NEWRULE, flags: NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, payload, decode: () => undefined }
}

/**
 * Deletes the first rule that agrees in what is sent: look at `ruleTakenFirst` before. ENOENT when there is none.
 */
export function deleteRule(rule: Rule, what: string): Request<never> {
  return { what, type: RTM_DELRULE, flags: NLM_F_ACK, payload: selector(rule), decode: () => undefined }
}

/**
 * The rule that the kernel would take for `deleteRule(rule)`, from all rules in the order of their dump
 * (fib_nl_delrule). What the request leaves out, or holds 0 for, matches anything: a rule without a mark may stand for one that
 * has a mark; `not` is never compared.
 */
export function ruleTakenFirst(rules: readonly Rule[], rule: Rule): Rule | undefined {
  return rules.find(
    (other) =>
      other.priority === rule.priority &&
      other.action === rule.action &&
      agrees(rule.table, other.table, 0) &&
      agrees(rule.iif, other.iif, '') &&
      agrees(rule.oif, other.oif, '') &&
      agrees(rule.mark, other.mark, 0) &&
      agrees(rule.mask, other.mask, 0) &&
      agrees(rule.suppressGroup, other.suppressGroup, -1) &&
      agrees(rule.suppressPrefixLength, other.suppressPrefixLength, -1) &&
      agrees(rule.tunnelId, other.tunnelId, 0n) &&
      agrees(rule.l3mdev, other.l3mdev, false) &&
      agreesInRange(rule.uidRange, other.uidRange) &&
      agrees(rule.ipProtocol, other.ipProtocol, 0) &&
      agrees(rule.protocol, other.protocol, 0) &&
      agreesInRange(rule.sourcePorts, other.sourcePorts) &&
      agreesInRange(rule.destinationPorts, other.destinationPorts) &&
      agrees(rule.tos, other.tos, 0) &&
      agrees(rule.realms, other.realms, 0) &&
      agreesInNetwork(rule.source, rule.sourcePrefix, other.source, other.sourcePrefix) &&
      agreesInNetwork(rule.destination, rule.destinationPrefix, other.destination, other.destinationPrefix),
  )
}

/** Everything that the kernel compares, and nothing that says "any" already: it would not be compared. */
function selector(rule: Rule, flags = 0): Buffer {
  const { destinationPrefix, sourcePrefix, tos, action } = rule
  const header = Buffer.of(AF_INET, destinationPrefix, sourcePrefix, tos, 0, 0, 0, actionNumber(action), flags, 0, 0, 0)
  const payload = new AttributeWriter(header)
  // Priority 0 is compared when it is sent, unlike any other 0 here.
  payload.u32(FRA_PRIORITY, rule.priority)
  if (rule.table !== 0) payload.u32(FRA_TABLE, rule.table)
  if (rule.sourcePrefix > 0) payload.ipv4(FRA_SRC, rule.source)
  if (rule.destinationPrefix > 0) payload.ipv4(FRA_DST, rule.destination)
  if (rule.iif !== '') payload.string(FRA_IIFNAME, rule.iif)
  if (rule.oif !== '') payload.string(FRA_OIFNAME, rule.oif)
  if (rule.mark !== 0) payload.u32(FRA_FWMARK, rule.mark)
  // A mark without its mask would stand for the full mask.
  if (rule.mark !== 0 || rule.mask !== 0) payload.u32(FRA_FWMASK, rule.mask)
  if (rule.suppressGroup !== -1) payload.u32(FRA_SUPPRESS_IFGROUP, rule.suppressGroup)
  if (rule.suppressPrefixLength !== -1) payload.u32(FRA_SUPPRESS_PREFIXLEN, rule.suppressPrefixLength)
  if (rule.tunnelId !== 0n) payload.u64be(FRA_TUN_ID, rule.tunnelId)
  if (rule.l3mdev) payload.u8(FRA_L3MDEV, 1)
  if (rule.uidRange !== null) payload.raw(FRA_UID_RANGE, uidBytes(rule.uidRange))
  if (rule.ipProtocol !== 0) payload.u8(FRA_IP_PROTO, rule.ipProtocol)
  if (rule.protocol !== 0) payload.u8(FRA_PROTOCOL, rule.protocol)
  if (rule.sourcePorts !== null) payload.raw(FRA_SPORT_RANGE, portBytes(rule.sourcePorts))
  if (rule.destinationPorts !== null) payload.raw(FRA_DPORT_RANGE, portBytes(rule.destinationPorts))
  if (rule.goto !== 0) payload.u32(FRA_GOTO, rule.goto)
  if (rule.realms !== 0) payload.u32(FRA_FLOW, rule.realms)
  return payload.finish()
}
