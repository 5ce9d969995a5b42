#!/usr/bin/env bash
# kernel.sh 6.1|6.12 FOLDER: Debian's cloud kernel of that series, as FOLDER/vmlinuz, with the initramfs that finds the
# disks, FOLDER/initrd, and all its modules, FOLDER/modules.ext4. Nothing is installed.
set -eu -o pipefail
series=$1 folder=$2 here=$(dirname "$(readlink -f "$0")")
# The console is where virtio_console's ports, and so the command's output, come from.
needed=(virtio_pci virtio_blk virtio_console ext4)

say() { echo "vm.sh: $*" >&2; }
skip() { say "skipped: $*"; exit 77; }

# 6.1 is the kernel of bookworm itself, 6.12 the one beside it; both packages name the newest of their series.
newest() {
  apt-cache depends --important linux-image-cloud-amd64 "linux-image-$series-cloud-amd64" 2>/dev/null |
    sed -n "s/^ *Depends: \(linux-image-${series//./\\.}\.[0-9].*\)/\1/p" | head -n 1
}
package=$(newest)
if [ -z "$package" ] && [ "$(id -u)" = 0 ]; then
  apt-get update >/dev/null 2>&1 || :
  package=$(newest)
fi
[ -n "$package" ] || skip "no linux-image-$series…-cloud-amd64 is among this machine's packages: Debian bookworm has it"

say "fetching $package"
mkdir -p "$folder/tree" "$folder/initramfs/modules"
cd "$folder"
fetch() { apt-get -o APT::Sandbox::User=root download "$package" >apt.log 2>&1; }
# Lists that are some days old name packages that are gone.
fetch || { [ "$(id -u)" = 0 ] && apt-get update >/dev/null 2>&1 && package=$(newest) && fetch; } ||
  { tail -n 3 apt.log >&2; skip "could not fetch $package"; }
dpkg-deb --extract ./*.deb tree
version=$(ls tree/lib/modules)
depmod --basedir "$PWD/tree" "$version"
mv "tree/boot/vmlinuz-$version" vmlinuz
bash "$here/image.sh" tree/lib/modules modules.ext4

# Each module after those it needs; the kernel may have any of them built in.
count=100
for name in "${needed[@]}"; do
  while read -r how module _; do
    [ "$how" = insmod ] || continue
    file=$(basename "${module%.xz}")
    ls initramfs/modules | grep -q -- "-$file$" && continue
    to=initramfs/modules/$((count++))-$file
    case $module in *.xz) xz -dc "$module" >"$to" ;; *) cp "$module" "$to" ;; esac
  done < <(modprobe --dirname "$PWD/tree" --set-version "$version" --show-depends "$name")
done
install -D "$(command -v busybox)" initramfs/bin/busybox
install "$here/initramfs.sh" initramfs/init
mkdir initramfs/{dev,proc,root}
(cd initramfs && find . | cpio --create --format=newc --owner=0:0 --quiet | gzip) >initrd
rm -rf tree initramfs ./*.deb apt.log
