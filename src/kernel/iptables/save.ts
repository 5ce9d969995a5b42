/** What iptables-save prints, as values. Decides nothing; whatever it does not know is an error and not an empty table. */
import { atOnce, type Work } from '../turns.js'
import { MalformedWords, scanWords, splitWords } from './words.js'

/** One `-A` line. */
export interface SavedRule {
  readonly chain: string
  /** All that stands behind `-A CHAIN`, in order, unquoted. */
  readonly words: readonly string[]
  /** The same as printed, where none of it is between quotes; else null. */
  readonly text: string | null
  /** Line of the output that the rule begins on, from 1. */
  readonly line: number
}

export interface Chain {
  readonly name: string
  /** `ACCEPT`, `DROP`; null for a chain that a user made, which has none. */
  readonly policy: string | null
  readonly rules: readonly SavedRule[]
}

export interface Table {
  readonly name: string
  /** In the order printed. */
  readonly chains: ReadonlyMap<string, Chain>
}

export interface Save {
  readonly tables: ReadonlyMap<string, Table>
  /** Names of tables that are there and that this tool cannot read. */
  readonly incompatible: readonly string[]
}

/** Output that is cut short or not understood. */
export class MalformedSave extends Error {
  override readonly name = 'MalformedSave'

  constructor(
    reason: string,
    /** From 1. */
    readonly line: number,
  ) {
    super(`line ${line}: ${reason}`)
  }
}

/** Throws MalformedSave. */
export function parseSave(text: string): Save {
  return atOnce(saveOf(text))
}

export function saveOf(text: string): Work<Save> {
  return new SaveReader(text).read()
}

/** Lines that are read in one go. */
const AT_ONCE = 100

interface OpenTable {
  readonly name: string
  readonly chains: Map<string, { name: string; policy: string | null; rules: SavedRule[] }>
}

class SaveReader {
  readonly #tables = new Map<string, Table>()
  readonly #incompatible: string[] = []
  readonly #text: string
  #table: OpenTable | null = null
  #at = 0
  #line = 1
  /** The next `"` at or behind #at, so that a line without one is known by a comparison. */
  #quote: number

  constructor(text: string) {
    this.#text = text
    this.#quote = indexOrEnd(text, '"', 0)
  }

  *read(): Work<Save> {
    for (let lines = 1; this.#at < this.#text.length; lines++) {
      this.#readLine()
      if (lines % AT_ONCE === 0) yield
    }
    if (this.#table !== null) throw this.#malformed(`cut short: table ${this.#table.name} has no COMMIT`)
    return { tables: this.#tables, incompatible: this.#incompatible }
  }

  #readLine(): void {
    const text = this.#text
    const end = indexOrEnd(text, '\n', this.#at)
    const line = text.slice(this.#at, end)
    if (line.startsWith('-')) {
      this.#readRule(line, end)
      return
    }
    switch (line[0]) {
      case ':':
        this.#readChain(line)
        break
      case '*':
        this.#openTable(line.slice(1))
        break
      case '#':
        this.#readRemark(line)
        break
      case undefined:
        break
      default:
        if (line !== 'COMMIT') throw this.#malformed(`not understood: ${excerpt(line)}`)
        this.#closeTable()
    }
    this.#at = end + 1
    this.#line++
  }

  #readRule(line: string, end: number): void {
    const found = /^-A (\S+)(?: |$)/.exec(line)
    const name = found?.[1]
    if (found === null || name === undefined) throw this.#malformed(`not understood: ${excerpt(line)}`)
    if (this.#table === null) throw this.#malformed('a rule outside a table')
    const chain = this.#table.chains.get(name)
    if (chain === undefined) throw this.#malformed(`a rule for chain ${name}, which is not declared`)
    const behind = this.#at + found[0].length
    if (this.#quote < behind) this.#quote = indexOrEnd(this.#text, '"', behind)
    if (this.#quote >= end) {
      chain.rules.push(new PlainRule(name, line.slice(found[0].length), this.#line))
      this.#at = end + 1
      this.#line++
      return
    }
    // Quoted text may hold line breaks, and behind them anything that looks like lines of this output.
    const { words, end: ruleEnd } = this.#scan(behind)
    chain.rules.push({ chain: name, words, text: null, line: this.#line })
    for (let at = this.#at; at < ruleEnd; at = indexOrEnd(this.#text, '\n', at) + 1) this.#line++
    this.#at = ruleEnd + 1
  }

  #scan(start: number): { words: string[]; end: number } {
    try {
      return scanWords(this.#text, start)
    } catch (error) {
      if (error instanceof MalformedWords) throw this.#malformed(error.message)
      throw error
    }
  }

  #readChain(line: string): void {
    const [, name, policy] = /^:([^ ]+) ([^ ]+)(?: \[\d+:\d+\])?$/.exec(line) ?? []
    if (name === undefined || policy === undefined) throw this.#malformed(`not understood: ${excerpt(line)}`)
    if (this.#table === null) throw this.#malformed('a chain outside a table')
    if (this.#table.chains.has(name)) throw this.#malformed(`chain ${name} is declared twice`)
    this.#table.chains.set(name, { name, policy: policy === '-' ? null : policy, rules: [] })
  }

  #openTable(name: string): void {
    if (!/^[^ ]+$/.test(name)) throw this.#malformed('a table without a name')
    if (this.#table !== null) throw this.#malformed(`cut short: table ${this.#table.name} has no COMMIT before ${name}`)
    if (this.#tables.has(name)) throw this.#malformed(`table ${name} stands here twice`)
    this.#table = { name, chains: new Map() }
  }

  #closeTable(): void {
    if (this.#table === null) throw this.#malformed('COMMIT outside a table')
    this.#tables.set(this.#table.name, this.#table)
    this.#table = null
  }

  /** `contains incompatible base-chains` is another remark: that table is printed, but for chains of somebody else's. */
  #readRemark(line: string): void {
    const name = /^# Table `(.+)' is incompatible\b/.exec(line)?.[1]
    if (name !== undefined) this.#incompatible.push(name)
  }

  #malformed(reason: string): MalformedSave {
    return new MalformedSave(reason, this.#line)
  }
}

/** A rule without quotes. Few rules are ever looked into, and splitting all of them is most of the time of a read. */
class PlainRule implements SavedRule {
  #words: readonly string[] | undefined

  constructor(
    readonly chain: string,
    readonly text: string,
    readonly line: number,
  ) {}

  get words(): readonly string[] {
    this.#words ??= splitWords(this.text)
    return this.#words
  }
}

function indexOrEnd(text: string, wanted: string, from: number): number {
  const at = text.indexOf(wanted, from)
  return at === -1 ? text.length : at
}

function excerpt(line: string): string {
  return JSON.stringify(line.length > 60 ? `${line.slice(0, 60)}…` : line)
}
