/** The values of iptables options: numbers with masks, networks, lists, as written by hand or printed by iptables-save. */
import { formatIpv4, parseIpv4 } from '../ipv4.js'

/** A mark with its mask, both from 0 to 2^32 - 1. */
interface Mark {
  readonly value: number
  readonly mask: number
}

const ALL_BITS = 0xffffffff

/** `0x10/0xff`, `16`, `020`; without a mask every bit counts. Null for anything else. */
function parseMark(text: string): Mark | null {
  const [value = '', mask, ...rest] = text.split('/')
  if (rest.length > 0) return null
  const number = parseNumber(value)
  const bits = mask === undefined ? ALL_BITS : parseNumber(mask)
  return number === null || bits === null ? null : { value: number, mask: bits }
}

/** Decimal, hexadecimal with `0x`, octal with `0`, below 2^32: strtoul(3) with base 0. */
function parseNumber(text: string): number | null {
  const octal = /^0[0-7]+$/.test(text)
  if (!octal && !/^(?:0|[1-9][0-9]*|0[xX][0-9a-fA-F]+)$/.test(text)) return null
  const number = octal ? Number.parseInt(text, 8) : Number(text)
  return number <= ALL_BITS ? number : null
}

/** An address with its mask; bits beyond the mask are cleared, as iptables does before it adds a rule. */
interface Network {
  readonly address: number
  readonly mask: number
}

/** `10.128.3.7`, `10.128.3.0/24`, `10.0.0.0/255.0.255.0`. Null for anything else: host names, lists, short forms. */
function parseNetwork(text: string): Network | null {
  const [host = '', length, ...rest] = text.split('/')
  const address = parseIpv4(host)
  const mask = length === undefined ? ALL_BITS : parseMask(length)
  if (address === null || mask === null || rest.length > 0) return null
  return { address: (address & mask) >>> 0, mask }
}

function parseMask(text: string): number | null {
  if (!/^(?:0|[1-9][0-9]?)$/.test(text)) return parseIpv4(text)
  const prefix = Number(text)
  // A shift by 32 is a shift by 0.
  return prefix > 32 ? null : prefix === 0 ? 0 : (ALL_BITS << (32 - prefix)) >>> 0
}

/** One spelling for every way to write the same mark. */
export function canonicalMark(text: string): string | null {
  const mark = parseMark(text)
  return mark && `0x${mark.value.toString(16)}/0x${mark.mask.toString(16)}`
}

export function canonicalNetwork(text: string): string | null {
  const network = parseNetwork(text)
  return network && `${formatIpv4(network.address)}/${formatIpv4(network.mask)}`
}

/** The protocols that iptables names by itself; every other name comes from /etc/protocols, which differs by machine. */
const PROTOCOLS: ReadonlyMap<string, number> = new Map([
  ['all', 0],
  ['icmp', 1],
  ['tcp', 6],
  ['udp', 17],
  ['esp', 50],
  ['ah', 51],
  ['sctp', 132],
  ['udplite', 136],
])

export function canonicalProtocol(text: string): string | null {
  const number = PROTOCOLS.get(text) ?? (/^(?:0|[1-9][0-9]{0,2})$/.test(text) ? Number(text) : 256)
  return number <= 255 ? String(number) : null
}

const CONNECTION_STATES: ReadonlySet<string> = new Set([
  'INVALID',
  'NEW',
  'ESTABLISHED',
  'RELATED',
  'UNTRACKED',
  'SNAT',
  'DNAT',
])

/** A set: order and repetition mean nothing. */
export function canonicalStates(text: string): string | null {
  const states = [...new Set(text.split(','))].sort()
  return states.every((state) => CONNECTION_STATES.has(state)) ? states.join(',') : null
}

export function canonicalDirection(text: string): string | null {
  return text === 'ORIGINAL' || text === 'REPLY' ? text : null
}
