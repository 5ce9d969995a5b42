#!/bin/busybox sh
# What the kernel starts first: finds the disks, puts them together, and hands over to the checkout's own init.sh.
set -e
mount() { /bin/busybox mount "$@"; }
for module in /modules/*; do [ ! -e "$module" ] || /bin/busybox insmod "$module"; done
mount -t devtmpfs devtmpfs /dev
# Disks are probed in the background.
tries=0
until [ -b /dev/vdc ] || [ "$((tries += 1))" -gt 100 ]; do /bin/busybox sleep 0.1; done
mount -t ext4 /dev/vda /root
mount -t ext4 /dev/vdb /root/netsweep
mount -t ext4 -o ro /dev/vdc /root/usr/lib/modules
mount --move /dev /root/dev
exec /bin/busybox switch_root /root /bin/bash /netsweep/test/vm/init.sh
