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
 * Reads words up to the end of the line that `start` lies in: an unquoted line break, or the end of the text. `end` is that
 * offset. Throws MalformedWords.
 */
export function scanWords(text: string, start: number): { words: string[]; end: number } {
  const words: string[] = []
  let at = start
  for (;;) {
    let code = text.charCodeAt(at)
    while (code === SPACE || code === TAB) code = text.charCodeAt(++at)
    if (at >= text.length || code === NEWLINE) return { words, end: at }
    const begin = at
    if (code === QUOTE) {
      at = closingQuote(text, begin)
      const quoted = text.slice(begin + 1, at)
      words.push(quoted.includes('\\') ? quoted.replace(/\\(.)/gs, '$1') : quoted)
      at++
      if (!isBreak(text, at)) throw new MalformedWords('a quote closes in the middle of a word', begin)
    } else {
      while (!isBreak(text, at)) at++
      words.push(text.slice(begin, at))
    }
  }
}

/** The words of one line, unquoted. Throws MalformedWords. `-j LOG --log-prefix "a \"b"` → `-j`, `LOG`, `--log-prefix`, `a "b`. */
export function splitWords(line: string): string[] {
  const { words, end } = scanWords(line, 0)
  if (end < line.length) throw new MalformedWords('a line break outside quotes', end)
  return words
}

/** A word as splitWords and iptables-restore read it. */
export function quoteWord(word: string): string {
  return /^[\w.,:/=+@%!-]+$/.test(word) ? word : `"${word.replace(/["\\]/g, '\\$&')}"`
}

function closingQuote(text: string, open: number): number {
  for (let at = open + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at
    if (code === BACKSLASH) at++
  }
  throw new MalformedWords('a quote is not closed', open)
}

/** Whether a word ends before `at`. */
function isBreak(text: string, at: number): boolean {
  if (at >= text.length) return true
  const code = text.charCodeAt(at)
  return code === SPACE || code === TAB || code === NEWLINE
}
