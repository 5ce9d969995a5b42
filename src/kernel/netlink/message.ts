/**
 * Netlink messages (`struct nlmsghdr`, netlink(7)) out of bytes and into bytes. Numbers on the wire are in the host's
 * byte order, and every machine that this runs on is little-endian.
 */
import { NLM_F_REQUEST, NLMSG_ALIGNTO, NLMSG_HDRLEN } from '../linux.js'
import { MalformedMessage } from './errors.js'

export interface Message {
  /** NLMSG_*, RTM_*. */
  readonly type: number
  /** NLM_F_*. */
  readonly flags: number
  readonly sequence: number
  readonly port: number
  /** The whole message, header included: a view of the bytes it was read from. */
  readonly bytes: Buffer
  /** Where in `bytes` the payload begins. */
  readonly payload: number
}

/**
 * The messages that stand one behind the other in `bytes`.
 *
 * @throws MalformedMessage for a length that cannot be; `offset` counts from the beginning of `bytes`.
 */
export function* readMessages(bytes: Buffer): Generator<Message, void> {
  let offset = 0
  while (offset < bytes.length) {
    if (offset + NLMSG_HDRLEN > bytes.length) throw new MalformedMessage('message header is cut short', offset)
    const length = bytes.readUInt32LE(offset)
    // A length below the header's own would never advance; one past the end would read what is not there.
    if (length < NLMSG_HDRLEN) throw new MalformedMessage(`message length ${length}`, offset)
    if (length > bytes.length - offset) throw new MalformedMessage(`message of ${length} bytes is cut short`, offset)
    yield {
      type: bytes.readUInt16LE(offset + 4),
      flags: bytes.readUInt16LE(offset + 6),
      sequence: bytes.readUInt32LE(offset + 8),
      port: bytes.readUInt32LE(offset + 12),
      bytes: bytes.subarray(offset, offset + length),
      payload: NLMSG_HDRLEN,
    }
    offset += align(length)
  }
}

/** Requests as one batch, NLM_F_REQUEST added, numbered from 0; their port is the kernel's to fill in. */
export function writeRequests(
  requests: readonly { readonly type: number; readonly flags: number; readonly payload: Buffer }[],
): Buffer {
  const total = requests.reduce((sum, { payload }) => sum + align(NLMSG_HDRLEN + payload.length), 0)
  const bytes = Buffer.alloc(total)
  let offset = 0
  for (const [sequence, { type, flags, payload }] of requests.entries()) {
    const length = NLMSG_HDRLEN + payload.length
    bytes.writeUInt32LE(length, offset)
    bytes.writeUInt16LE(type, offset + 4)
    bytes.writeUInt16LE(flags | NLM_F_REQUEST, offset + 6)
    bytes.writeUInt32LE(sequence, offset + 8)
    payload.copy(bytes, offset + NLMSG_HDRLEN)
    offset += align(length)
  }
  return bytes
}

/** The next multiple of four: where a message, or an attribute, may begin. */
export function align(length: number): number {
  return (length + NLMSG_ALIGNTO - 1) & ~(NLMSG_ALIGNTO - 1)
}
