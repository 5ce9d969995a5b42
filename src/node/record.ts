/**
 * What puts back what a pass removes, written down before it is removed: a shell script of `ip` commands and
 * iptables-restore batches. For a person to read and to run in part.
 */

import { open } from 'node:fs/promises'
import { addTo } from '../kernel/groups.js'
import type { Written } from '../kernel/iptables/rule.js'
import { quoteWord } from '../kernel/iptables/words.js'
import { RTPROT_BOOT } from '../kernel/linux.js'
import { hasTag } from './contract.js'
import { describeRoute, describeRule, shellQuote } from './describe.js'
import { UsageError } from './errors.js'
import { bridgeNames } from './links.js'
import type { Plan, RestoreStep, Step } from './plan.js'
import type { NodeView } from './view.js'

/** Where removals are recorded: nothing is removed that was not written here first. */
export interface Recorder {
  /** Resolves when the record is on the disk. */
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

/** The script for one plan, in the order in which things have to come back. Neighbours come back by themselves. */
export function undoScript(view: NodeView, plan: Plan): string {
  const steps = plan.steps.filter(({ held }) => held === null)
  const names = bridgeNames(view.links)
  const lines = [
    '#!/bin/sh',
    `# What netsweep removed from ${plan.subnet}${view.net.netns ? ` in network namespace ${JSON.stringify(view.net.netns)}` : ''}, to be put back.`,
    ...enter(view.net.netns),
    'set -e',
    ...steps.flatMap((step) => (step.action === 'delete-link' ? bridge(view, step) : [])),
    ...steps.flatMap((step) => (step.action === 'delete-rule' ? [`ip rule add ${describeRule(step.rule)}`] : [])),
    ...steps.flatMap((step) => {
      if (step.action !== 'delete-route') return []
      const dev = names.get(step.route.oif) ?? `if${step.route.oif}`
      const text = describeRoute(step.route, dev)
      return [`ip route add ${step.route.protocol === RTPROT_BOOT ? text.replace(' proto boot', '') : text}`]
    }),
    ...restores(steps.filter((step) => step.action === 'restore')),
    ...steps.flatMap((step) => {
      if (step.action === 'delete-proxy') {
        const dev = shellQuote(names.get(step.neighbour.index) ?? '')
        const delay = `sysctl -qw net/ipv4/neigh/${dev}/proxy_delay=0`
        return [delay, `ip neigh add proxy ${step.neighbour.address} dev ${dev}`]
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
    `ip link add ${name} type bridge`,
    ...addresses.map(({ address, prefix }) => `ip addr add ${address}/${prefix} dev ${name}`),
    // Between slashes a name may hold dots.
    `sysctl -qw net/ipv6/conf/${name}/disable_ipv6=1 net/ipv4/conf/${name}/rp_filter=1`,
    ...(link.up ? [`ip link set ${name} up`] : []),
  ]
}

function filter({ filter }: Extract<Step, { action: 'delete-filter' }>, dev: string): string[] {
  const key = (bytes: Buffer | undefined): string => [...(bytes ?? [])].join('.')
  return [
    `tc qdisc replace dev ${dev} clsact`,
    [
      `tc filter replace dev ${dev} ingress protocol arp pref ${filter.pref} handle 0x${filter.handle.toString(16)} flower`,
      `arp_op request arp_sip ${key(filter.arpSender?.value)} arp_tip ${key(filter.arpTarget?.value)}`,
      `action skbedit mark ${filter.actions[0]?.mark}/${filter.actions[0]?.mask}`,
    ].join(' '),
  ]
}

/** One batch for each back end and table. */
function restores(steps: readonly RestoreStep[]): string[] {
  const batches = new Map<string, RestoreStep[]>()
  for (const step of steps) {
    const key = `${step.backend} ${step.table}`
    addTo(batches, key, step)
  }
  return [...batches.values()].flatMap((batch) => {
    const [{ backend, table } = { backend: '', table: '' }] = batch
    const chains = batch.flatMap((step) => step.chains.map((name) => `:${name} - [0:0]`))
    const rules = batch.flatMap((step) => step.rules)
    // What stood at the top goes back to the top, the last one first; the rest goes to the end.
    const atTop = rules.filter((rule) => standsAtTop(rule)).reverse()
    const atEnd = rules.filter((rule) => !standsAtTop(rule))
    const line = (command: string, { chain, words }: (typeof rules)[number]): string =>
      [command, chain, ...words].map(quoteWord).join(' ')
    return [
      `iptables-${backend}-restore --noflush -w 5 <<'END'`,
      `*${table}`,
      ...chains,
      ...atEnd.map((rule) => line('-A', rule)),
      ...atTop.map((rule) => line('-I', rule)),
      'COMMIT',
      'END',
    ]
  })
}

/** Tagged rules and the jumps to identity chains are inserted, everything else is appended (docs/node-state.md). */
function standsAtTop(rule: Written): boolean {
  const target = rule.words[rule.words.indexOf('-j') + 1] ?? ''
  return hasTag(rule) || target.startsWith('yah-id-')
}
