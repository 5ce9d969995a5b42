#!/usr/bin/env bash
# Runs a command as root inside one of Debian's cloud kernels, under QEMU and without KVM: they have cls_flower and
# act_skbedit, which many a build machine's kernel lacks.
#
#   vm.sh prepare [KERNEL]...          make what all runs share, in .vm/: once, a minute or two
#   vm.sh run [--kernel KERNEL] [--timeout SECONDS] -- COMMAND [ARGUMENT]...
#
# KERNEL is 6.1 or 6.12 (the default; `prepare` makes both). The guest has a copy of this checkout, as it is built, in
# /netsweep, where COMMAND starts; lo is its only network device. COMMAND's stdout and stderr are ours, and so is its
# exit status. Besides: 77 when this machine cannot do it (the reason is said), 124 when the time was up (600 s unless
# told otherwise, booting included), 125 when a guest could not be made or came to no end of its own.
#
# The guest is gone when this script is, however it ends. The first call installs missing Debian packages, as root.
set -eu -o pipefail
# Debian keeps mke2fs, depmod and debootstrap out of an ordinary user's PATH.
PATH=$PATH:/usr/sbin:/sbin
cd "$(dirname "$0")/.."
cache=$PWD/.vm parts=test/vm

say() { echo "vm.sh: $*" >&2; }
die() { say "$@"; exit 125; }
skip() { say "skipped: $*"; exit 77; }
usage() { sed -n '2,14s/^# \{0,1\}//p' scripts/vm.sh >&2; exit 2; }

# Runs a command that dies with us, in the background, since only `wait` lets a signal through at once.
attend() { # sets `status`
  setpriv --pdeathsig KILL -- "$@" &
  child=$! status=0
  wait "$child" || status=$?
  child=
}

# Installs what is missing: TOOL=PACKAGE... by Debian's names.
need() {
  local pair missing=()
  for pair; do command -v "${pair%%=*}" >/dev/null || missing+=("${pair#*=}"); done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || skip "it takes Debian's ${missing[*]}, and there is no apt-get"
  [ "$(id -u)" = 0 ] || skip "as root, first: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  local log=$cache/apt.log
  local install=(apt-get install --yes --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}")
  "${install[@]}" >"$log" 2>&1 || { apt-get update && "${install[@]}"; } >"$log" 2>&1 ||
    { tail -n 5 "$log" >&2; skip "could not install ${missing[*]}"; }
}

# make NAME KEY COMMAND...: sets `made` to NAME-KEY in the cache. Where that is missing, COMMAND makes it, at the path
# appended to its arguments, and what other keys have made goes.
make() {
  local name=$1 partial=$cache/$1.partial; made=$cache/$1-$2; shift 2
  [ ! -e "$made" ] || return 0
  rm -rf "$partial" "$cache/$name"-*
  attend "$@" "$partial"
  ((status == 0)) || { rm -rf "$partial"; exit "$status"; }
  mv "$partial" "$made"
}

key() { cat "$@" | sha256sum | cut -c1-12; }

# prepare KERNEL...: sets `base`, and `kernel` to the last of them. The caller has the cache to itself.
prepare() {
  [ "$(uname -m)" = x86_64 ] || skip "the guests are x86_64, this machine is $(uname -m)"
  need qemu-system-x86_64=qemu-system-x86 mke2fs=e2fsprogs
  local node name; node=$(node -p process.execPath)
  key=$(key $parts/base.sh $parts/image.sh "$node")
  [ -e "$cache/base-$key" ] || need debootstrap=debootstrap
  make base "$key" bash $parts/base.sh "$node"; base=$made
  for name; do
    key=$(key $parts/kernel.sh $parts/initramfs.sh $parts/image.sh)
    [ -e "$cache/kernel-$name-$key" ] || need depmod=kmod cpio=cpio xz=xz-utils busybox=busybox-static
    make "kernel-$name" "$key" bash $parts/kernel.sh "$name"; kernel=$made
  done
}

