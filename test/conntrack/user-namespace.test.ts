/** Without root's privileges, in a user namespace: the same, through a process in there. */
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { connectionCount, connectionsOf, deleteConnection } from '../../src/kernel/conntrack/conntrack.js'
import { NETLINK_NETFILTER } from '../../src/kernel/linux.js'
import { ask } from '../../src/kernel/netlink/ask.js'
import { loadAddon } from '../native/support.js'
import { fakeHost } from '../support/fake-host.js'
import { runProcess, start } from '../support/process.js'

const USER_NAMESPACE = ['--user', '--map-root-user', '--net', '--']

/** Two flows from an address to itself, then whatever is asked of netfilter: a line of hex in, a line of hex out. */
const EXCHANGER = `
  ip link set lo up
  ip addr add 10.128.3.7/32 dev lo
  ip addr add 10.128.3.9/32 dev lo
  iptables-nft -A INPUT -m conntrack --ctstate NEW -j ACCEPT
  echo >/dev/udp/10.128.3.7/53
  echo >/dev/udp/10.128.3.9/53
  exec "$0" -e '
    ${loadAddon}
    native.openSocket(${NETLINK_NETFILTER}, -1).then(async (socket) => {
      for await (const line of require("readline").createInterface({ input: process.stdin })) {
        const { end, bytes } = await socket.exchange(Buffer.from(line, "hex"), 10000)
        console.log(end + " " + bytes.toString("hex"))
      }
      socket.close()
    })'
`

test('connections are listed and deleted', async (context) => {
  const probe = await runProcess('unshare', [...USER_NAMESPACE, 'true'])
  if (probe.status !== 0) context.skip(`no user namespaces here (${probe.stderr.trim()})`)

  const inside = await start('unshare', [...USER_NAMESPACE, 'bash', '-e', '-c', EXCHANGER, process.execPath])
  inside.stderr.pipe(process.stderr)
  const answers = createInterface(inside.stdout)[Symbol.asyncIterator]()
  const host = fakeHost(() => [], {
    async exchange(requests) {
      inside.stdin.write(`${requests.toString('hex')}\n`)
      const [end, hex = ''] = String((await answers.next()).value).split(' ')
      expect(end).toBe('complete')
      return Buffer.from(hex, 'hex')
    },
  })

  try {
    const [count, { items, error }] = await ask(host, [connectionCount(), connectionsOf(['10.128.3.7'])])
    expect([count.items, count.error, error]).toEqual([[2], null, null])
    expect(items).toMatchObject([
      { original: { source: '10.128.3.7', destination: '10.128.3.7', protocol: 17, destinationPort: 53 } },
    ])
    const deleted = await ask(
      host,
      items.map((connection) => deleteConnection(connection, 'delete connection')),
    )
    expect(deleted.map((reply) => reply.error)).toEqual([null])
    const [left, seven, nine] = await ask(host, [
      connectionCount(),
      connectionsOf(['10.128.3.7']),
      connectionsOf(['10.128.3.9']),
    ])
    expect([left.items, seven.items.length, nine.items.length]).toEqual([[1], 0, 1])
  } finally {
    inside.kill('SIGKILL')
  }
})
