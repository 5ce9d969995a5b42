/**
 * The shell-like words of iptables-save and iptables-restore.
 *
 * iptables-save puts a free text (a comment, a log prefix) between double quotes unless it consists of letters, digits, `_`
 * and `-` alone, and writes `\` before `"`, `\` and `'` in there; everything else, line breaks included, stands as it
 * is. Names (chains, interfaces) are printed bare, whatever is in them: a `"` inside a bare word is part of it. So a
 * quote opens at the beginning of a word alone, and a backslash means something between quotes alone.
 */

/** A text that iptables-save cannot have printed: a quote that stays open, or closes in the middle of a word. */
export class MalformedWords extends Error {
  override readonly name = 'MalformedWords'

  constructor(
    reason: string,
    /** Where the quote or the line break stands, counted from the beginning of the text. */
    readonly offset: number,
  ) {
    super(reason)
  }
}

const SPACE = 32
const TAB = 9
const NEWLINE = 10
const QUOTE = 34
const BACKSLASH = 92

/**
 * Where the line of words ends that begins at `start`: at an unquoted line break, or at the end of the text. Null when a quote
 * is open there. Throws MalformedWords.
 */
export function endOfWords(text: string, start: number): number | null {
  let end = endOfLine(text, start)
  for (let at = text.indexOf('"', start); at !== -1 && at < end; at = text.indexOf('"', at)) {
    if (at > start && !isBreak(text, at - 1)) {
      at++
      continue
    }
    const behind = endOfQuoted(text, at)
    if (behind === null) return null
    at = behind
    if (at > end) end = endOfLine(text, at)
  }
  return end
}

/** The words of one line, unquoted. Throws MalformedWords. `-j LOG --log-prefix "a \"b"` → `-j`, `LOG`, `--log-prefix`, `a "b`. */
export function splitWords(line: string): string[] {
  const words: string[] = []
  let at = 0
  for (;;) {
    let code = line.charCodeAt(at)
    while (code === SPACE || code === TAB) code = line.charCodeAt(++at)
    if (at >= line.length) return words
    if (code === NEWLINE) throw new MalformedWords('a line break outside quotes', at)
    const begin = at
    if (code === QUOTE) {
      const behind = endOfQuoted(line, begin)
      if (behind === null) throw new MalformedWords('a quote is not closed', begin)
      at = behind
      const quoted = line.slice(begin + 1, at - 1)
      words.push(quoted.includes('\\') ? quoted.replace(/\\(.)/gs, '$1') : quoted)
    } else {
      while (!isBreak(line, at)) at++
      words.push(line.slice(begin, at))
    }
  }
}

/** A word as splitWords and iptables-restore read it. */
export function quoteWord(word: string): string {
  return /^[\w.,:/=+@%!-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, '\\$&')}"`
}

/** Behind the quote that closes the one at `open`; null when none does. */
function endOfQuoted(text: string, open: number): number | null {
  for (let at = open + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) {
      if (isBreak(text, at + 1)) return at + 1
      throw new MalformedWords('a quote closes in the middle of a word', open)
    }
  }
  return null
}

function endOfLine(text: string, from: number): number {
  const at = text.indexOf('\n', from)
  return at === -1 ? text.length : at
}

/** Whether a word ends before `at`. */
function isBreak(text: string, at: number): boolean {
  if (at >= text.length) return true
  const code = text.charCodeAt(at)
  return code === SPACE || code === TAB || code === NEWLINE
}
