/** One message out of its bytes, for decoders. */
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'

export function messageOf(bytes: Buffer): Message {
  const [message] = readMessages(bytes)
  if (message === undefined) throw new Error('no message')
  return message
}
