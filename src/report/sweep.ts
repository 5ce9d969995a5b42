/** A pass as text. What a program reads is the pass itself, as JSON. */
import { addTo } from '../kernel/groups.js'
import type { ReconciledJson, ReconciledStep } from '../node/reconciled.js'
import { count, type Style } from './style.js'

/** All of it, a line for each step, and the summary last. `range`: where a gateway was looked for. */
export function sweepText(pass: ReconciledJson, range: string, style: Style): string {
  return lines([...stepLines(pass, style), ...noticeLines(pass, style), summary(pass, range, style)])
}

/** What a pass did not do because the brake held. */
export function brakedText(pass: ReconciledJson, style: Style): string {
  const line = `nothing was removed: the pass would have removed ${leftovers(pass)}`
  return lines([...stepLines(pass, style), ...noticeLines(pass, style), style.bold(line)])
}

const lines = (of: readonly string[]): string => of.map((line) => `${line}\n`).join('')

const OUTCOME_WIDTH = 'planned'.length

/** Terminals get the steps by what they are there for; a pipe gets one line for each step, in the order taken. */
function stepLines(pass: ReconciledJson, style: Style): string[] {
  const commands = (step: ReconciledStep): string[] => commandLine(step, style)
  if (!style.isTerminal) {
    return pass.steps.flatMap((step) => [`${outcome(step, style)}  ${told(step)}  (${step.reason})`, ...commands(step)])
  }
  const groups = new Map<string, ReconciledStep[]>()
  for (const step of pass.steps) {
    const [why] = split(step)
    addTo(groups, why, step)
  }
  return [...groups].flatMap(([why, steps]) => [
    style.bold(why),
    ...steps.flatMap((step) => {
      const [, kept] = split(step)
      const detail = kept === undefined ? [] : [style.yellow(`${' '.repeat(OUTCOME_WIDTH + 4)}${kept}`)]
      return [`  ${outcome(step, style)}  ${told(step)}`, ...detail, ...commands(step)]
    }),
  ])
}

/** Why it goes, and, of one that was kept, why it stays. */
function split({ reason }: ReconciledStep): [why: string, kept: string | undefined] {
  const [why = reason, kept] = reason.split('; kept: ')
  return [why, kept]
}

function told({ object, error }: ReconciledStep): string {
  return error === undefined ? object : `${object}: ${error.code}: ${error.message}`
}

/** What a person would type, of the steps that failed; --json has the command of every step. */
function commandLine(step: ReconciledStep, style: Style): string[] {
  return step.outcome === 'failed' ? [style.dim(`${' '.repeat(OUTCOME_WIDTH + 4)}${step.command}`)] : []
}

function outcome({ outcome: text }: ReconciledStep, style: Style): string {
  const padded = text.padEnd(OUTCOME_WIDTH)
  if (text === 'failed') return style.red(padded)
  if (text === 'kept') return style.yellow(padded)
  return text === 'planned' ? padded : style.green(padded)
}

function noticeLines({ notices }: ReconciledJson, style: Style): string[] {
  return notices.map(({ object, reason }) => `${style.dim('notice'.padEnd(OUTCOME_WIDTH))}  ${object}  (${reason})`)
}

function summary(pass: ReconciledJson, range: string, style: Style): string {
  const { steps, dryRun, complete, subnet } = pass
  const elapsed = `${Math.round(pass.elapsedMs)} ms`
  if (steps.length === 0) {
    const why = subnet === null ? `: no bridge carries a gateway in ${range}` : ` in ${subnet}`
    return `${style.bold('nothing to sweep')}${why} (${elapsed})`
  }
  const left = (['failed', 'kept'] as const).flatMap((outcome) => {
    const number = steps.filter((step) => step.outcome === outcome).length
    return number === 0 ? [] : [dryRun ? `${number} would be ${outcome}` : `${number} ${outcome}`]
  })
  const done = left.length > 0 && steps.every(({ outcome }) => outcome === 'failed' || outcome === 'kept')
  const verb = dryRun ? 'would remove' : 'removed'
  const removed = done ? (dryRun ? 'nothing would be removed' : 'nothing was removed') : `${verb} ${leftovers(pass)}`
  const tail = dryRun ? '; a dry run: nothing was changed' : ` in ${elapsed}`
  if (complete) return `${style.bold(removed)}${tail}`
  return `${style.red('incomplete')}: of ${count(steps.length, 'step')} ${left.join(', ')}; ${removed}${tail}`
}

/** `leftovers of 2 bridges and 3 addresses (14 steps)`: of the steps that were not kept and did not fail. */
function leftovers({ bridges, addresses, steps }: ReconciledJson): string {
  const whose = [
    ...(bridges.length > 0 ? [count(bridges.length, 'bridge')] : []),
    ...(addresses.length > 0 ? [count(addresses.length, 'address', 'addresses')] : []),
  ]
  const taken = steps.filter(({ outcome }) => outcome !== 'kept' && outcome !== 'failed').length
  return `leftovers${whose.length > 0 ? ` of ${whose.join(' and ')}` : ''} (${count(taken, 'step')})`
}
