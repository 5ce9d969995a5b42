/** The npm package `netlink`. It leaves the kind of a link undecoded, so that is read here. */
import { createRtNetlink } from 'netlink'
import { kindOf } from './kind.mjs'
import { serve } from './listing.mjs'

const socket = createRtNetlink()

await serve(async () => {
  const messages = await socket.getLinks()
  return messages.map(({ data, attrs }) => ({
    index: data.index ?? 0,
    flags: data.flags,
    name: attrs.ifname ?? '',
    kind: attrs.linkinfo === undefined ? '' : kindOf(attrs.linkinfo),
    master: attrs.master ?? 0,
    mtu: attrs.mtu ?? 0,
    address: attrs.address,
  }))
})
