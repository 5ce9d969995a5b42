#!/usr/bin/env bash
# base.sh NODE IMAGE: the guest's root file system, Debian's smallest with what the tests call, and NODE as its node.
set -eu -o pipefail
node=$1 image=$2 suite=bookworm
packages=(
  conntrack iproute2 iptables iputils-arping iputils-ping kmod libstdc++6 mount netcat-openbsd nftables procps
  python3 strace tcpdump
)

say() { echo "vm.sh: $*" >&2; }
skip() { say "skipped: $*"; exit 77; }

[ "$(id -u)" = 0 ] || skip 'debootstrap needs root, for the first time: vm.sh prepare'
# Whatever serves this machine its packages serves the guest's.
mirror=$(apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(REPO_URI)' 'Identifier: Packages' |
  awk -v suite=$suite '$1 == suite && $2 == "Debian" { print $3; exit }')
[ -n "$mirror" ] || skip "the guest is Debian $suite, which is not among this machine's package sources"

say "making the base image from $mirror"
folder=$(mktemp -d "$image.XXXXXX") log=${image%/*}/debootstrap.log
trap 'rm -rf "$folder"' EXIT
IFS=,
# What it mounts goes with its namespace, and it dies with us.
setpriv --pdeathsig KILL -- unshare --mount --pid --fork --kill-child -- \
  debootstrap --variant=minbase --include="${packages[*]}" $suite "$folder" "$mirror" >"$log" 2>&1 ||
  { tail -n 20 "$log" >&2; say "debootstrap failed, see $log"; exit 125; }
rm -rf "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/* "$folder"/usr/share/{doc,man,locale}
mkdir -p "$folder/netsweep" "$folder/usr/lib/modules"
install "$node" "$folder/usr/bin/node"
echo netsweep-vm >"$folder/etc/hostname"
echo '127.0.0.1 localhost netsweep-vm' >"$folder/etc/hosts"
bash "$(dirname "$0")/image.sh" "$folder" "$image"
rm "$log"
