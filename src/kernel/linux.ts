/**
 * The kernel's numbers, spelled once, under the kernel's names. From the headers of linux/ (6.1), which never
 * change a number: netlink.h, rtnetlink.h, if_link.h, veth.h, if_addr.h, neighbour.h, fib_rules.h, net_namespace.h,
 * if_ether.h, netfilter/nfnetlink.h, netfilter/nfnetlink_conntrack.h; and net/if.h.
 */

export const AF_UNSPEC = 0
export const AF_INET = 2

// netlink.h: protocols
export const NETLINK_ROUTE = 0
export const NETLINK_NETFILTER = 12

// netlink.h: struct nlmsghdr, struct nlattr
export const NLMSG_HDRLEN = 16
export const NLMSG_ALIGNTO = 4
export const NLA_HDRLEN = 4
export const NLA_F_NESTED = 0x8000
export const NLA_F_NET_BYTEORDER = 0x4000

// netlink.h: nlmsg_type below NLMSG_MIN_TYPE
export const NLMSG_NOOP = 1
export const NLMSG_ERROR = 2
export const NLMSG_DONE = 3
export const NLMSG_OVERRUN = 4

// netlink.h: nlmsg_flags
export const NLM_F_REQUEST = 0x1
export const NLM_F_MULTI = 0x2
export const NLM_F_ACK = 0x4
export const NLM_F_ECHO = 0x8
export const NLM_F_DUMP_INTR = 0x10
export const NLM_F_DUMP = 0x300
export const NLM_F_REPLACE = 0x100
export const NLM_F_EXCL = 0x200
export const NLM_F_CREATE = 0x400
export const NLM_F_CAPPED = 0x100
export const NLM_F_ACK_TLVS = 0x200

// netlink.h: attributes of NLMSG_ERROR and of a NLMSG_DONE that carries an error
export const NLMSGERR_ATTR_MSG = 1
export const NLMSGERR_ATTR_OFFS = 2

// rtnetlink.h: messages
export const RTM_NEWLINK = 16
export const RTM_DELLINK = 17
export const RTM_GETLINK = 18
export const RTM_NEWADDR = 20
export const RTM_DELADDR = 21
export const RTM_GETADDR = 22
export const RTM_NEWROUTE = 24
export const RTM_DELROUTE = 25
export const RTM_GETROUTE = 26
export const RTM_NEWNEIGH = 28
export const RTM_DELNEIGH = 29
export const RTM_GETNEIGH = 30
export const RTM_NEWRULE = 32
export const RTM_DELRULE = 33
export const RTM_GETRULE = 34
export const RTM_NEWNSID = 88
export const RTM_GETNSID = 90

// rtnetlink.h: what a link dump leaves out
export const RTEXT_FILTER_SKIP_STATS = 8

// if_ether.h
export const ETH_P_ARP = 0x0806

// net/if.h
export const IFF_UP = 0x1
export const IF_OPER_UNKNOWN = 0
export const IF_OPER_UP = 6

// if_link.h
export const IFLA_ADDRESS = 1
export const IFLA_IFNAME = 3
export const IFLA_MTU = 4
export const IFLA_LINK = 5
export const IFLA_MASTER = 10
export const IFLA_OPERSTATE = 16
export const IFLA_LINKINFO = 18
export const IFLA_GROUP = 27
export const IFLA_NET_NS_FD = 28
export const IFLA_EXT_MASK = 29
export const IFLA_LINK_NETNSID = 37
export const IFLA_PROP_LIST = 52
export const IFLA_ALT_IFNAME = 53
export const IFLA_INFO_KIND = 1
export const IFLA_INFO_DATA = 2
export const IFLA_VXLAN_LINK = 3

// veth.h
export const VETH_INFO_PEER = 1

// if_addr.h
export const IFA_ADDRESS = 1
export const IFA_LOCAL = 2
export const IFA_LABEL = 3
export const IFA_BROADCAST = 4
export const IFA_CACHEINFO = 6
export const IFA_FLAGS = 8
export const IFA_RT_PRIORITY = 9
export const IFA_PROTO = 11

