/** What iptables-save prints, as values. Decides nothing; whatever it does not know is an error and not an empty table. */
import { endOfWords, MalformedWords, splitWords } from './words.js'

/** One `-A` line. */
export interface SavedRule {
  readonly chain: string
  /** All that stands behind `-A CHAIN`, in order, unquoted. */
  readonly words: readonly string[]
  /** The same as printed, where none of it is between quotes; else null. */
  readonly text: string | null
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

interface OpenTable {
  readonly name: string
  readonly chains: Map<string, PrintedChain>
}

/** Rules of one chain that stand one after the other. */
interface Block {
  readonly chain: PrintedChain
  /** What each begins with. */
  readonly begin: string
  /** Where the first of those stands that the chain has not got yet. */
  from: number
}

/** Reads it while it is printed. */
export class SaveReader {
  readonly #tables = new Map<string, Table>()
  readonly #incompatible: string[] = []
  #table: OpenTable | null = null
  #block: Block | null = null
  #malformed: MalformedSave | undefined
  /** What has come, from the part on in which the line begins that is read next. */
  #text = ''
  #at = 0
  #line = 1
  /** The next `"` at or behind #at, so that a line without one is known by a comparison. */
  #quote = 0

  /** Takes the next part of it. What is not understood is told at the end: why the tool failed comes first. */
  take(part: string): void {
    this.#addRules()
    this.#text = this.#text.slice(this.#at) + part
    if (this.#block !== null) this.#block.from = 0
    this.#at = 0
    this.#quote = 0
    this.#readLines(false)
  }

  /** There is no more. Throws MalformedSave. */
  end(): Save {
    this.#readLines(true)
    this.#addRules()
    if (this.#malformed !== undefined) throw this.#malformed
    if (this.#table !== null) throw this.#error(`cut short: table ${this.#table.name} has no COMMIT`)
    return { tables: this.#tables, incompatible: this.#incompatible }
  }

  /** Lines that are whole; with `isAll`, the last one is whole without a line break. */
  #readLines(isAll: boolean): void {
    if (this.#malformed !== undefined) return
    try {
      while (this.#at < this.#text.length) {
        const end = indexOrEnd(this.#text, '\n', this.#at)
        if (end === this.#text.length && !isAll) return
        if (this.#text.startsWith('-', this.#at)) {
          if (!this.#readRule(end, isAll)) return
        } else {
          this.#endBlock()
          this.#readLine(this.#text.slice(this.#at, end))
        }
      }
    } catch (error) {
      if (!(error instanceof MalformedSave)) throw error
      this.#malformed = error
    }
  }

  #readLine(line: string): void {
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
        if (line !== 'COMMIT') throw this.#error(`not understood: ${excerpt(line)}`)
        this.#closeTable()
    }
    this.#at += line.length + 1
    this.#line++
  }

  /** `end`: of the line that it begins on. False when the end of the rule has not come yet. */
  #readRule(end: number, isAll: boolean): boolean {
    const text = this.#text
    const { begin } = this.#blockOf(end)
    const behind = this.#at + begin.length
    if (this.#quote < behind) this.#quote = indexOrEnd(text, '"', behind)
    // Quoted text may hold line breaks, and behind them anything that looks like lines of this output.
    const ruleEnd = this.#quote < end ? this.#endOfWords(behind) : end
    if (ruleEnd === null && isAll) throw this.#error('a quote is not closed')
    if (ruleEnd === null || (ruleEnd === text.length && !isAll)) return false
    for (let at = end; at < ruleEnd; at = indexOrEnd(text, '\n', at + 1)) this.#line++
    this.#line++
    this.#at = ruleEnd + 1
    return true
  }

  /** The block of the rule on the line that ends there. */
  #blockOf(end: number): Block {
    const text = this.#text
    const open = this.#block
    if (open !== null && text.startsWith(open.begin, this.#at)) {
      const behind = this.#at + open.begin.length
      if (behind === end || text.startsWith(' ', behind)) return open
    }
    this.#endBlock()
    const begin = text.slice(this.#at, Math.min(indexOrEnd(text, ' ', this.#at + ADD.length), end))
    if (!begin.startsWith(ADD) || begin === ADD)
      throw this.#error(`not understood: ${excerpt(text.slice(this.#at, end))}`)
    if (this.#table === null) throw this.#error('a rule outside a table')
    const name = begin.slice(ADD.length)
    const chain = this.#table.chains.get(name)
    if (chain === undefined) throw this.#error(`a rule for chain ${name}, which is not declared`)
    this.#block = { chain, begin, from: this.#at }
    return this.#block
  }

  #endBlock(): void {
    this.#addRules()
    this.#block = null
  }

  /** Gives the chain what has been read of its rules. */
  #addRules(): void {
    const { chain, from } = this.#block ?? { from: this.#at }
    if (from < this.#at) chain?.add(this.#text.slice(from, this.#at))
  }

  #endOfWords(start: number): number | null {
    try {
      return endOfWords(this.#text, start)
    } catch (error) {
      if (error instanceof MalformedWords) throw this.#error(error.message)
      throw error
    }
  }

  #readChain(line: string): void {
    const [, name, policy] = /^:([^ ]+) ([^ ]+)(?: \[\d+:\d+\])?$/.exec(line) ?? []
    if (name === undefined || policy === undefined) throw this.#error(`not understood: ${excerpt(line)}`)
    if (this.#table === null) throw this.#error('a chain outside a table')
    if (this.#table.chains.has(name)) throw this.#error(`chain ${name} is declared twice`)
    this.#table.chains.set(name, new PrintedChain(name, policy === '-' ? null : policy))
  }

  #openTable(name: string): void {
    if (!/^[^ ]+$/.test(name)) throw this.#error('a table without a name')
    if (this.#table !== null) throw this.#error(`cut short: table ${this.#table.name} has no COMMIT before ${name}`)
    if (this.#tables.has(name)) throw this.#error(`table ${name} stands here twice`)
    this.#table = { name, chains: new Map() }
  }

  #closeTable(): void {
    if (this.#table === null) throw this.#error('COMMIT outside a table')
    this.#tables.set(this.#table.name, this.#table)
    this.#table = null
  }

  /** `contains incompatible base-chains` is another remark: that table is printed, but for chains of somebody else's. */
  #readRemark(line: string): void {
    const name = /^# Table `(.+)' is incompatible\b/.exec(line)?.[1]
    if (name !== undefined) this.#incompatible.push(name)
  }

  #error(reason: string): MalformedSave {
    return new MalformedSave(reason, this.#line)
  }
}

const ADD = '-A '

/** Few rules are ever looked into: most of the time of a read went into making objects of all of them. */
class PrintedChain implements Chain {
  /** Whole rules, with the line breaks behind them. */
  readonly #printed: string[] = []
  #rules: readonly SavedRule[] | undefined

  constructor(
    readonly name: string,
    readonly policy: string | null,
  ) {}

  add(rules: string): void {
    this.#printed.push(rules)
  }

  get rules(): readonly SavedRule[] {
    this.#rules ??= this.#printed.flatMap((rules) => rulesIn(rules, this.name))
    return this.#rules
  }
}

function rulesIn(printed: string, chain: string): SavedRule[] {
  const rules: SavedRule[] = []
  for (let at = 0; at < printed.length; ) {
    const behind = at + ADD.length + chain.length
    const end = endOfWords(printed, behind) ?? printed.length
    rules.push(new PrintedRule(chain, printed.slice(behind + 1, end)))
    at = end + 1
  }
  return rules
}

class PrintedRule implements SavedRule {
  readonly #printed: string
  #words: readonly string[] | undefined

  constructor(
    readonly chain: string,
    printed: string,
  ) {
    this.#printed = printed
  }

  get text(): string | null {
    return this.#printed.includes('"') ? null : this.#printed
  }

  get words(): readonly string[] {
    this.#words ??= splitWords(this.#printed)
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
