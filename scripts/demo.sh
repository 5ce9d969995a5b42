#!/usr/bin/env bash
# Plays the demo of a checkout that scripts/setup.sh has built. Arguments go to `netsweep demo`: --json, --iptables legacy.
set -eu
cd "$(dirname "$0")/.."
exec node dist/cli.js demo "$@"
