/** How text is dressed: in colours on a terminal that wants them, plainly everywhere else. */

export interface Style {
  /** A person looks at it as it comes. */
  readonly isTerminal: boolean
  bold(text: string): string
  dim(text: string): string
  green(text: string): string
  yellow(text: string): string
  red(text: string): string
}

/** NO_COLOR (no-color.org) and TERM=dumb switch colours off, and nothing else. */
export function styleOf(
  output: { readonly isTTY?: boolean | undefined },
  env: Readonly<Record<string, string | undefined>>,
): Style {
  const isTerminal = output.isTTY === true
  const hasColours = isTerminal && !env.NO_COLOR && env.TERM !== 'dumb'
  const paint =
    (on: number, off: number) =>
    (text: string): string =>
      hasColours && text !== '' ? `\x1b[${on}m${text}\x1b[${off}m` : text
  return {
    isTerminal,
    bold: paint(1, 22),
    dim: paint(2, 22),
    green: paint(32, 39),
    yellow: paint(33, 39),
    red: paint(31, 39),
  }
}

/** `1 bridge`, `3 bridges`; `1 address`, `2 addresses`. */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`
}

/** Rows with their columns aligned, two spaces between; nothing behind the last one. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widthOf = (column: number): number => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  const widths = (rows[0] ?? []).map((_, column) => widthOf(column))
  return rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}