# The checkout as the guest sees it, without what only a build needs, and the command: one file system.
project() { # IMAGE COMMAND...
  local image=$1 stage=$run/stage; shift
  [[ -e dist/cli.js && -e build/Release/netsweep.node ]] || die 'the checkout is not built: bash scripts/setup.sh'
  mkdir "$stage"
  tar -c --exclude=node_modules/{@biomejs,typescript,node-gyp,.vite,.vite-temp} \
    package.json tsconfig.json ./*.config.ts dist src test scripts bench/crowd.sh node_modules build/Release/netsweep.node |
    tar -x -C "$stage" || die 'could not copy the checkout'
  printf '%q ' "$@" >"$stage/.command"
  bash $parts/image.sh "$stage" "$image"
  rm -rf "$stage"
}

# A folder for this run; those of runs that were killed go. It is ours as long as we or the guest hold 8.
run_folder() { # sets `run`
  local old
  for old in "$cache"/run.*; do [ ! -d "$old" ] || flock --nonblock "$old" rm -rf "$old" || :; done
  run=$(mktemp -d "$cache/run.XXXXXX")
  exec 8<"$run"
  flock 8
}

boot() { # SECONDS COMMAND...: sets `status`
  local seconds=$1; shift
  project "$run/project" "$@"
  exec 7<"$run/project" 6<"$base" 5<"$kernel/modules.ext4"
  rm "$run/project" # the guest has it from 7, and nobody has to remember it
  mkfifo "$run/out" "$run/err"
  cat "$run/out" 8<&- &
  local streams=$!
  cat "$run/err" >&2 8<&- &
  streams+=" $!"
  local port=virtserialport
  local machine=(
    # 6.1 panicked while booting with two processors.
    -accel tcg,thread=single -smp 1 -m 2048 -machine pc
    # The plainest processor is the fastest to play; without these, Node.js refuses WebAssembly that has SIMD.
    -cpu qemu64,+ssse3,+sse4.1
    -nodefaults -no-user-config -no-reboot -display none -net none
    -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd" -append 'console=ttyS0 quiet panic=-1'
    -serial "file:$run/console" -device virtio-serial-pci
    -drive file=/proc/self/fd/6,format=raw,if=virtio,snapshot=on
    -drive file=/proc/self/fd/7,format=raw,if=virtio
    -drive file=/proc/self/fd/5,format=raw,if=virtio,readonly=on
    -chardev "file,id=out,path=$run/out" -device $port,nr=1,chardev=out
    -chardev "file,id=err,path=$run/err" -device $port,nr=2,chardev=err
    -chardev "file,id=status,path=$run/status" -device $port,nr=3,chardev=status
  )
  attend timeout --foreground --signal=KILL "$seconds" setpriv --pdeathsig KILL -- qemu-system-x86_64 "${machine[@]}" </dev/null
  # They end with it; had it never come to open them, they would wait for a writer.
  : <>"$run/out" <>"$run/err"
  wait $streams
  ((status != 137)) || { say "no end after $seconds s"; status=124; return; }
  ((status == 0)) && [ -s "$run/status" ] || { tail -n 60 "$run/console" 2>/dev/null >&2 || :; die "the guest came to no end of its own"; }
  status=$(<"$run/status")
}

# One at a time, for the cache is shared.
locked() {
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock --nonblock 9 || { say 'waiting for another one that prepares'; flock 9; }
  "$@"
  exec 9>&-
}

child='' run=''
trap 'trap - EXIT; [ -z "$child" ] || kill -KILL "$child" 2>/dev/null || :; [ -z "$run" ] || rm -rf "$run"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

known() { local name; for name; do case $name in 6.1 | 6.12) ;; *) usage ;; esac; done; }

action=${1:-}; shift || usage
case $action in
  prepare)
    (($#)) || set -- 6.1 6.12
    known "$@"
    locked prepare "$@"
    ;;
  run)
    series=6.12 seconds=600
    while (($#)); do
      case $1 in
        --kernel) series=${2:-}; shift 2 || usage ;;
        --timeout) seconds=${2:-}; shift 2 || usage ;;
        --) shift; break ;;
        *) usage ;;
      esac
    done
    known "$series"
    [[ $# -gt 0 && $seconds =~ ^[1-9][0-9]*$ ]] || usage
    locked prepare "$series"
    locked run_folder
    boot "$seconds" "$@"
    exit "$status"
    ;;
  *) usage ;;
esac
