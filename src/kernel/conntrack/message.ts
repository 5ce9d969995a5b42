/** What every ctnetlink message begins with (`struct nfgenmsg`, linux/netfilter/nfnetlink.h). */
import { AF_INET, NFNETLINK_V0, NFNL_SUBSYS_CTNETLINK } from '../linux.js'

export const NFGENMSG = 4

/** nlmsg_type of IPCTNL_MSG_CT_*. */
export function conntrackType(message: number): number {
  return (NFNL_SUBSYS_CTNETLINK << 8) | message
}

/** The family header of a request about IPv4. */
export function ipv4Header(): Buffer {
  return Buffer.of(AF_INET, NFNETLINK_V0, 0, 0)
}
