/** `ip -o -d link`, and what it prints taken apart: with -d, else it does not tell the kinds. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { serve } from './listing.mjs'

const run = promisify(execFile)
const LINE = /^(\d+): ([^:@]+)(?:@[^:]+)?: <([^>]*)> mtu (\d+)(?:.*? master (\S+))?/
const KIND = /\\ +(veth|bridge) /
const ADDRESS = /link\/\S+ (\S+)/

await serve(async () => {
  const { stdout } = await run('ip', ['-o', '-d', 'link'], { maxBuffer: 2 ** 30 })
  const lines = stdout.split('\n').filter((line) => line !== '')
  const links = lines.map((line) => {
    const [, index, name = '', flags, mtu, master] = LINE.exec(line) ?? []
    const [, kind = ''] = KIND.exec(line) ?? []
    const [, address] = ADDRESS.exec(line) ?? []
    return { index: Number(index), name, flags, mtu: Number(mtu), master, kind, address }
  })
  // A master is told by its name.
  const indexes = new Map(links.map(({ name, index }) => [name, index]))
  return links.map((link) => ({ ...link, master: link.master === undefined ? 0 : (indexes.get(link.master) ?? 0) }))
})
