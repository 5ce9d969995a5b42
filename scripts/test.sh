#!/usr/bin/env bash
# Runs the tests in namespaces of their own, and ends on a line `N passed, N failed, N skipped`. Arguments go to
# vitest: scripts/test.sh test/netlink -t 'a pattern'
set -u
cd "$(dirname "$0")/.." || exit 1

mkdir -p build && TEST_COUNT_FILE=$(mktemp "$PWD/build/count.XXXXXX") || exit 1
export TEST_COUNT_FILE
trap 'rm -f "$TEST_COUNT_FILE"' EXIT

bash scripts/private.sh node node_modules/vitest/vitest.mjs run "$@"
status=$?

if ! read -r passed failed skipped <"$TEST_COUNT_FILE"; then
  echo "the tests ended with status $status before they were counted" >&2
  passed=0 failed=1 skipped=0
elif ((status && !failed)); then
  echo "every test passed, and the run ended with status $status: see above" >&2
  failed=1
fi
sed 1d "$TEST_COUNT_FILE"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
