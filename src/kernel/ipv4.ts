/** IPv4 addresses and networks, as numbers below 2^32 and as people write them. */

/** A canonical network: no bit of `base` is set beyond `prefix`. */
export interface Cidr {
  readonly base: number
  readonly prefix: number
}

/** Null unless it is four plain decimal numbers from 0 to 255: no leading zeros, no short forms, no spaces. */
export function parseIpv4(text: string): number | null {
  // By hand, since every address that is read comes through here, some of them many times: splitting it takes four times as long.
  let address = 0
  let octet = 0
  let digits = 0
  let dots = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code >= ZERO && code <= NINE) {
      if (digits > 0 && octet === 0) return null
      octet = octet * 10 + code - ZERO
      if (octet > 255) return null
      digits++
    } else {
      if (code !== DOT || digits === 0 || ++dots > 3) return null
      address = address * 256 + octet
      octet = digits = 0
    }
  }
  return dots === 3 && digits > 0 ? address * 256 + octet : null
}

const ZERO = 48
const NINE = 57
const DOT = 46

export function formatIpv4(address: number): string {
  return `${address >>> 24}.${(address >>> 16) & 255}.${(address >>> 8) & 255}.${address & 255}`
}

/** The bits of an address that a network of this prefix length shares. */
function netmask(prefix: number): number {
  // `<<` takes its count modulo 32, so that 32 places would be none.
  return prefix === 0 ? 0 : (0xffffffff << (32 - prefix)) >>> 0
}

export function cidrContains(cidr: Cidr, address: number): boolean {
  return ((address ^ cidr.base) & netmask(cidr.prefix)) === 0
}

/** Null unless canonical: `10.128.0.0/9`, with no bit set beyond the prefix. */
export function parseCidr(text: string): Cidr | null {
  const [address = '', length = '', ...rest] = text.split('/')
  const base = parseIpv4(address)
  if (base === null || rest.length > 0 || !/^(?:0|[1-9][0-9]?)$/.test(length) || Number(length) > 32) return null
  const prefix = Number(length)
  return (base & ~netmask(prefix)) === 0 ? { base, prefix } : null
}

export function formatCidr({ base, prefix }: Cidr): string {
  return `${formatIpv4(base)}/${prefix}`
}

/** For sorting addresses by their number. Both must be well-formed. */
export function byAddress(a: string, b: string): number {
  return (parseIpv4(a) ?? 0) - (parseIpv4(b) ?? 0)
}
