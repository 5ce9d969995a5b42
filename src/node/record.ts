/**
 * What puts back what a pass removes, written down before it is removed: a shell script, for a person to
 * read and to run, whole or in part.
 */

import { open } from 'node:fs/promises'
import { addTo } from '../kernel/groups.js'
import type { Written } from '../kernel/iptables/rule.js'
import type { Rule } from '../kernel/rtnetlink/rule.js'
import { hasTag } from './contract.js'
import { describeRoute, shellQuote } from './describe.js'
import { UsageError } from './errors.js'
import { bridgeNames } from './links.js'
import type { Plan, RestoreStep, Step } from './plan.js'
import type { NodeView } from './view.js'

/** Where removals are recorded: nothing is removed that was not written here first. */
export interface Recorder {
  /** Resolves when the record is on the disk. Called once more, for what is left, when a pass is planned anew. */
  record(script: string): Promise<void>
}

/** Records to a new file, made by the first record. @throws UsageError when there is such a file, or none can be made. */
export function fileRecorder(path: string): Recorder {
  let begun = false
  return {
    async record(script) {
      try {
        await append(path, begun ? 'a' : 'ax', script)
        begun = true
      } catch (error) {
        throw unwritable(path, error as NodeJS.ErrnoException)
      }
    },
  }
}

async function append(path: string, flags: 'a' | 'ax', script: string): Promise<void> {
  const file = await open(path, flags, 0o600)
  try {
    await file.writeFile(script)
    await file.sync()
  } finally {
    await file.close()
  }
}

function unwritable(path: string, { code, message }: NodeJS.ErrnoException): UsageError {
  const reason = code === 'EEXIST' ? 'is there already; nothing was removed' : `cannot be written: ${message}`
  return new UsageError('--record', `${path} ${reason}`, 'name a new file, in a folder that can be written to')
}

/**
 * How each kind of thing is put back. A pass may keep what was to go, or plan anew and record once more: so what is there already
 * is left as it is, and one script may stand behind another. What fails is told by its tool and named, and the rest goes on.
 */
const HELPERS = `
failed() { echo "not put back: $*" >&2; trap 'exit 1' EXIT; }
run() { "$@" || failed "$*"; }
bridge() { # NAME
  [ -n "$(ip -o link show dev "$1" type bridge 2>/dev/null)" ] || run ip link add "$1" type bridge
}
no_ipv6() { # LINK; a kernel without IPv6 has nothing to be set
  [ ! -e "/proc/sys/net/ipv6/conf/$1/disable_ipv6" ] || run sysctl -qw "net/ipv6/conf/$1/disable_ipv6=1"
}
prohibit() { # PRIORITY LINK DESTINATION FWMARK; the kernel would take a similar rule of somebody else's for it
  ip rule show priority "$1" | grep -qF "from all to \${3%/32} fwmark $4 iif $2 " ||
    run ip rule add priority "$1" iif "$2" to "$3" fwmark "$4" prohibit
}
route() { # as for 'ip route add'
  [ -n "$(ip route show "$@" 2>/dev/null)" ] || run ip route add "$@"
}
chain() { # nft|legacy TABLE NAME
  "iptables-$1" -w 5 -t "$2" -S "$3" >/dev/null 2>&1 || run "iptables-$1" -w 5 -t "$2" -N "$3"
}
rule() { # nft|legacy TABLE -A|-I CHAIN WORD...
  tables="iptables-$1 -w 5 -t $2" how=$3
  shift 3
  said=$($tables -C "$@" 2>&1)
  case $? in
    0) ;;
    1) run $tables "$how" "$@" ;; # there is none
    *) failed "$tables $how $*: $said" ;;
  esac
}
`.trim()

