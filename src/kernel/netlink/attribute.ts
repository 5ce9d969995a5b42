/** Attributes (`struct nlattr`, linux/netlink.h): length, type, value, padded to four bytes. */
import { parseIpv4 } from '../ipv4.js'
import { NLA_F_NESTED, NLA_F_NET_BYTEORDER, NLA_HDRLEN } from '../linux.js'
import { MalformedMessage } from './errors.js'
import { align } from './message.js'

/** An attribute that nobody here gives a meaning to, kept as it came. */
export interface UnknownAttribute {
  readonly type: number
  /** The value without its header: a view of the message. */
  readonly bytes: Buffer
}

/**
 * Walks the attributes between `start` and `end` of `bytes`, never past them. A value is read with the method of
 * its type, which holds its length against what the type needs.
 *
 * @throws MalformedMessage, from every method, with the offset of the attribute in `bytes`.
 */
export class AttributeReader {
  #at: number
  #next: number
  #type = 0
  #length = 0

  constructor(
    readonly bytes: Buffer,
    start: number,
    readonly end: number = bytes.length,
  ) {
    if (start > end) throw new MalformedMessage('header is cut short', end)
    this.#at = start
    this.#next = start
  }

  /** Moves to the next attribute, the first one at the first call. False at the end. */
  next(): boolean {
    const at = this.#next
    // The last attribute need not be padded, so that the next place may lie beyond the end.
    if (at >= this.end) return false
    this.#at = at
    if (at + NLA_HDRLEN > this.end) throw this.malformed('attribute header is cut short')
    const length = this.#u16(at)
    // A length below the header's own would never advance; one past the end would read a neighbour's bytes.
    if (length < NLA_HDRLEN || length > this.end - at) throw this.malformed(`attribute length ${length}`)
    this.#type = this.#u16(at + 2) & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER)
    this.#length = length - NLA_HDRLEN
    this.#next = at + align(length)
    return true
  }

  /** The attribute's number, without the flag bits. */
  get type(): number {
    return this.#type
  }

  u8(): number {
    return this.bytes.readUInt8(this.#value(1))
  }

  u16(): number {
    return this.bytes.readUInt16LE(this.#value(2))
  }

  u32(): number {
    return this.bytes.readUInt32LE(this.#value(4))
  }

  /** Network byte order, whatever the attribute's flags say. */
  u16be(): number {
    return this.bytes.readUInt16BE(this.#value(2))
  }

  /** Network byte order, whatever the attribute's flags say. */
  u32be(): number {
    return this.bytes.readUInt32BE(this.#value(4))
  }

  s32(): number {
    return this.bytes.readInt32LE(this.#value(4))
  }

  /** Network byte order, whatever the attribute's flags say. */
  u64be(): bigint {
    return this.bytes.readBigUInt64BE(this.#value(8))
  }

  /** A dotted IPv4 address. */
  ipv4(): string {
    const at = this.#value(4)
    const { bytes } = this
    return `${bytes[at]}.${bytes[at + 1]}.${bytes[at + 2]}.${bytes[at + 3]}`
  }

  /** Text up to its NUL, which may be missing; behind it nothing but padding is taken. */
  string(): string {
    const { start, end } = this.value()
    let stop = start
    while (stop < end && this.bytes[stop] !== 0) stop++
    for (let i = stop; i < end; i++) if (this.bytes[i] !== 0) throw this.malformed('text goes on behind its end')
    return this.bytes.toString('utf8', start, stop)
  }

  /** The attributes inside this one. */
  nested(): AttributeReader {
    const { start, end } = this.value()
    return new AttributeReader(this.bytes, start, end)
  }

  /** Where the value stands in `bytes`, for a structure that is walked by hand. */
  value(): { readonly start: number; readonly end: number } {
    const start = this.#at + NLA_HDRLEN
    return { start, end: start + this.#length }
  }

  /** The value as it stands: a view. With a length given, exactly that long. */
  raw(length = this.#length): Buffer {
    const start = this.#value(length)
    return this.bytes.subarray(start, start + length)
  }

  /** This attribute, to be kept as it came. */
  unknown(): UnknownAttribute {
    return { type: this.#type, bytes: this.raw() }
  }

  /** An error that names this attribute's place. */
  malformed(reason: string): MalformedMessage {
    return new MalformedMessage(reason, this.#at)
  }

  /** Inside `bytes`, as the caller has seen to: this is the innermost loop, and Buffer's own methods check once more. */
  #u16(at: number): number {
    return (this.bytes[at] as number) | ((this.bytes[at + 1] as number) << 8)
  }

  #value(length: number): number {
    if (this.#length !== length) {
      throw this.malformed(`attribute ${this.#type} has ${this.#length} bytes where ${length} are due`)
    }
    return this.#at + NLA_HDRLEN
  }
}

/** Builds a payload: a family header of fixed size, then attributes. Each method returns the writer. */
export class AttributeWriter {
  readonly #parts: Buffer[]

  constructor(header: Buffer = Buffer.alloc(0)) {
    this.#parts = [header]
    this.#pad(header.length)
  }

  u8(type: number, value: number): this {
    return this.raw(type, Buffer.of(value))
  }

  u32(type: number, value: number): this {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32LE(value)
    return this.raw(type, bytes)
  }

  u16be(type: number, value: number): this {
    const bytes = Buffer.alloc(2)
    bytes.writeUInt16BE(value)
    return this.raw(type, bytes)
  }

  u32be(type: number, value: number): this {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(value)
    return this.raw(type, bytes)
  }

  u64be(type: number, value: bigint): this {
    const bytes = Buffer.alloc(8)
    bytes.writeBigUInt64BE(value)
    return this.raw(type, bytes)
  }

  /** With its NUL, as the kernel sends it. */
  string(type: number, value: string): this {
    if (value.includes('\0')) throw new RangeError(`text with a NUL: ${JSON.stringify(value)}`)
    return this.raw(type, Buffer.from(`${value}\0`))
  }

  /** A dotted IPv4 address. */
  ipv4(type: number, address: string): this {
    return this.raw(type, ipv4Bytes(address))
  }

  nested(type: number, attributes: AttributeWriter): this {
    return this.raw(type | NLA_F_NESTED, attributes.finish())
  }

  raw(type: number, value: Buffer): this {
    const length = NLA_HDRLEN + value.length
    if (length > 0xffff) throw new RangeError(`attribute ${type} of ${length} bytes`)
    const header = Buffer.alloc(NLA_HDRLEN)
    header.writeUInt16LE(length, 0)
    header.writeUInt16LE(type, 2)
    this.#parts.push(header, value)
    this.#pad(value.length)
    return this
  }

  finish(): Buffer {
    return Buffer.concat(this.#parts)
  }

  #pad(length: number): void {
    const missing = align(length) - length
    if (missing > 0) this.#parts.push(Buffer.alloc(missing))
  }
}

/** In network byte order. @throws RangeError when it is no dotted IPv4 address */
export function ipv4Bytes(address: string): Buffer {
  const value = parseIpv4(address)
  if (value === null) throw new RangeError(`not an IPv4 address: ${JSON.stringify(address)}`)
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
