/** Fetches and builds the peers; outside the namespaces, which have no way out. */
import { preparePeers } from './peers.mjs'

await preparePeers((what) => process.stderr.write(`${what}\n`))
