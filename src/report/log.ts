/** Logs, on stderr: JSON lines for whatever collects them, one readable line each on a terminal. */
import pino from 'pino'
import type { Style } from './style.js'

export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

export type Log = pino.Logger

interface Sink {
  write(text: string): unknown
}

export function createLog(level: LogLevel, sink: Sink, style: Style): Log {
  const readable = { write: (line: string) => void sink.write(readableLine(JSON.parse(line), style)) }
  const plain = { write: (line: string) => void sink.write(line) }
  return pino({ name: 'netsweep', level }, style.isTerminal ? readable : plain)
}

function readableLine(record: Record<string, unknown>, style: Style): string {
  const { level, time, pid, hostname, name, msg, err, ...fields } = record
  const label = pino.levels.labels[Number(level)] ?? String(level)
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${JSON.stringify(value)}`)
  const stack = isError(err) ? `\n${err.stack}` : ''
  return `${style.dim(`netsweep ${label}: ${String(msg)}${rest.join('')}${stack}`)}\n`
}

function isError(value: unknown): value is { stack: string } {
  return typeof value === 'object' && value !== null && 'stack' in value
}
