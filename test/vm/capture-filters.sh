#!/usr/bin/env bash
# Prints a grant's filter, and filters that look like one, each as tc says it and as this kernel does: the hex of its
# RTM_NEWTFILTER. To be run in a guest, where no other filter is:
#
#   bash scripts/vm.sh run --kernel 6.1 -- bash test/vm/capture-filters.sh >test/native/golden/flower-6.1.txt
set -eu
ip link add yah0 index 7 type bridge
tc qdisc add dev yah0 clsact

dump() { # every RTM_NEWTFILTER of pref 895 that has a handle, in hex
  python3 - <<'PYTHON'
import socket, struct, sys
RTM_NEWTFILTER, RTM_GETTFILTER, REQUEST_DUMP, INGRESS, ARP = 44, 46, 0x301, 0xfffffff2, 0x0806
kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
tcmsg = struct.pack('=B3xiIII', 0, 7, 0, INGRESS, 895 << 16 | socket.htons(ARP))
kernel.send(struct.pack('=IHHII', 36, RTM_GETTFILTER, REQUEST_DUMP, 1, 0) + tcmsg)
while True:
    data = kernel.recv(65536)
    while data:
        length, kind = struct.unpack('=IH', data[:6])
        if kind != RTM_NEWTFILTER: sys.exit()
        if struct.unpack('=I', data[24:28])[0]: print(data[:length].hex())
        data = data[length + 3 & ~3:]
PYTHON
}

show() { # NAME FILTER...: makes it, shows it, takes it away
  echo
  echo "[$1]"
  shift
  tc filter add dev yah0 ingress protocol arp pref 895 handle 0x907 flower "$@"
  tc filter show dev yah0 ingress | sed '1d; /^$/d; s/^\s*/# /; s/\s*$//'
  dump | fold --width=96
  tc filter del dev yah0 ingress
}

echo "# $(uname -r), $(tc -V)"
op='arp_op request' sip='arp_sip 10.128.3.9' tip='arp_tip 10.128.3.7' mark='mark 0x2000000/0x2000000'
show 'a grant'                $op $sip $tip                             action skbedit $mark
show 'kept out of hardware'   $op $sip $tip skip_hw                     action skbedit $mark
show 'another key'            $op $sip $tip arp_sha 02:00:00:00:00:09   action skbedit $mark
show 'another input'          $op $sip $tip indev yah0                  action skbedit $mark
show 'a class'                $op $sip $tip classid 1:1                 action skbedit $mark
show 'a sender of 24 bits'    $op arp_sip 10.128.3.0/24 $tip            action skbedit $mark
show 'no target'              $op $sip                                  action skbedit $mark
show 'a reply'                arp_op reply $sip $tip                    action skbedit $mark
show 'no action'              $op $sip $tip
show 'another action'         $op $sip $tip                             action drop
show 'a second action'        $op $sip $tip                             action skbedit $mark action drop
show 'an action before'       $op $sip $tip action pedit munge offset 0 u8 set 1 pipe action skbedit $mark
show 'another mark'           $op $sip $tip                             action skbedit mark 0x1000000/0x1000000
show 'a mark without a mask'  $op $sip $tip                             action skbedit mark 0x2000000
show 'a priority besides'     $op $sip $tip                             action skbedit $mark priority :7
show 'let through'            $op $sip $tip                             action skbedit $mark pass
