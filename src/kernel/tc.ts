/** tc filters: the addon writes and reads their bytes, with the kernel's own headers. */
import { ETH_P_ARP, NLM_F_REQUEST, NLMSG_HDRLEN } from './linux.js'
import { type NativeFilter, native } from './native.js'
import { ipv4Bytes } from './netlink/attribute.js'
import { MalformedMessage } from './netlink/errors.js'
import type { Request } from './netlink/request.js'

/** A filter at the ingress of a link's clsact. */
export type Filter = NativeFilter

/** The ARP filters of that pref at the ingress of a link. A link without clsact, or no link at all: an empty list. */
export function arpFiltersOf(index: number, pref: number): Request<Filter> {
  return {
    ...fromMessage(`tc filters of link ${index}`, native().encodeFilterDump(index, pref, ETH_P_ARP)),
    decode({ bytes }) {
      try {
        const filter = native().decodeFilter(bytes)
        // An older kernel may ignore what the request names.
        return filter !== null && filter.index === index && filter.pref === pref ? filter : undefined
      } catch (cause) {
        throw new MalformedMessage(cause instanceof Error ? cause.message : String(cause), 0)
      }
    },
  }
}

/** An ARP filter at the ingress of a link's clsact: requests from `sender` for `target`, dotted, get the mark. */
export interface GrantFilter {
  readonly index: number
  readonly pref: number
  readonly handle: number
  readonly sender: string
  readonly target: string
  readonly mark: number
  readonly mask: number
}

/**
 * Makes the filter, in the place of the one of that pref and handle when it is of the same kind. ENOENT without
 * cls_flower or act_skbedit, EINVAL on a link without clsact.
 */
export function replaceGrantFilter(filter: GrantFilter, what: string): Request<never> {
  const addresses = { sender: ipv4Bytes(filter.sender), target: ipv4Bytes(filter.target) }
  return { ...fromMessage(what, native().encodeFilterReplace({ ...filter, ...addresses })), decode: () => undefined }
}

/** Gives the link a clsact; one that is there stays, with its filters. */
export function replaceClsact(index: number, what: string): Request<never> {
  return { ...fromMessage(what, native().encodeClsactReplace(index)), decode: () => undefined }
}

export function deleteFilter(filter: Filter, what: string): Request<never> {
  return { ...fromMessage(what, native().encodeFilterDelete(filter)), decode: () => undefined }
}

/** The addon makes whole messages; the exchange writes their headers itself. */
function fromMessage(what: string, message: Buffer): Omit<Request<never>, 'decode'> {
  return {
    what,
    type: message.readUInt16LE(4),
    flags: message.readUInt16LE(6) & ~NLM_F_REQUEST,
    payload: message.subarray(NLMSG_HDRLEN),
  }
}
