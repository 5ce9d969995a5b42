/** `ip -j -d link`, and what it prints read as JSON: with -d, else it does not tell the kinds. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { serve } from './listing.mjs'

const run = promisify(execFile)

await serve(async () => {
  const { stdout } = await run('ip', ['-j', '-d', 'link'], { maxBuffer: 2 ** 30 })
  /** @type {any[]} */
  const links = JSON.parse(stdout)
  // A master is told by its name.
  const indexes = new Map(links.map(({ ifname, ifindex }) => [ifname, ifindex]))
  return links.map(({ ifindex, ifname, flags, mtu, master, address, linkinfo }) => ({
    index: ifindex,
    name: ifname,
    flags,
    mtu,
    address,
    kind: linkinfo?.info_kind ?? '',
    master: master === undefined ? 0 : (indexes.get(master) ?? 0),
  }))
})