/** The script for one plan, in the order in which things have to come back. Neighbours come back by themselves. */
export function undoScript(view: NodeView, plan: Plan): string {
  const steps = plan.steps.filter(({ held }) => held === null)
  const names = bridgeNames(view.links)
  const lines = [
    '#!/bin/sh',
    `# What netsweep removed from ${plan.subnet}${view.net.netns ? ` in network namespace ${JSON.stringify(view.net.netns)}` : ''}, to be put back.`,
    '# What is there already stays as it is: it may be run again. What fails is named, the rest goes on, and the status is 1.',
    ...enter(view.net.netns),
    HELPERS,
    '',
    ...steps.flatMap((step) => (step.action === 'delete-link' ? bridge(view, step) : [])),
    ...steps.flatMap((step) => (step.action === 'delete-rule' ? [prohibit(step.rule)] : [])),
    ...steps.flatMap((step) => {
      if (step.action !== 'delete-route') return []
      return [`route ${describeRoute(step.route, names.get(step.route.oif) ?? `if${step.route.oif}`)}`]
    }),
    ...restores(steps.filter((step) => step.action === 'restore')),
    ...steps.flatMap((step) => {
      if (step.action === 'delete-proxy') {
        const dev = shellQuote(names.get(step.neighbour.index) ?? '')
        const delay = `run sysctl -qw net/ipv4/neigh/${dev}/proxy_delay=0`
        return [delay, `run ip neigh replace proxy ${step.neighbour.address} dev ${dev}`]
      }
      return step.action === 'delete-filter' ? filter(step, shellQuote(names.get(step.filter.index) ?? '')) : []
    }),
  ]
  return `${lines.join('\n')}\n`
}

/** The script goes where its state belongs, however it is called. */
function enter(netns: string | undefined): string[] {
  if (netns === undefined) return []
  const path = shellQuote(netns.startsWith('/') ? netns : `/run/netns/${netns}`)
  return [`[ /proc/self/ns/net -ef ${path} ] || exec nsenter --net=${path} -- sh "$0"`]
}

function bridge(view: NodeView, { link }: Extract<Step, { action: 'delete-link' }>): string[] {
  const name = shellQuote(link.name)
  const addresses = view.links.bridges.find((own) => own.link.index === link.index)?.addresses ?? []
  return [
    `bridge ${name}`,
    ...addresses.map(({ address, prefix }) => `run ip addr replace ${address}/${prefix} dev ${name}`),
    `no_ipv6 ${name}`,
    // Between slashes a name may hold dots.
    `run sysctl -qw net/ipv4/conf/${name}/rp_filter=1`,
    ...(link.up ? [`run ip link set ${name} up`] : []),
  ]
}

/** Of a rule that is one of ours: it says nothing besides. */
function prohibit({ priority, iif, destination, destinationPrefix, mask }: Rule): string {
  return `prohibit ${priority} ${shellQuote(iif)} ${destination}/${destinationPrefix} 0/0x${mask.toString(16)}`
}

function filter({ filter }: Extract<Step, { action: 'delete-filter' }>, dev: string): string[] {
  const key = (bytes: Buffer | undefined): string => [...(bytes ?? [])].join('.')
  return [
    `run tc qdisc replace dev ${dev} clsact`,
    [
      `run tc filter replace dev ${dev} ingress protocol arp pref ${filter.pref} handle 0x${filter.handle.toString(16)} flower`,
      `arp_op request arp_sip ${key(filter.arpSender?.value)} arp_tip ${key(filter.arpTarget?.value)}`,
      `action skbedit mark ${filter.actions[0]?.mark}/${filter.actions[0]?.mask}`,
    ].join(' '),
  ]
}

/** For each back end and table: the chains, then the rules. */
function restores(steps: readonly RestoreStep[]): string[] {
  const batches = new Map<string, RestoreStep[]>()
  for (const step of steps) {
    const key = `${step.backend} ${step.table}`
    addTo(batches, key, step)
  }
  return [...batches].flatMap(([place, batch]) => {
    const rules = batch.flatMap((step) => step.rules)
    // What stood at the top goes back to the top, the last one first; the rest goes to the end.
    const atTop = rules.filter((rule) => standsAtTop(rule)).reverse()
    const atEnd = rules.filter((rule) => !standsAtTop(rule))
    const line = (command: string, { chain, words }: (typeof rules)[number]): string =>
      `rule ${place} ${[command, chain, ...words].map(shellQuote).join(' ')}`
    return [
      ...batch.flatMap((step) => step.chains.map((name) => `chain ${place} ${shellQuote(name)}`)),
      ...atEnd.map((rule) => line('-A', rule)),
      ...atTop.map((rule) => line('-I', rule)),
    ]
  })
}

/** Tagged rules and the jumps to identity chains are inserted, everything else is appended (docs/node-state.md). */
function standsAtTop(rule: Written): boolean {
  const target = rule.words[rule.words.indexOf('-j') + 1] ?? ''
  return hasTag(rule) || target.startsWith('yah-id-')
}
