/** Batches for iptables-restore. */
import { quoteWord } from './words.js'

/** Limits of iptables-restore, tried with 1.8.9: what goes beyond is cut, or read as another command, or refused. */
const MAX_WORD_BYTES = 1023
const MAX_LINE_BYTES = 10_000
const MAX_WORDS = 248

/** A command that iptables-restore could not read as it is meant. */
export class UnwritableCommand extends Error {
  override readonly name = 'UnwritableCommand'

  constructor(
    reason: string,
    /** The command, quoted as far as it can be. */
    readonly command: string,
  ) {
    super(`${reason}: ${JSON.stringify(command.slice(0, 200))}`)
  }
}

/**
 * One table's commands as a batch: all of them take effect, or none. Each command is a list of words, `-D`, `PREROUTING`, …; the
 * first of them stands on line 2. Throws UnwritableCommand.
 */
export function formatBatch(table: string, commands: readonly (readonly string[])[]): string {
  return batchOf(table, commands.map(formatCommand))
}

/** The same of lines that formatCommand has made. */
export function batchOf(table: string, lines: readonly string[]): string {
  if (!/^\w+$/.test(table)) throw new UnwritableCommand('no name of a table', table)
  return [`*${table}`, ...lines, 'COMMIT', ''].join('\n')
}

/** Nothing that a word could be refused for, but for its length. */
const ORDINARY = /^-[A-Z](?: [\x20-\x7e]*)?$/

/** One command as a line. Throws UnwritableCommand. */
export function formatCommand(words: readonly string[]): string {
  const line = words.map(quoteWord).join(' ')
  if (ORDINARY.test(line) && line.length <= MAX_WORD_BYTES && words.length <= MAX_WORDS) return line
  const fail = (reason: string): never => {
    throw new UnwritableCommand(reason, line)
  }
  // A table's name, a chain's declaration or a remark would be read otherwise than as a command.
  if (!/^-[A-Z]$/.test(words[0] ?? '')) fail('no command')
  if (words.length > MAX_WORDS) fail(`more than ${MAX_WORDS} words`)
  for (const word of words) {
    if (/[\n\0]/.test(word)) fail('a line break or a null byte')
    // What was no UTF-8 was replaced when it was read: the original is not known.
    if (word.includes('\ufffd')) fail('bytes that are no text')
    if (Buffer.byteLength(word) > MAX_WORD_BYTES) fail(`a word of more than ${MAX_WORD_BYTES} bytes`)
  }
  if (Buffer.byteLength(line) > MAX_LINE_BYTES) fail(`more than ${MAX_LINE_BYTES} bytes`)
  return line
}
