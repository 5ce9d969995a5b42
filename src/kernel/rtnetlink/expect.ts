/** What every decoder checks before it reads. */
import { MalformedMessage } from '../netlink/errors.js'
import type { Message } from '../netlink/message.js'

/**
 * Where the attributes begin, behind the family header of `headerLength` bytes.
 *
 * @throws MalformedMessage when the message is of another type, or too short for that header.
 */
export function attributesAt(message: Message, type: number, headerLength: number): number {
  if (message.type !== type) throw new MalformedMessage(`message of type ${message.type} where ${type} is due`, 4)
  const start = message.payload + headerLength
  if (message.bytes.length < start) throw new MalformedMessage('family header is cut short', message.payload)
  return start
}

/** A link's index, where 0 would ask for something else than that link. @throws RangeError */
export function linkIndex(index: number): number {
  if (!Number.isInteger(index) || index <= 0) throw new RangeError(`link index ${index}`)
  return index
}
