/** IPv4 routes, captured from a 6.18 kernel, attribute by attribute. Above each what `ip -d -j` said of it. */
import { fromHex } from './hex.js'

/**
 * {"type": "prohibit", "dst": "198.51.100.0/24", "table": "1000", "protocol": "boot", "scope": "global",
 * "flags": []}
 */
export const PROHIBIT = fromHex(`
  2c000000 18002200 00000000 23000000  # nlmsghdr
  02180000 fc030008 00000000  # rtmsg
  08000f00 e8030000  # RTA_TABLE
  08000100 c6336400  # RTA_DST
`)

/**
 * {"type": "unicast", "dst": "default", "gateway": "192.0.2.70", "dev": "ifb7", "table": "main", "protocol":
 * "babel", "scope": "global", "prefsrc": "192.0.2.65", "metric": 100, "flags": [], "metrics": [{"mtu": 1300,
 * "advmss": 1200}]}
 */
export const DEFAULT = fromHex(`
  58000000 18002200 00000000 23000000  # nlmsghdr
  02000000 fe2a0001 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000600 64000000  # RTA_PRIORITY
  14000800 08000200 14050000 08000800 b0040000  # RTA_METRICS
  08000700 c0000241  # RTA_PREFSRC
  08000500 c0000246  # RTA_GATEWAY
  08000400 05000000  # RTA_OIF
`)

/**
 * {"type": "unicast", "dst": "10.128.3.7", "dev": "br-a", "table": "main", "protocol": "boot", "scope": "link",
 * "flags": ["linkdown"]}
 */
export const HOST = fromHex(`
  34000000 18002200 00000000 23000000  # nlmsghdr
  02200000 fe03fd01 10000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 0a800307  # RTA_DST
  08000400 02000000  # RTA_OIF
`)

/**
 * {"type": "unicast", "dst": "192.0.2.8/31", "dev": "ifb7", "table": "main", "protocol": "kernel", "scope":
 * "link", "prefsrc": "192.0.2.1", "metric": 77, "flags": []}
 */
export const METRIC = fromHex(`
  44000000 18002200 00000000 23000000  # nlmsghdr
  021f0000 fe02fd01 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 c0000208  # RTA_DST
  08000600 4d000000  # RTA_PRIORITY
  08000700 c0000201  # RTA_PREFSRC
  08000400 05000000  # RTA_OIF
`)

/**
 * {"type": "unicast", "dst": "198.51.100.0/25", "tos": "0x10", "via": {"family": "inet6", "host": "fe80::1"},
 * "dev": "ifb7", "table": "main", "protocol": "boot", "scope": "global", "flags": [], "flow": {"from": "3",
 * "to": "4"}}
 */
export const VIA_IPV6 = fromHex(`
  54000000 18002200 00000000 23000000  # nlmsghdr
  02190010 fe030001 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 c6336400  # RTA_DST
  16001200 0a00fe80 00000000 00000000 00000000 00010000  # RTA_VIA
  08000400 05000000  # RTA_OIF
  08000b00 04000300  # RTA_FLOW
`)

/**
 * {"type": "unicast", "dst": "198.51.100.128/25", "nhid": 12, "gateway": "192.0.2.70", "dev": "ifb7", "table":
 * "main", "protocol": "boot", "scope": "global", "flags": [], "nh_info": {"id": 12, "gateway": "192.0.2.70",
 * "dev": "ifb7", "scope": "link", "protocol": "unspec", "flags": []}}
 */
export const NEXT_HOP_OBJECT = fromHex(`
  44000000 18002200 00000000 23000000  # nlmsghdr
  02190000 fe030001 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 c6336480  # RTA_DST
  08001e00 0c000000  # RTA_NH_ID
  08000500 c0000246  # RTA_GATEWAY
  08000400 05000000  # RTA_OIF
`)

/**
 * {"type": "unicast", "dst": "192.0.2.7", "encap": "ip", "id": 5, "src": "0.0.0.0", "ttl": 0, "tos": 0, "dev":
 * "ifb7", "table": "main", "protocol": "boot", "scope": "link", "flags": []}
 */
export const ENCAPSULATED = fromHex(`
  74000000 18002200 00000000 23000000  # nlmsghdr
  02180000 fe03fd01 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 c6336500  # RTA_DST
  08000400 05000000  # RTA_OIF
  38001600 0c000100 00000000 00000005 08000200 c0000207 08000300 00000000  # RTA_ENCAP
  05000500 00000000 05000400 00000000 06000600 00000000
  06001500 02000000  # RTA_ENCAP_TYPE
`)

/**
 * {"type": "unicast", "dst": "203.0.113.0/24", "table": "main", "protocol": "boot", "scope": "global", "flags":
 * [], "nexthops": [{"gateway": "192.0.2.70", "dev": "ifb7", "weight": 3, "flags": []}, {"dev": "br-b", "weight":
 * 1, "flags": []}]}
 */
export const MULTIPATH = fromHex(`
  48000000 18002200 00000000 23000000  # nlmsghdr
  02180000 fe030001 00000000  # rtmsg
  08000f00 fe000000  # RTA_TABLE
  08000100 cb007100  # RTA_DST
  1c000900 10000002 05000000 08000500 c0000246 08000000 03000000  # RTA_MULTIPATH
`)

/**
 * {"type": "broadcast", "dst": "10.128.3.255", "dev": "br-b", "table": "local", "protocol": "kernel", "scope":
 * "link", "prefsrc": "10.128.3.1", "flags": []}
 */
export const BROADCAST = fromHex(`
  3c000000 18002200 00000000 23000000  # nlmsghdr
  02200000 ff02fd03 00000000  # rtmsg
  08000f00 ff000000  # RTA_TABLE
  08000100 0a8003ff  # RTA_DST
  08000700 0a800301  # RTA_PREFSRC
  08000400 03000000  # RTA_OIF
`)
