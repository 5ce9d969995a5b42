#!/usr/bin/env bash
# Builds what is compared and measures it, on nodes in namespaces of their own. Arguments: see README.md.
set -eu
cd "$(dirname "$0")"
case " $* " in *' --list '* | *' report '*) exec node main.mjs "$@" ;; esac
mkdir -p build
for program in floor stopwatch; do
  [ build/$program -nt $program.c ] || cc -Wall -Wextra -Werror -O2 -o build/$program $program.c
done
[ build/peers.json -nt peers.mjs ] || node prepare.mjs
exec bash ../scripts/private.sh node main.mjs "$@"
