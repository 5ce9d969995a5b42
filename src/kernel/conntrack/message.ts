/** What every ctnetlink message begins with (`struct nfgenmsg`, linux/netfilter/nfnetlink.h). */
import { AF_INET, NFNETLINK_V0, NFNL_SUBSYS_CTNETLINK } from '../linux.js'
import { AttributeReader } from '../netlink/attribute.js'
import { MalformedMessage } from '../netlink/errors.js'
import type { Message } from '../netlink/message.js'

const NFGENMSG = 4

/** nlmsg_type of IPCTNL_MSG_CT_*. */
export function conntrackType(message: number): number {
  return (NFNL_SUBSYS_CTNETLINK << 8) | message
}

/** The family header of a request about IPv4. */
export function ipv4Header(): Buffer {
  return Buffer.of(AF_INET, NFNETLINK_V0, 0, 0)
}

/** The attributes of an answer. @throws MalformedMessage when it is of another type than IPCTNL_MSG_CT_`message` */
export function attributesOf({ type, bytes, payload }: Message, message: number): AttributeReader {
  if (type !== conntrackType(message)) throw new MalformedMessage(`message of type ${type}`, 4)
  return new AttributeReader(bytes, payload + NFGENMSG)
}
