/** The npm package `node-netlink`. It ends where messages do: a link's attributes are read here. */
import netlink from 'node-netlink'
import { attributes, kindOf, text } from './kind.mjs'
import { serve } from './listing.mjs'

const NETLINK_ROUTE = 0
const RTM_GETLINK = 18n
const IFINFOMSG = 16

const socket = await netlink.open({ family: NETLINK_ROUTE })
const header = {
  nlmsg_type: RTM_GETLINK,
  nlmsg_flags: netlink.NLM_F_REQUEST | netlink.NLM_F_DUMP | netlink.NLM_F_ACK,
}

await serve(async () => {
  const messages = await socket.talk({ header, payload: Buffer.alloc(IFINFOMSG) }, { timeout: 600_000 })
  return messages.map((/** @type {{ payload: Buffer }} */ { payload }) => decode(payload))
})

/** @param {Buffer} payload */
function decode(payload) {
  const link = {
    index: payload.readInt32LE(4),
    flags: payload.readUInt32LE(8),
    name: '',
    kind: '',
    master: 0,
    mtu: 0,
    address: '',
  }
  for (const [type, value] of attributes(payload, IFINFOMSG)) {
    if (type === 1) link.address = value.toString('hex')
    else if (type === 3) link.name = text(value)
    else if (type === 4) link.mtu = value.readUInt32LE(0)
    else if (type === 10) link.master = value.readUInt32LE(0)
    else if (type === 18) link.kind = kindOf(value)
  }
  return link
}
