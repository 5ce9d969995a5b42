/** Logs, on stderr: JSON lines for whatever collects them, one readable line each on a terminal. */
import { createRequire } from 'node:module'
import type { Logger, pino } from 'pino'
import type { Style } from './style.js'

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
}

interface Sink {
  write(text: string): unknown
}

/** `level`: the least that is written. */
export function createLog(level: LogLevel, sink: Sink, style: Style): Log {
  let logger: Logger | undefined
  // Loading pino takes about as long as an idle pass, and most passes have nothing to log.
  const at =
    (name: 'debug' | 'info') =>
    (fields: object, message: string): void => {
      if (LOG_LEVELS.indexOf(name) < LOG_LEVELS.indexOf(level)) return
      logger ??= loadPino()({ name: 'netsweep', level }, { write: (line) => void sink.write(dress(line, style)) })
      logger[name](fields, message)
    }
  return { debug: at('debug'), info: at('info') }
}

function loadPino(): typeof pino {
  return createRequire(import.meta.url)('pino') as typeof pino
}

function dress(line: string, style: Style): string {
  if (!style.isTerminal) return line
  const { level, time, pid, hostname, name, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  const stack = isError(err) ? `\n${err.stack}` : ''
  return `${style.dim(`netsweep: ${String(msg)}${rest.join('')}${stack}`)}\n`
}

function isError(value: unknown): value is { stack: string } {
  return typeof value === 'object' && value !== null && 'stack' in value
}
