/** The ids by which one network namespace knows others (`struct rtgenmsg`, linux/net_namespace.h). */
import { AF_UNSPEC, NETNSA_FD, NETNSA_NSID, RTM_GETNSID, RTM_NEWNSID } from '../linux.js'
import { AttributeReader, AttributeWriter } from '../netlink/attribute.js'
import type { Message } from '../netlink/message.js'
import type { Request } from '../netlink/request.js'
import { attributesAt } from './expect.js'

/** `struct rtgenmsg` is one byte, padded. */
const RTGENMSG = 4

/**
 * The id of the namespace behind an open descriptor of this process, as links carry it (`Link.peerNamespace`).
 * One item: -1 when this namespace has given it none.
 */
export function namespaceId(fd: number): Request<number> {
  const payload = new AttributeWriter(Buffer.of(AF_UNSPEC)).u32(NETNSA_FD, fd).finish()
  return { what: `id of namespace ${fd}`, type: RTM_GETNSID, flags: 0, payload, decode: decodeNamespaceId }
}

/** @throws MalformedMessage */
export function decodeNamespaceId(message: Message): number {
  const attributes = new AttributeReader(message.bytes, attributesAt(message, RTM_NEWNSID, RTGENMSG))
  let id: number | undefined
  while (attributes.next()) if (attributes.type === NETNSA_NSID) id = attributes.s32()
  if (id === undefined) throw attributes.malformed('a namespace without an id')
  return id
}
