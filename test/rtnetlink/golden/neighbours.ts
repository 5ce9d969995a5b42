/** IPv4 neighbours and proxy entries, captured from a 6.18 kernel, attribute by attribute. Above each what `ip -d -j` said of it. */
import { fromHex } from './hex.js'

/**
 * {"dst": "10.128.3.8", "dev": "br-a", "lladdr": "02:00:00:00:00:08", "state": ["STALE"]}
 */
export const STALE = fromHex(`
  4c000000 1c000200 00000000 23000000  # nlmsghdr
  02000000 02000000 04000001  # ndmsg
  08000100 0a800308  # NDA_DST
  0a000200 02000000 00080000  # NDA_LLADDR
  08000400 00000000  # NDA_PROBES
  14000300 7b170000 0b000000 0b000000 00000000  # NDA_CACHEINFO
`)

/**
 * {"dst": "10.128.3.7", "dev": "br-a", "lladdr": "02:00:00:00:00:07", "state": ["PERMANENT"], "protocol":
 * "babel"}
 */
export const PERMANENT = fromHex(`
  54000000 1c000200 00000000 23000000  # nlmsghdr
  02000000 02000000 80000001  # ndmsg
  08000100 0a800307  # NDA_DST
  0a000200 02000000 00070000  # NDA_LLADDR
  08000400 00000000  # NDA_PROBES
  14000300 0b000000 0b000000 0b000000 00000000  # NDA_CACHEINFO
  05000c00 2a000000  # NDA_PROTOCOL
`)

/**
 * {"dst": "224.0.0.22", "dev": "br-b", "lladdr": "01:00:5e:00:00:16", "state": ["NOARP"]}
 */
export const NOARP = fromHex(`
  4c000000 1c000200 00000000 23000000  # nlmsghdr
  02000000 03000000 40000005  # ndmsg
  08000100 e0000016  # NDA_DST
  0a000200 01005e00 00160000  # NDA_LLADDR
  08000400 00000000  # NDA_PROBES
  14000300 7c170000 0c000000 0c000000 00000000  # NDA_CACHEINFO
`)

/**
 * {"dst": "10.128.3.9", "dev": "br-b", "proxy": null, "protocol": "static"}
 */
export const PROXY_WITH_PROTOCOL = fromHex(`
  2c000000 1c000200 00000000 23000000  # nlmsghdr
  02000000 03000000 00000801  # ndmsg
  08000100 0a800309  # NDA_DST
  05000c00 04000000  # NDA_PROTOCOL
`)

/**
 * {"dst": "10.128.3.9", "dev": "br-a", "proxy": null}
 */
export const PROXY = fromHex(`
  24000000 1c000200 00000000 23000000  # nlmsghdr
  02000000 02000000 00000801  # ndmsg
  08000100 0a800309  # NDA_DST
`)
