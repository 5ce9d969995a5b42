#!/usr/bin/env bash
# What a pass with nothing to do costs on a node with N other links: a few workloads of three tenants run, everything of
# theirs is in its place. Prints a table of medians, in milliseconds. See README.md.
#   idle.sh [LINKS] [ROUNDS]     (10000, 7)
set -eu
cd "$(dirname "$0")/.."

if [ "${1:-}" != --inside ]; then
  [ -e dist/cli.js ] || { echo 'idle.sh: dist/ is missing: npm run build' >&2; exit 1; }
  mkdir -p build && cc -O2 -o build/floor bench/floor.c
  exec bash scripts/private.sh bash bench/idle.sh --inside "${1:-10000}" "${2:-7}"
fi
links=$2 rounds=$3
oracle() { ARP_PATH=0 IPTABLES=iptables-nft bash test/oracle/node.sh "$@" >/dev/null; }

oracle deploy --workload acct --addr 10.128.3.2
oracle deploy --workload api --addr 10.128.3.7 --tenant acme --identity acme/prod/api --allow globex/prod/billing
oracle deploy --workload web --addr 10.128.3.8 --tenant acme --identity acme/prod/web
oracle deploy --workload billing --addr 10.128.3.9 --tenant globex --identity globex/prod/billing
oracle deploy --workload lone --addr 10.128.3.11 --tenant initech --identity initech/prod/lone
bash bench/crowd.sh links "$links"
before=$(bash test/oracle/node.sh dump | cksum)

ms() { # COMMAND...: how long it took
  local start=$EPOCHREALTIME end
  "$@" >/dev/null
  end=$EPOCHREALTIME
  echo "$(((${end/./} - ${start/./}) / 1000)).$(((${end/./} - ${start/./}) % 1000 / 100))"
}
median() { sort -g | sed -n "$(((rounds + 1) / 2))p"; }

library=$(node bench/idle.mjs "$rounds")
targeted=$(build/floor "$rounds" | sed -E 's/.*"targeted":\{"ms":([0-9.]+).*/\1/')
commands='' oracles=''
for ((i = 0; i < rounds; i++)); do # turn by turn, so that a busy machine slows both down
  commands+=$(ms node dist/cli.js sweep)$'\n'
  oracles+=$(ms oracle sweep)$'\n'
done
command=$(median <<<"${commands%$'\n'}")
swept=$(median <<<"${oracles%$'\n'}")
[ "$before" = "$(bash test/oracle/node.sh dump | cksum)" ] || { echo 'idle.sh: a pass with nothing to do changed the node' >&2; exit 1; }

row() { awk -v name="$1" -v ms="$2" -v floor="$targeted" -v oracle="$swept" \
  'BEGIN { printf "| %-42s | %8.1f | %9.1f | %13.4f |\n", name, ms, ms / floor, ms / oracle }'; }
echo "beside $(ip -o link | wc -l) links, median of $rounds, $(uname -r), Node.js $(node -p process.versions.node), $(nproc) cores"
echo
echo '|                                            |       ms | ÷ floor.c | ÷ the oracle  |'
echo '| ------------------------------------------ | -------: | --------: | ------------: |'
row 'floor.c, targeted: the links, in C' "$targeted"
row 'an idle pass in a running process' "$library"
row 'netsweep sweep, as a process' "$command"
row "the oracle's sweep" "$swept"
