/** IPv4 addresses and networks, as numbers below 2^32 and as people write them. */

/** A canonical network: no bit of `base` is set beyond `prefix`. */
export interface Cidr {
  readonly base: number
  readonly prefix: number
}

const OCTET = /^(?:0|[1-9][0-9]{0,2})$/

/** Null unless it is four plain decimal numbers from 0 to 255: no leading zeros, no short forms, no spaces. */
export function parseIpv4(text: string): number | null {
  const parts = text.split('.')
  if (parts.length !== 4) return null
  let address = 0
  for (const part of parts) {
    if (!OCTET.test(part) || Number(part) > 255) return null
    address = address * 256 + Number(part)
  }
  return address
}

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
  if (base === null || rest.length > 0 || !OCTET.test(length) || Number(length) > 32) return null
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