// rtnetlink.h: routes
export const RT_TABLE_UNSPEC = 0
export const RT_TABLE_MAIN = 254
export const RTN_UNICAST = 1
export const RT_SCOPE_UNIVERSE = 0
export const RT_SCOPE_LINK = 253
export const RT_SCOPE_NOWHERE = 255
export const RTPROT_KERNEL = 2
export const RTPROT_BOOT = 3
export const RTPROT_STATIC = 4
export const RTA_DST = 1
export const RTA_OIF = 4
export const RTA_GATEWAY = 5
export const RTA_PRIORITY = 6
export const RTA_PREFSRC = 7
export const RTA_METRICS = 8
export const RTA_MULTIPATH = 9
export const RTA_TABLE = 15
export const RTA_VIA = 18
export const RTA_ENCAP_TYPE = 21
export const RTA_ENCAP = 22
export const RTA_NH_ID = 30

// neighbour.h
export const NDA_DST = 1
export const NDA_LLADDR = 2
export const NDA_CACHEINFO = 3
export const NDA_PROBES = 4
export const NDA_IFINDEX = 8
export const NDA_PROTOCOL = 12
export const NTF_PROXY = 0x08
export const NUD_NOARP = 0x40
export const NUD_PERMANENT = 0x80

// fib_rules.h
export const FIB_RULE_INVERT = 0x2
export const FIB_RULE_IIF_DETACHED = 0x8
export const FIB_RULE_OIF_DETACHED = 0x10
export const FRA_DST = 1
export const FRA_SRC = 2
export const FRA_IIFNAME = 3
export const FRA_GOTO = 4
export const FRA_PRIORITY = 6
export const FRA_FWMARK = 10
export const FRA_FLOW = 11
export const FRA_TUN_ID = 12
export const FRA_SUPPRESS_IFGROUP = 13
export const FRA_SUPPRESS_PREFIXLEN = 14
export const FRA_TABLE = 15
export const FRA_FWMASK = 16
export const FRA_OIFNAME = 17
export const FRA_PAD = 18
export const FRA_L3MDEV = 19
export const FRA_UID_RANGE = 20
export const FRA_PROTOCOL = 21
export const FRA_IP_PROTO = 22
export const FRA_SPORT_RANGE = 23
export const FRA_DPORT_RANGE = 24
export const FR_ACT_TO_TBL = 1
export const FR_ACT_GOTO = 2
export const FR_ACT_NOP = 3
export const FR_ACT_BLACKHOLE = 6
export const FR_ACT_UNREACHABLE = 7
export const FR_ACT_PROHIBIT = 8

// net_namespace.h
export const NETNSA_NSID = 1
export const NETNSA_FD = 3

// netfilter/nfnetlink.h, netfilter/nfnetlink_conntrack.h
export const NFNETLINK_V0 = 0
export const NFNL_SUBSYS_CTNETLINK = 1
export const IPCTNL_MSG_CT_NEW = 0
export const IPCTNL_MSG_CT_GET = 1
export const IPCTNL_MSG_CT_DELETE = 2
export const IPCTNL_MSG_CT_GET_STATS = 5
export const CTA_TUPLE_ORIG = 1
export const CTA_TUPLE_REPLY = 2
export const CTA_STATUS = 3
export const CTA_MARK = 8
export const CTA_ID = 12
export const CTA_ZONE = 18
export const CTA_TUPLE_IP = 1
export const CTA_TUPLE_PROTO = 2
export const CTA_IP_V4_SRC = 1
export const CTA_IP_V4_DST = 2
export const CTA_PROTO_NUM = 1
export const CTA_PROTO_SRC_PORT = 2
export const CTA_PROTO_DST_PORT = 3
export const CTA_PROTO_ICMP_ID = 4
export const CTA_PROTO_ICMP_TYPE = 5
export const CTA_PROTO_ICMP_CODE = 6
export const CTA_STATS_GLOBAL_ENTRIES = 1

// linux/rtnetlink.h, linux/pkt_cls.h, linux/pkt_sched.h: tc
export const RTM_NEWQDISC = 36
export const RTM_GETQDISC = 38
export const RTM_NEWTFILTER = 44
export const RTM_NEWACTION = 48
export const TCA_KIND = 1
export const TCA_ACT_TAB = 1
export const TCA_ACT_KIND = 1
export const TC_H_INGRESS = 0xfffffff1
export const TC_H_CLSACT = TC_H_INGRESS
export const TC_H_MIN_INGRESS = 0xfff2

// linux/netfilter/nf_tables.h
export const NFNL_SUBSYS_NFTABLES = 10
export const NFT_MSG_NEWRULE = 6
export const NFT_MSG_GETRULE = 7
export const NFTA_RULE_TABLE = 1
export const NFTA_RULE_CHAIN = 2
export const NFTA_RULE_EXPRESSIONS = 4
export const NFTA_LIST_ELEM = 1
export const NFTA_EXPR_NAME = 1
