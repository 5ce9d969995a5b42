#!/usr/bin/env bash
# Compiles src/ into dist/: the library file by file, with its types; the command as one program, which starts in two
# thirds of the time. dist/ is whole or as it was.
set -eu
cd "$(dirname "$0")/.."
out=dist.new
rm -rf $out
node_modules/.bin/tsc -p tsconfig.build.json --outDir $out
# Packages that a pass does not need stay outside, and are loaded by who does. commander, inside, calls `require`.
node_modules/.bin/esbuild $out/cli.js --bundle --splitting --format=esm --platform=node --target=node20 --log-level=warning \
  --external:node-gyp-build --external:pino \
  --banner:js="import { createRequire as _createRequire } from 'node:module'; const require = _createRequire(import.meta.url);" \
  --outdir=$out --entry-names='[name]' --chunk-names='command/[name]-[hash]' --allow-overwrite
cp node_modules/commander/LICENSE $out/command/commander.LICENSE
cp node_modules/valibot/LICENSE.md $out/command/valibot.LICENSE
rm -f $out/cli.js.map
chmod +x $out/cli.js
rm -rf dist
mv $out dist
