/** The words of one rule, read as clauses, and one key for all the ways to write the same rule. */
import { canonicalDirection, canonicalMark, canonicalNetwork, canonicalProtocol, canonicalStates } from './values.js'

/** One option with its values: `! --mark 0x1/0x1` of module `mark`. */
export interface Clause {
  /** '' for the rule's own options (`-s`, `-i`, …), `conntrack` behind `-m conntrack`, `->MARK` behind `-j MARK`. */
  readonly module: string
  readonly negated: boolean
  /** As written, but for the rule's own options, which are in their short form. '' where values stand without one. */
  readonly option: string
  readonly values: readonly string[]
}

export interface Rule {
  /** What a packet must match, comments left out. A module without options is a clause without an option. */
  readonly clauses: readonly Clause[]
  /** Name of a target or a chain; null for a rule that only counts. */
  readonly target: string | null
  /** Whether the target is gone to (`-g`) and not jumped to (`-j`). */
  readonly goto: boolean
  readonly targetOptions: readonly Clause[]
  readonly comments: readonly string[]
}

/**
 * Reads the words behind `-A CHAIN`. Never throws: an option that is not known takes the words behind it up to the next
 * option as its values, and nothing is dropped.
 */
export function parseRule(words: readonly string[]): Rule {
  const groups = readGroups(words)
  const matches = groups.filter(({ module }) => !module.startsWith(TARGET))
  const clauses = matches.flatMap(({ module, clauses }) =>
    clauses.length > 0 || module === '' ? clauses : [{ module, negated: false, option: '', values: [] }],
  )
  const jump = clauses.find(isJump)
  return {
    clauses: clauses.filter((clause) => clause !== jump && !isComment(clause)),
    target: jump?.values[0] ?? null,
    goto: jump?.option === '-g',
    targetOptions: groups.filter(({ module }) => module.startsWith(TARGET)).flatMap(({ clauses }) => clauses),
    comments: clauses.filter(isComment).flatMap(({ values }) => values),
  }
}

/**
 * A key that two rules share only when they do the same with every packet, and carry the same comments:
 *
 * - the order of the rule's own options, of the modules, and of the options inside one module does not count;
 * - networks, marks, protocols and lists of states count by value: `-s 10.0.0.7` is `-s 10.0.0.7/32`, `--mark 16` is
 *   `--mark 0x10/0xffffffff`, `NEW,RELATED` is `RELATED,NEW`;
 * - everything else counts as written, and every copy of it: `!`, interfaces with their `+`, comments, targets;
 * - a rule with anything in it that is not in the table below has its words, in their order, for a key, which no
 *   rule that is understood shares.
 *
 * So a rule as it is written and the same rule as iptables-save prints it have one key, as long as both use the options of
 * the table below (and no `-i +` or `-s 0.0.0.0/0`, which match everything and are not printed). The chain is not part
 * of the key.
 */
export function ruleKey(words: readonly string[]): string {
  const groups = readGroups(words).map(canonicalGroup)
  const known = groups.filter((group) => group !== null)
  return JSON.stringify(known.length === groups.length ? { rule: known.sort() } : { words })
}

/** A rule as it was read, or its words alone. */
export type Written = { readonly words: readonly string[]; readonly text?: string | null }

/**
 * Rules to be recognised, however they are written. One that stands there word by word is found without being taken apart, which
 * takes a hundred times as long; and one that lacks a name that is part of each of them is none of them.
 */
export class KnownRules {
  readonly #texts: ReadonlySet<string>
  #forms: readonly Form[] | undefined

  constructor(readonly rules: readonly (readonly string[])[]) {
    this.#texts = new Set(rules.map((words) => words.join(' ')))
  }

