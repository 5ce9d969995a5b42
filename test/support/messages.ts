/** Netlink messages as bytes: what a kernel answers with, and requests that only tests send. */
import { NLMSG_HDRLEN } from '../../src/kernel/linux.js'
import { align } from '../../src/kernel/netlink/message.js'

export interface MessageFields {
  readonly type: number
  readonly flags: number
  readonly payload: Buffer
  readonly sequence?: number
  readonly port?: number
}

/** One message, padded to where the next would begin. */
export function writeMessage({ type, flags, payload, sequence = 0, port = 0 }: MessageFields): Buffer {
  const length = NLMSG_HDRLEN + payload.length
  const bytes = Buffer.alloc(align(length))
  bytes.writeUInt32LE(length, 0)
  bytes.writeUInt16LE(type, 4)
  bytes.writeUInt16LE(flags, 6)
  bytes.writeUInt32LE(sequence, 8)
  bytes.writeUInt32LE(port, 12)
  payload.copy(bytes, NLMSG_HDRLEN)
  return bytes
}
