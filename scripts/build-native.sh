#!/usr/bin/env bash
# Compiles native/ into build/Release/netsweep.node. Uses the headers that came with this Node.js where
# they are there, so that nothing is downloaded.
set -eu
cd "$(dirname "$0")/.."
prefix=$(node -p 'require("path").dirname(require("path").dirname(process.execPath))')
headers=()
[ -e "$prefix/include/node/node_api.h" ] && headers=(--nodedir="$prefix")
exec npx --no-install node-gyp configure build --loglevel=warn "${headers[@]}"
