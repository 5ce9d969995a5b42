/** The value of each option: from the command line, else from its environment variable, and checked either way. */

import type { BackendChoice } from '../kernel/iptables/backend.js'
import { UsageError } from '../node/errors.js'
import { ContainerNet } from '../node/net.js'
import { LONGEST_MS } from '../node/numbers.js'

/** An option as the command spells it, without the dashes: `lock-timeout`. */
export type OptionName = string

/** What timers can wait for, in seconds. */
const MAX_SECONDS = Math.floor(LONGEST_MS / 1000)

export class Settings {
  constructor(
    /** What the command line said, by option: a text, true for one that takes none, all texts of one that is repeated. */
    readonly given: ReadonlyMap<OptionName, string | true | readonly string[]>,
    readonly env: Readonly<Record<string, string | undefined>>,
  ) {}

  /** How the caller spelt the option: what an error has to name. */
  source(option: OptionName): string {
    return this.given.has(option) || this.env[variable(option)] === undefined ? `--${option}` : variable(option)
  }

  /** Whether the caller set it at all, in either way. */
  isSet(option: OptionName): boolean {
    return this.given.has(option) || this.env[variable(option)] !== undefined
  }

  text(option: OptionName): string | undefined {
    const value = this.given.get(option) ?? this.env[variable(option)]
    if (value === '') throw new UsageError(this.source(option), 'is empty')
    return typeof value === 'string' ? value : undefined
  }

  /** All values of an option that may be repeated. */
  list(option: OptionName): readonly string[] {
    const given = this.given.get(option)
    if (given !== undefined) return typeof given === 'object' ? given : []
    const value = this.env[variable(option)]
    if (value === undefined) return []
    const values = value.split(' ').filter((each) => each !== '')
    if (values.length === 0) throw new UsageError(variable(option), 'is empty', 'unset it')
    return values
  }

  isOn(option: OptionName): boolean {
    if (this.given.has(option)) return true
    const value = this.env[variable(option)]
    if (value === undefined || value === '0' || value === 'false') return false
    if (value === '1' || value === 'true') return true
    throw new UsageError(variable(option), `${JSON.stringify(value)} is neither 1 nor 0`, 'set it to 1, or unset it')
  }

  choice<T extends string>(option: OptionName, choices: readonly T[]): T | undefined {
    const value = this.text(option)
    const chosen = choices.find((choice) => choice === value)
    if (value !== undefined && chosen === undefined)
      throw new UsageError(this.source(option), `${JSON.stringify(value)} is none of ${choices.join(', ')}`)
    return chosen
  }

  /** A number of things: decimal, 0 included. */
  count(option: OptionName): number | undefined {
    const value = this.text(option)
    if (value === undefined) return undefined
    const count = /^[0-9]+$/.test(value) ? Number(value) : Number.NaN
    if (!Number.isSafeInteger(count))
      throw new UsageError(this.source(option), `${JSON.stringify(value)} is no whole number`, 'write it as 20')
    return count
  }

  /** A time in seconds, a fraction allowed, as whole milliseconds. */
  milliseconds(option: OptionName): number | undefined {
    const value = this.text(option)
    if (value === undefined) return undefined
    const seconds = /^[0-9]+(\.[0-9]+)?$/.test(value) ? Number(value) : Number.NaN
    if (!(seconds <= MAX_SECONDS))
      throw new UsageError(
        this.source(option),
        `${JSON.stringify(value)} is no number of seconds from 0 to ${MAX_SECONDS}`,
        'write it as 10 or 0.5',
      )
    return Math.round(seconds * 1000)
  }

  /** The part of the node that the options mean. */
  containerNet(): ContainerNet {
    return new ContainerNet({
      bridge: this.text('bridge'),
      range: this.text('range'),
      subnet: this.text('subnet'),
      singletonTenant: this.text('singleton-tenant'),
      netns: this.text('netns'),
      iptables: this.text('iptables') as BackendChoice | undefined,
      timeoutMs: this.milliseconds('timeout'),
    })
  }

  /** The same error, naming the environment variable when the value came from there. */
  named(error: UsageError): UsageError {
    if (!error.option.startsWith('--')) return error
    const source = this.source(error.option.slice('--'.length))
    return source === error.option ? error : new UsageError(source, error.reason, error.hint)
  }
}

/** `lock-timeout` → `NETSWEEP_LOCK_TIMEOUT` */
export function variable(option: OptionName): string {
  return `NETSWEEP_${option.toUpperCase().replaceAll('-', '_')}`
}
