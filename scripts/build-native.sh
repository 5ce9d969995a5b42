#!/usr/bin/env bash
# Compiles native/ into build/Release/netsweep.node: of a checkout, and of the package where it is installed. Uses the headers that came with this Node.js where
# they are there, so that nothing is downloaded.
set -eu
cd "$(dirname "$0")/.."
prefix=$(node -p 'require("path").dirname(require("path").dirname(process.execPath))')
headers=()
[ -e "$prefix/include/node/node_api.h" ] && headers=(--nodedir="$prefix")
# A checkout has node-gyp among its packages; where the package is installed, npm puts its own on the path.
PATH=$PWD/node_modules/.bin:$PATH
exec node-gyp configure build --loglevel=warn "${headers[@]}"
