/** IPv4 addresses, captured from a 6.18 kernel, attribute by attribute. Above each what `ip -d -j` said of it. */
import { fromHex } from './hex.js'

/**
 * {"family": "inet", "local": "127.0.0.1", "prefixlen": 8, "scope": "host", "label": "lo", "valid_life_time":
 * 4294967295, "preferred_life_time": 4294967295, "ifindex": 1}
 */
export const LOOPBACK = fromHex(`
  4c000000 14000200 00000000 23000000  # nlmsghdr
  020880fe 01000000  # ifaddrmsg
  08000100 7f000001  # IFA_ADDRESS
  08000200 7f000001  # IFA_LOCAL
  07000300 6c6f0000  # IFA_LABEL
  08000800 80000000  # IFA_FLAGS
  14000600 ffffffff ffffffff b47e0200 b47e0200  # IFA_CACHEINFO
`)

/**
 * {"family": "inet", "local": "10.128.3.1", "prefixlen": 32, "scope": "global", "label": "br-a",
 * "valid_life_time": 4294967295, "preferred_life_time": 4294967295, "ifindex": 2}
 */
export const GATEWAY_32 = fromHex(`
  50000000 14000200 00000000 23000000  # nlmsghdr
  02208000 02000000  # ifaddrmsg
  08000100 0a800301  # IFA_ADDRESS
  08000200 0a800301  # IFA_LOCAL
  09000300 62722d61 00000000  # IFA_LABEL
  08000800 80000000  # IFA_FLAGS
  14000600 ffffffff ffffffff b47e0200 b47e0200  # IFA_CACHEINFO
`)

/**
 * {"family": "inet", "local": "10.128.3.1", "prefixlen": 24, "broadcast": "10.128.3.255", "scope": "global",
 * "label": "br-b:gw", "valid_life_time": 4294967295, "preferred_life_time": 4294967295, "ifindex": 3}
 */
export const GATEWAY_24 = fromHex(`
  58000000 14000200 00000000 23000000  # nlmsghdr
  02188000 03000000  # ifaddrmsg
  08000100 0a800301  # IFA_ADDRESS
  08000200 0a800301  # IFA_LOCAL
  08000400 0a8003ff  # IFA_BROADCAST
  0c000300 62722d62 3a677700  # IFA_LABEL
  08000800 80000000  # IFA_FLAGS
  14000600 ffffffff ffffffff b57e0200 b57e0200  # IFA_CACHEINFO
`)

/**
 * {"family": "inet", "local": "192.0.2.1", "address": "192.0.2.9", "prefixlen": 31, "metric": 77, "scope":
 * "link", "label": "ifb7", "valid_life_time": 4294967295, "preferred_life_time": 4294967295, "ifindex": 5}
 */
export const POINT_TO_POINT = fromHex(`
  58000000 14000200 00000000 23000000  # nlmsghdr
  021f80fd 05000000  # ifaddrmsg
  08000100 c0000209  # IFA_ADDRESS
  08000200 c0000201  # IFA_LOCAL
  09000300 69666237 00000000  # IFA_LABEL
  08000800 80000000  # IFA_FLAGS
  08000900 4d000000  # IFA_RT_PRIORITY
  14000600 ffffffff ffffffff b67e0200 b67e0200  # IFA_CACHEINFO
`)

/**
 * {"family": "inet", "local": "192.0.2.65", "prefixlen": 26, "scope": "global", "label": "ifb7",
 * "valid_life_time": 4294967295, "preferred_life_time": 4294967295, "ifindex": 5}
 */
export const PLAIN = fromHex(`
  50000000 14000200 00000000 23000000  # nlmsghdr
  021a8000 05000000  # ifaddrmsg
  08000100 c0000241  # IFA_ADDRESS
  08000200 c0000241  # IFA_LOCAL
  09000300 69666237 00000000  # IFA_LABEL
  08000800 80000000  # IFA_FLAGS
  14000600 ffffffff ffffffff b67e0200 b67e0200  # IFA_CACHEINFO
`)
