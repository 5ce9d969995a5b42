#!/usr/bin/env bash
# Runs tests in the virtual machines of vm.sh. The last line is `N passed, N failed, N skipped`, over all boots:
#
#   vm-test.sh quick [KERNEL]    on one kernel, the tests that are tagged `guest`: what only a guest can test, and one of every kind
#   vm-test.sh full [KERNEL]     on both, or on one, all that is tested on a kernel
#   vm-test.sh 6.1 test/kernel/tc.test.ts -t 'a pattern'        any tests, with vitest's arguments
#
# The exit status is 1 when anything was not well, and 77 where this machine cannot do it (see vm.sh).
set -u
cd "$(dirname "$0")/.." || exit 1

# A boot each, so that each has a time limit of its own and a failure is seen early. Minutes, then vitest's arguments.
PARTS=(
  '30 test/vm test/native test/conntrack test/iptables test/rtnetlink'
  '300 test/kernel/deploy'
  '300 test/kernel/states'
  '180 test/kernel --exclude test/kernel/deploy* --exclude test/kernel/states/**'
  '120 test/packets'
)

passed=0 failed=0 skipped=0 summary=()
output=$(mktemp)
trap 'rm -f "$output"' EXIT

on() { # KERNEL MINUTES VITEST-ARGUMENT...
  local kernel=$1 minutes=$2 start=$SECONDS status said; shift 2
  echo "on Debian's kernel $kernel: $*"
  setpriv --pdeathsig TERM bash scripts/vm.sh run --kernel "$kernel" --timeout $((minutes * 60)) -- \
    env ${CI:+CI="$CI"} bash scripts/test.sh --config test/vm/vitest.config.ts "$@" | tee "$output"
  status=${PIPESTATUS[0]}
  ((status != 77)) || exit 77
  said=$(tail -n 1 "$output")
  if [[ $said =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]] && ((status == 0 || BASH_REMATCH[2] > 0)); then
    passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
  else
    said="no end (status $status)" failed=$((failed + 1))
  fi
  summary+=("$kernel, $(((SECONDS - start + 30) / 60)) min: $*: $said")
}

quick() {
  # vitest would load every file to find the tags in it, at some seconds each.
  local files; mapfile -t files < <(grep -rlE "@module-tag guest|tags: 'guest'|guest: true" test --include='*.test.ts' --include='*.guest.ts' | sort)
  on "$1" 30 --tags-filter guest "${files[@]}"
}

full() { # KERNEL...
  local kernel part
  for kernel; do
    for part in "${PARTS[@]}"; do
      read -ra part <<<"$part"
      on "$kernel" "${part[@]}"
    done
  done
}

case ${1:-} in
  quick) quick "${2:-6.12}" ;;
  full) full ${2:-6.1 6.12} ;;
  6.1 | 6.12) kernel=$1; shift; on "$kernel" 120 "$@" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
((${#summary[@]} == 1)) || printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