  has(rule: Written): boolean {
    if (this.#texts.has(textOf(rule) ?? '')) return true
    this.#forms ??= this.rules.map((words) => new Form(words))
    const similar = this.#forms.filter(({ names }) => names.every((name) => hasWord(rule, name)))
    if (similar.length === 0) return false
    const key = ruleKey(rule.words)
    return similar.some((form) => form.key === key)
  }
}

class Form {
  readonly names: readonly string[]
  #key: string | undefined

  constructor(readonly words: readonly string[]) {
    this.names = namesIn(words)
  }

  get key(): string {
    this.#key ??= ruleKey(this.words)
    return this.#key
  }
}

/** Whether it is one of the rule's words. Told by the text where there is one: it need not be split for this. */
export function hasWord(rule: Written, word: string): boolean {
  const { text } = rule
  if (!text) return rule.words.includes(word)
  return text.includes(word) && ` ${text} `.includes(` ${word} `)
}

/** The last of the rule's words, told in the same way: the target, or the last of its options' values. '' where there is none. */
export function lastWord(rule: Written): string {
  const text = rule.text?.trimEnd()
  return text ? text.slice(text.lastIndexOf(' ') + 1) : (rule.words.at(-1) ?? '')
}

/** The same, for a few rules that are asked about once. */
export function isOneOf(rules: readonly (readonly string[])[], rule: Written): boolean {
  const text = textOf(rule)
  return rules.some((words) => words.join(' ') === text) || new KnownRules(rules).has(rule)
}

/** Null where the words could be other ones than the text says. */
function textOf(rule: Written): string | null {
  // Not both at once: to ask for the words is to have the text split.
  if (rule.text) return rule.text
  const { words } = rule
  return words.some((word) => /\s/.test(word)) ? null : words.join(' ')
}

/** Words that every way to write the rule has: the interfaces, the target, the comments. */
function namesIn(words: readonly string[]): string[] {
  const { clauses, target, comments } = parseRule(words)
  const interfaces = clauses.filter(({ module, option }) => module === '' && (option === '-i' || option === '-o'))
  return [...interfaces.flatMap(({ values }) => values), ...(target === null ? [] : [target]), ...comments]
}

const TARGET = '->'

/** Options that belong together: the rule's own, or those behind one `-m` or `-j`. */
interface Group {
  readonly module: string
  readonly clauses: Clause[]
}

/** What an option's values mean: one spelling for each meaning, or null for what is not understood. */
type Canonical = (value: string) => string | null

interface Option {
  readonly values: readonly Canonical[]
  readonly negatable: boolean
}

const verbatim: Canonical = (value) => value
const option = (...values: Canonical[]): Option => ({ values, negatable: false })
const negatable = (...values: Canonical[]): Option => ({ values, negatable: true })

/** Everything whose meaning is known, by module and option. `-m` is not here: it begins a group. */
const OPTIONS: Readonly<Record<string, Readonly<Record<string, Option>>>> = {
  '': {
    '-s': negatable(canonicalNetwork),
    '-d': negatable(canonicalNetwork),
    '-i': negatable(verbatim),
    '-o': negatable(verbatim),
    '-p': negatable(canonicalProtocol),
    '-f': negatable(),
    '-j': option(verbatim),
    '-g': option(verbatim),
  },
  comment: { '--comment': option(verbatim) },
  conntrack: { '--ctstate': negatable(canonicalStates), '--ctdir': option(canonicalDirection) },
  connmark: { '--mark': negatable(canonicalMark) },
  mark: { '--mark': negatable(canonicalMark) },
  rpfilter: { '--loose': option(), '--validmark': option(), '--accept-local': option(), '--invert': option() },
  '->MARK': { '--set-xmark': option(canonicalMark) },
  '->CONNMARK': { '--set-xmark': option(canonicalMark) },
}

/** Long spellings of the rule's own options; iptables-save prints the short ones. */
const SHORT: ReadonlyMap<string, string> = new Map([
  ['--source', '-s'],
  ['--src', '-s'],
  ['--destination', '-d'],
  ['--dst', '-d'],
  ['--in-interface', '-i'],
  ['--out-interface', '-o'],
  ['--protocol', '-p'],
  ['--proto', '-p'],
  ['--fragment', '-f'],
  ['--jump', '-j'],
  ['--goto', '-g'],
  ['--match', '-m'],
])

/** Options of unknown modules that take one free text, which may itself look like an option. */
const FREE_TEXT: ReadonlySet<string> = new Set([
  '--bytecode',
  '--helper',
  '--hex-string',
  '--log-prefix',
  '--nflog-prefix',
  '--path',
  '--selctx',
  '--string',
  '--u32',
])

function readGroups(words: readonly string[]): Group[] {
  const own: Group = { module: '', clauses: [] }
  const groups = [own]
  let current = own
  let negated = false
  for (let at = 0; at < words.length; ) {
    const word = words[at++] ?? ''
    if (word === '!' && !negated) {
      negated = true
      continue
    }
    const name = SHORT.get(word) ?? word
    if (name === '-m' && !negated && at < words.length) {
      current = { module: words[at++] ?? '', clauses: [] }
      groups.push(current)
      continue
    }
    const isOwn = Object.hasOwn(OPTIONS[''] ?? {}, name)
    const group = isOwn ? own : current
    const isOption = isOwn || looksLikeOption(word)
    const count = isOption ? valueCount(group.module, name, words, at) : 0
    const values = words.slice(at, at + count)
    at += count
    group.clauses.push({
      module: group.module,
      negated,
      option: isOption ? name : '',
      values: isOption ? values : [word],
    })
    if (isJump(group.clauses.at(-1))) {
      current = { module: TARGET + (values[0] ?? ''), clauses: [] }
      groups.push(current)
    }
    negated = false
  }
  // Said of nothing: kept, so that it is not overlooked.
  if (negated) current.clauses.push({ module: current.module, negated, option: '', values: [] })
  return groups
}

function valueCount(module: string, name: string, words: readonly string[], at: number): number {
  const known = optionOf(module, name)
  if (known !== undefined) return known.values.length
  if (FREE_TEXT.has(name)) return 1
  const end = words.findIndex((word, index) => index >= at && (word === '!' || looksLikeOption(word)))
  return (end === -1 ? words.length : end) - at
}

function optionOf(module: string, name: string): Option | undefined {
  const options = Object.hasOwn(OPTIONS, module) ? OPTIONS[module] : undefined
  return options !== undefined && Object.hasOwn(options, name) ? options[name] : undefined
}

/** A negative number is a value. */
function looksLikeOption(word: string): boolean {
  return /^-[^0-9]/.test(word)
}

function isJump(clause: Clause | undefined): boolean {
  return (
    clause !== undefined &&
    clause.module === '' &&
    !clause.negated &&
    /^-[jg]$/.test(clause.option) &&
    clause.values.length === 1
  )
}

function isComment(clause: Clause): boolean {
  return clause.module === 'comment' && !clause.negated && clause.option === '--comment' && clause.values.length === 1
}

/** One text for each meaning of a group; null when it is not understood. */
function canonicalGroup({ module, clauses }: Group): string | null {
  // A target without options may be any target, or a chain: it is named by its jump.
  const known = Object.hasOwn(OPTIONS, module) || (module.startsWith(TARGET) && clauses.length === 0)
  const canonical = clauses.map(canonicalClause)
  const understood = canonical.filter((clause) => clause !== null)
  return known && understood.length === clauses.length ? JSON.stringify([module, ...understood.sort()]) : null
}

function canonicalClause({ module, negated, option, values }: Clause): string | null {
  const known = optionOf(module, option)
  if (known === undefined || known.values.length !== values.length || (negated && !known.negatable)) return null
  const canonical = known.values.map((toCanonical, index) => toCanonical(values[index] ?? ''))
  return canonical.includes(null) ? null : JSON.stringify([negated, option, ...canonical])
}
