/** Requests and answers as bytes, and the machine as ip(8) tells it. */
import { execFileSync, type StdioOptions } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  IFLA_IFNAME,
  NLM_F_DUMP,
  NLM_F_REQUEST,
  NLMSG_ERROR,
  RTM_GETLINK,
  RTM_NEWLINK,
} from '../../src/kernel/linux.js'
import { AttributeReader, AttributeWriter } from '../../src/kernel/netlink/attribute.js'
import { type Message, readMessages } from '../../src/kernel/netlink/message.js'
import { writeMessage } from '../support/messages.js'

const IFINFOMSG = 16

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** What a script of a test's begins with: the addon as `native`. */
export const loadAddon = `const native = require(${JSON.stringify(`${root}/node_modules/node-gyp-build`)})(${JSON.stringify(root)});`

export function ip(...args: string[]): string {
  return execFileSync('ip', args, { encoding: 'utf8' })
}

/** ip -batch: many changes in one process. */
export function ipBatch(options: readonly string[], lines: readonly string[]): void {
  const stdio: StdioOptions = ['pipe', 'inherit', 'inherit']
  execFileSync('ip', [...options, '-batch', '-'], { input: lines.join('\n'), stdio })
}

/** Index by name, as ip(8) lists them. */
export function ipLinks(...args: string[]): Map<string, number> {
  const links = JSON.parse(ip(...args, '-j', 'link')) as { ifname: string; ifindex: number }[]
  return new Map(links.map((link) => [link.ifname, link.ifindex]))
}

/** The same, out of the answers to a link dump. */
export function linksOf(bytes: Buffer): Map<string, number> {
  const links = new Map<string, number>()
  for (const message of readMessages(bytes)) if (message.type === RTM_NEWLINK) links.set(...linkOf(message))
  return links
}

export function linkOf({ bytes, payload }: Message): [name: string, index: number] {
  const reader = new AttributeReader(bytes, payload + IFINFOMSG)
  while (reader.next()) if (reader.type === IFLA_IFNAME) return [reader.string(), bytes.readInt32LE(payload + 4)]
  throw new Error('a link without a name')
}

/** The errno of an NLMSG_ERROR, 0 for an acknowledgement; null for another message. */
export function errnoOf(message: Message): number | null {
  return message.type === NLMSG_ERROR ? 0 - message.bytes.readInt32LE(message.payload) : null
}

export const linkDump = writeMessage({
  type: RTM_GETLINK,
  flags: NLM_F_REQUEST | NLM_F_DUMP,
  payload: Buffer.alloc(IFINFOMSG),
})

/** Without NLM_F_REQUEST, the kernel takes it for nobody's request and keeps silent. */
export const unanswered = writeMessage({ type: RTM_GETLINK, flags: 0, payload: Buffer.alloc(IFINFOMSG) })

export function getLink(name: string, flags = 0): Buffer {
  const attributes = new AttributeWriter(Buffer.alloc(IFINFOMSG)).string(IFLA_IFNAME, name)
  return writeMessage({ type: RTM_GETLINK, flags: NLM_F_REQUEST | flags, payload: attributes.finish() })
}

/** Makes a link; ip link add NAME type KIND. */
export function newLink(name: string, kind: string, flags: number): Buffer {
  const IFLA_LINKINFO = 18
  const IFLA_INFO_KIND = 1
  const attributes = new AttributeWriter(Buffer.alloc(IFINFOMSG))
    .string(IFLA_IFNAME, name)
    .nested(IFLA_LINKINFO, new AttributeWriter().string(IFLA_INFO_KIND, kind))
  return writeMessage({ type: RTM_NEWLINK, flags: NLM_F_REQUEST | flags, payload: attributes.finish() })
}

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length
}

export function threads(): number {
  return readdirSync('/proc/self/task').length
}
