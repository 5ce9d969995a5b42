#!/usr/bin/env bash
# Everything that the plain tools say about the network namespace it runs in, one "## name" line before each
# section. Reads only, and asks legacy iptables about none but the tables that exist: asking would make them.
set -u
export LC_ALL=C

section() { echo "## $1"; }
# A tool that fails is part of the picture: iptables-save does, where it cannot parse what others wrote.
try() { "$@" || echo "# $1 ended with status $?"; }

for tool in ip tc nft ip{,6}tables-{nft,legacy}-save; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2; exit 1; }
done

section links; try ip -d -j link show
section addresses; try ip -4 -o addr show
section 'IPv6 addresses'; try ip -6 -o addr show scope global
section routes; try ip -4 route show table all
section 'IPv6 routes'; try ip -6 route show table all | grep -v 'proto \(kernel\|ra\)'
section rules; try ip -4 rule show
section 'IPv6 rules'; try ip -6 rule show
section neighbours; try ip -4 neigh show
section proxies; try ip -4 neigh show proxy; try ip -6 neigh show proxy

section qdiscs; try tc qdisc show
section filters
tc qdisc show | while read -r _ kind _ _ device rest; do
  case $kind in
    noqueue) ;;
    clsact) tc filter show dev "$device" ingress | sed "s/^filter/filter $device ingress/"
            tc filter show dev "$device" egress | sed "s/^filter/filter $device egress/" ;;
    ingress) tc filter show dev "$device" ingress | sed "s/^filter/filter $device ingress/" ;;
    *) tc filter show dev "$device" | sed "s/^filter/filter $device/" ;;
  esac
done

for family in ip ip6; do
  section "$family legacy tables"; cat "/proc/net/${family}_tables_names" 2>/dev/null
  section "$family legacy"
  cat "/proc/net/${family}_tables_names" 2>/dev/null | sort | while read -r table; do
    try "${family}tables-legacy-save" -t "$table"
  done
  section "$family nft"; try "${family}tables-nft-save" 2>&1
done
section nftables; try nft list ruleset

section sysctls
cd /proc/sys/net && grep -rsH . ipv4/ip_forward ipv4/conf ipv4/neigh ipv6/conf \
  --include=ip_forward --include=forwarding --include=rp_filter --include=src_valid_mark --include=accept_local \
  --include=route_localnet --include=arp_ignore --include=arp_announce --include=arp_filter --include=proxy_arp \
  --include=proxy_arp_pvlan --include=send_redirects --include=disable_ipv6 --include=proxy_delay

section namespaces
cd /run/netns 2>/dev/null && for name in *; do
  [ -e "$name" ] || continue
  echo "$name $(stat -c %i "$name")"
  ip -n "$name" -4 -o addr show | sed "s/^/$name /"
  ip -n "$name" -4 route show table main 2>/dev/null | sed "s/^/$name /"
done
:
