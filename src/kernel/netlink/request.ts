/** A question to the kernel, with the way to read its answer: one value, so that neither goes without the other. */
import type { Keep } from '../host.js'
import type { Message } from './message.js'

export interface Request<T> {
  /** For people, in an error: `links of kind bridge`, `delete rule priority 1202 …`. */
  readonly what: string
  /** RTM_*. */
  readonly type: number
  /** NLM_F_*, NLM_F_REQUEST left out. */
  readonly flags: number
  /** The family header (ifinfomsg, rtmsg, …) and the attributes behind it. */
  readonly payload: Buffer
  /** Of a list, what is wanted, for the host to leave out the rest where it can; `decode` decides. */
  readonly keep?: Keep | undefined
  /** One answer message. Undefined: not what was asked for (skipped). Throws MalformedMessage. */
  decode(message: Message): T | undefined
}
