#!/usr/bin/env bash
# Runs tests in the virtual machines of vm.sh, on each kernel in turn; a run ends on a line `N passed, N failed, N skipped`:
#
#   vm-test.sh quick       what only a guest can test, on one kernel
#   vm-test.sh full        all that is tested on a kernel, on both
#   vm-test.sh 6.1 test/kernel/tc.test.ts -t 'a pattern'        any tests, with vitest's arguments
#
# The exit status is that of the last run that was not well, 77 where this machine cannot do it (see vm.sh).
set -u
cd "$(dirname "$0")/.." || exit 1

worst=0
on() { # KERNEL SECONDS VITEST-ARGUMENT...
  local kernel=$1 seconds=$2; shift 2
  echo "on Debian's kernel $kernel:"
  setpriv --pdeathsig TERM bash scripts/vm.sh run --kernel "$kernel" --timeout "$seconds" -- \
    bash scripts/test.sh --config test/vm/vitest.config.ts "$@" || worst=$?
}

case ${1:-} in
  quick) on 6.12 1800 test/vm ;;
  full) on 6.1 7200; on 6.12 7200 ;;
  6.1 | 6.12) kernel=$1; shift; on "$kernel" 7200 "$@" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
exit "$worst"
