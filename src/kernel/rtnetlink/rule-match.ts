/** How the kernel compares IPv4 rules. */
import type { Rule } from './rule.js'
import type { Range } from './rule-fields.js'

/**
 * The rule for which the kernel would answer EEXIST to `addRule(rule)`, from all rules in the order of their dump
 * (rule_exists). Most of it must be the same, but source, destination, tos and realms that `rule` leaves open may be
 * anything there, and `not` is never compared: so it may let pass what `rule` would stop.
 */
export function ruleInTheWay(rules: readonly Rule[], rule: Rule): Rule | undefined {
  return rules.find(
    (other) =>
      other.priority === rule.priority &&
      other.action === rule.action &&
      other.table === rule.table &&
      other.iif === rule.iif &&
      other.oif === rule.oif &&
      other.mark === rule.mark &&
      other.mask === rule.mask &&
      other.suppressGroup === rule.suppressGroup &&
      other.suppressPrefixLength === rule.suppressPrefixLength &&
      other.tunnelId === rule.tunnelId &&
      other.l3mdev === rule.l3mdev &&
      isSameRange(other.uidRange, rule.uidRange) &&
      other.ipProtocol === rule.ipProtocol &&
      other.protocol === rule.protocol &&
      isSameRange(other.sourcePorts, rule.sourcePorts) &&
      isSameRange(other.destinationPorts, rule.destinationPorts) &&
      agrees(rule.tos, other.tos, 0) &&
      agrees(rule.realms, other.realms, 0) &&
      agreesInNetwork(rule.source, rule.sourcePrefix, other.source, other.sourcePrefix) &&
      agreesInNetwork(rule.destination, rule.destinationPrefix, other.destination, other.destinationPrefix),
  )
}

/** Whether `found` is what is wanted, or anything is. */
export function agrees<V>(wanted: V, found: V, any: V): boolean {
  return wanted === any || wanted === found
}

export function agreesInRange(wanted: Range | null, found: Range | null): boolean {
  return wanted === null || (wanted.start === found?.start && wanted.end === found.end)
}

export function agreesInNetwork(wanted: string, wantedPrefix: number, found: string, foundPrefix: number): boolean {
  return wantedPrefix === 0 || (wanted === found && wantedPrefix === foundPrefix)
}

function isSameRange(one: Range | null, other: Range | null): boolean {
  return one === other || (one !== null && other !== null && one.start === other.start && one.end === other.end)
}
