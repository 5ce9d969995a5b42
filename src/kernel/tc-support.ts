/** What of tc a kernel has, found out by asking for too little: what is there says so, what is not is not found. */
import {
  AF_UNSPEC,
  NLM_F_ACK,
  NLM_F_CREATE,
  NLM_F_ECHO,
  NLM_F_EXCL,
  RTM_GETQDISC,
  RTM_NEWACTION,
  RTM_NEWQDISC,
  RTM_NEWTFILTER,
  TC_H_INGRESS,
  TCA_ACT_KIND,
  TCA_ACT_TAB,
  TCA_KIND,
} from './linux.js'
import { AttributeReader, AttributeWriter } from './netlink/attribute.js'
import type { Request } from './netlink/request.js'
import { attributesAt } from './rtnetlink/expect.js'

/** struct tcmsg: family, padding, ifindex, handle, parent, info. */
const TCMSG = 20
/** struct tcamsg: family, padding. */
const TCAMSG = 4

/**
 * The kind of what sits at a link's ingress: `clsact`, `ingress`. Nothing when nothing does, on older kernels ENOENT or EINVAL.
 */
export function ingressKind(index: number): Request<string> {
  const payload = Buffer.alloc(TCMSG)
  payload.writeInt32LE(index, 4)
  payload.writeUInt32LE(TC_H_INGRESS, 12)
  return {
    what: `ingress qdisc of link ${index}`,
    type: RTM_GETQDISC,
    // The kernel answers as if it told everybody, and whoever asks hears of it only when asking for an echo.
    flags: NLM_F_ACK | NLM_F_ECHO,
    payload,
    decode(message) {
      const attributes = new AttributeReader(message.bytes, attributesAt(message, RTM_NEWQDISC, TCMSG))
      while (attributes.next()) if (attributes.type === TCA_KIND) return attributes.string()
      return undefined
    },
  }
}

/** A filter without options on a link that has clsact: ENOENT when there is no such classifier, EINVAL when there is. */
export function probeClassifier(index: number, parent: number, protocol: number, kind: string): Request<never> {
  const header = Buffer.alloc(TCMSG)
  header.writeInt32LE(index, 4)
  header.writeUInt32LE(1, 8)
  header.writeUInt32LE(parent, 12)
  header.writeUInt16LE(1, 18)
  header.writeUInt16BE(protocol, 16)
  return probe(`classifier ${kind}`, RTM_NEWTFILTER, new AttributeWriter(header).string(TCA_KIND, kind).finish())
}

/** An action without parameters: ENOENT when there is no such action, EINVAL when there is. */
export function probeAction(kind: string): Request<never> {
  const header = Buffer.alloc(TCAMSG)
  header.writeUInt8(AF_UNSPEC, 0)
  const action = new AttributeWriter().string(TCA_ACT_KIND, kind)
  const payload = new AttributeWriter(header).nested(TCA_ACT_TAB, new AttributeWriter().nested(1, action)).finish()
  return probe(`action ${kind}`, RTM_NEWACTION, payload)
}

function probe(what: string, type: number, payload: Buffer): Request<never> {
  return { what, type, flags: NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, payload, decode: () => undefined }
}
