/** IPv4 rules, captured from a 6.18 kernel, attribute by attribute. Above each what `ip -d -j` said of it. */
import { fromHex } from './hex.js'

/**
 * {"priority": 0, "src": "all", "table": "local", "protocol": "kernel"}
 */
export const LOCAL = fromHex(`
  34000000 20000200 00000000 23000000  # nlmsghdr
  02000000 ff000001 00000000  # fib_rule_hdr
  08000f00 ff000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 02000000  # FRA_PROTOCOL
`)

/**
 * {"priority": 0, "src": "all", "tun_id": 77, "table": "main", "protocol": "unspec"}
 */
export const TUNNEL = fromHex(`
  40000000 20000200 00000000 23000000  # nlmsghdr
  02000000 fe000001 00000000  # fib_rule_hdr
  08000f00 fe000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 00000000  # FRA_PROTOCOL
  0c000c00 00000000 0000004d  # FRA_TUN_ID
`)

/**
 * {"priority": 7, "src": "all", "goto": 40000, "protocol": "unspec"}
 */
export const GOTO = fromHex(`
  44000000 20000200 00000000 23000000  # nlmsghdr
  02000000 00000002 00000000  # fib_rule_hdr
  08000f00 00000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 00000000  # FRA_PROTOCOL
  08000600 07000000  # FRA_PRIORITY
  08000400 409c0000  # FRA_GOTO
`)

/**
 * {"priority": 1200, "src": "all", "dst": "10.128.3.7", "fwmark": "0x5", "fwmask": "0xff", "iif": "br-a",
 * "action": "prohibit", "protocol": "unspec"}
 */
export const MARKED_PROHIBIT = fromHex(`
  60000000 20000200 00000000 23000000  # nlmsghdr
  02200000 00000008 00000000  # fib_rule_hdr
  08000f00 00000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 00000000  # FRA_PROTOCOL
  09000300 62722d61 00000000  # FRA_IIFNAME
  08000600 b0040000  # FRA_PRIORITY
  08000a00 05000000  # FRA_FWMARK
  08001000 ff000000  # FRA_FWMASK
  08000100 0a800307  # FRA_DST
`)

/**
 * {"priority": 1202, "src": "all", "dst": "10.128.3.0", "dstlen": 24, "fwmark": "0", "fwmask": "0x2000000",
 * "iif": "br-gone", "iif_detached": null, "action": "prohibit", "protocol": "unspec"}
 */
export const DETACHED_PROHIBIT = fromHex(`
  58000000 20000200 00000000 23000000  # nlmsghdr
  02180000 00000008 08000000  # fib_rule_hdr
  08000f00 00000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 00000000  # FRA_PROTOCOL
  0c000300 62722d67 6f6e6500  # FRA_IIFNAME
  08000600 b2040000  # FRA_PRIORITY
  08001000 00000002  # FRA_FWMASK
  08000100 0a800300  # FRA_DST
`)

/**
 * {"priority": 32766, "src": "all", "table": "main", "protocol": "kernel"}
 */
export const MAIN = fromHex(`
  3c000000 20000200 00000000 23000000  # nlmsghdr
  02000000 fe000001 00000000  # fib_rule_hdr
  08000f00 fe000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 02000000  # FRA_PROTOCOL
  08000600 fe7f0000  # FRA_PRIORITY
`)

/**
 * {"priority": 32767, "src": "all", "table": "default", "protocol": "kernel"}
 */
export const DEFAULT = fromHex(`
  3c000000 20000200 00000000 23000000  # nlmsghdr
  02000000 fd000001 00000000  # fib_rule_hdr
  08000f00 fd000000  # FRA_TABLE
  08000e00 ffffffff  # FRA_SUPPRESS_PREFIXLEN
  05001500 02000000  # FRA_PROTOCOL
  08000600 ff7f0000  # FRA_PRIORITY
`)

/**
 * {"priority": 40000, "not": null, "src": "192.0.2.0", "srclen": 24, "tos": "0x10", "oif": "ifb7", "uid_start":
 * 5, "uid_end": 9, "ipproto": "tcp", "sport_start": 10, "sport_end": 20, "dport": 443, "table": "1000",
 * "suppress_prefixlen": 8, "suppress_ifgroup": "3", "flow_from": "3", "flow_to": "4", "protocol": "openr"}
 */
export const EVERYTHING = fromHex(`
  8c000000 20000200 00000000 23000000  # nlmsghdr
  02001810 fc000001 02000000  # fib_rule_hdr
  08000f00 e8030000  # FRA_TABLE
  08000e00 08000000  # FRA_SUPPRESS_PREFIXLEN
  05001500 63000000  # FRA_PROTOCOL
  09001100 69666237 00000000  # FRA_OIFNAME
  08000600 409c0000  # FRA_PRIORITY
  0c001400 05000000 09000000  # FRA_UID_RANGE
  08001700 0a001400  # FRA_SPORT_RANGE
  08001800 bb01bb01  # FRA_DPORT_RANGE
  06001d00 ffff0000  # attribute 29
  05001600 06000000  # FRA_IP_PROTO
  08000d00 03000000  # FRA_SUPPRESS_IFGROUP
  08000200 c0000200  # FRA_SRC
  08000b00 04000300  # FRA_FLOW
`)
