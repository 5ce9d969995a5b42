/**
 * Deploys a workload, or sweeps when there is none, with the library as it is built, on the node that it is started on, and is
 * killed at its nth write, as by `kill -9`: right before it, or once it was asked for and nothing has answered. Without that many
 * writes, it ends well.
 *
 *   node dying.mjs '{"options": {…}, "workload": {…}, "nth": 1, "when": "before" | "during"}'
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { ContainerNet, deploy, lockNodeState, reconcile } from '../../dist/index.js'
import { openHost } from '../../dist/kernel/linux-host.js'
import { readMessages } from '../../dist/kernel/netlink/message.js'

const { options, workload, nth, when } = JSON.parse(process.argv[2])
let seen = 0

async function write(call, begun = async () => {}) {
  seen += 1
  if (seen < nth) return call()
  if (when === 'during') {
    call()
    await begun()
  }
  process.kill(process.pid, 'SIGKILL')
}

/** A tool is started, and told what to do, by a thread of its own. */
async function toolRuns() {
  const hasChild = (task) => readFileSync(`/proc/self/task/${task}/children`, 'utf8') !== ''
  for (let tries = 0; tries < 1000 && !readdirSync('/proc/self/task').some(hasChild); tries++) await sleep(1)
  await sleep(50)
}

// What lists and asks is the third of each four types of rtnetlink; of netfilter a deploy asks with GET (conntrack 1, nftables 7).
const isRead = ({ type }) => (type < 0x100 ? type % 4 === 2 : [0x101, 0xa07].includes(type))

/** The host, with each call that changes something behind `write`. */
const dying = (host) =>
  new Proxy(host, {
    get(_, name) {
      const value = Reflect.get(host, name, host)
      if (typeof value !== 'function') return value
      return (...args) => {
        const call = () => value.apply(host, args)
        switch (name) {
          case 'exchange':
            return [...readMessages(args[0])].every(isRead) ? call() : write(call)
          case 'run':
            return args[0].endsWith('-restore') ? write(call, toolRuns) : call()
          case 'openNamespace':
            return call().then((opened) => opened && { ...opened, host: dying(opened.host) })
          case 'scratchNamespace':
            return write(call).then((opened) => ({ ...opened, host: dying(opened.host) }))
          case 'writeFile':
          case 'createNamespace':
          case 'deleteNamespace':
            return write(call)
          default:
            return call()
        }
      }
    },
  })

const net = new ContainerNet(options)
const lock = await lockNodeState(net, { host: dying(await openHost()) })
await (workload === undefined ? reconcile(net, lock) : deploy(net, lock, workload))
await lock.release()
