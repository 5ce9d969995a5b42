#!/usr/bin/env bash
# Brings a checkout to the point where the tests and the demo run: Debian packages, npm packages, the addon, dist/.
# Does only what is missing or out of date, and says what before it does it. `npm test` and `npm run demo` call it.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin

say() { echo "setup: $*"; }
die() { echo "setup: $*" >&2; exit 1; }

# Each command that the build, the tests and the demo run, and the Debian package that has it.
COMMANDS='
  g++:g++ make:make python3:python3
  ip:iproute2 tc:iproute2
  iptables-nft-save:iptables iptables-legacy-save:iptables nft:nftables
  sysctl:procps awk:mawk conntrack:conntrack
  unshare:util-linux nsenter:util-linux setpriv:util-linux flock:util-linux mount:mount
'

node_js() {
  command -v node >/dev/null && command -v npm >/dev/null || die 'Node.js 20.4 or later and npm are needed: https://nodejs.org'
  node -e 'const [major, minor] = process.versions.node.split(".").map(Number)
    process.exit(major > 20 || (major === 20 && minor >= 4) ? 0 : 1)' ||
    die "Node.js 20.4 or later is needed, and this is $(node --version): https://nodejs.org"
}

debian_packages() {
  local entry missing=() install
  for entry in $COMMANDS; do
    command -v "${entry%%:*}" >/dev/null || [[ " ${missing[*]-} " == *" ${entry#*:} "* ]] || missing+=("${entry#*:}")
  done
  ((${#missing[@]})) || return 0
  command -v apt-get >/dev/null || die "install what Debian calls ${missing[*]}, then try again"
  install="apt-get install --yes --no-install-recommends ${missing[*]}"
  [ "$(id -u)" = 0 ] || die "Debian packages are missing; as root: apt-get update && $install"
  say "installing the Debian packages ${missing[*]}"
  apt-get update --quiet --quiet
  DEBIAN_FRONTEND=noninteractive $install --quiet --quiet >/dev/null
}

# Runs a step, and shows what it printed only when it fails.
quietly() {
  local log
  log=$("$@" 2>&1) || { echo "$log" >&2; die "failed: $*"; }
}

npm_packages() {
  [ node_modules/.package-lock.json -nt package-lock.json ] && return
  say 'installing the npm packages of package-lock.json into node_modules/'
  # None of them needs its install script, so none is run.
  quietly npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
}

# Whether any of the files and folders given after it is younger than $1, or $1 is not there.
outdated() {
  local built=$1; shift
  [ ! -e "$built" ] || [ -n "$(find "$@" -newer "$built" -print -quit)" ]
}

addon() {
  outdated build/Release/netsweep.node native binding.gyp scripts/build-native.sh || return 0
  say 'compiling the addon into build/ (fetches the headers of this Node.js where it came without)'
  quietly bash scripts/build-native.sh
}

command_line() {
  outdated dist/cli.js src tsconfig.json tsconfig.build.json package.json scripts/build-ts.sh || return 0
  say 'compiling src/ into dist/'
  quietly npm run --silent build:ts
}

node_js
debian_packages
# One set-up at a time; the lock goes with this process. On the folder itself, since a build may empty build/.
exec {lock}<.
flock --nonblock "$lock" || { say 'waiting for another set-up of this checkout'; flock "$lock"; }
npm_packages
addon
command_line
