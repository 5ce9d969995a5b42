/** Who wires a test's node: the library as it is built, or the oracle. */
import { fileURLToPath } from 'node:url'
import type { TestNode } from '../support/node.js'
import { Talker } from './talker.js'

export interface Workload {
  readonly workload: string
  readonly address: string
  readonly tenant: string
  readonly identity: string
  readonly allow?: readonly string[]
  readonly mtu?: number
}

export interface Wirer {
  deploy(workload: Workload): Promise<void>
  stop(workload: Workload): Promise<void>
  sweep(): Promise<void>
}

export type By = 'library' | 'oracle'

/** `grants`: whether there will be any. */
export function wirer(node: TestNode, by: By, grants = false): Promise<Wirer> {
  return by === 'oracle' ? Promise.resolve(oracle(node, grants)) : library(node)
}

async function library(node: TestNode): Promise<Wirer> {
  const script = fileURLToPath(new URL('./wire.mjs', import.meta.url))
  const options = JSON.stringify({ iptables: node.backend })
  const talker = new Talker(await node.start(process.execPath, [script, options]), 'wire.mjs')
  const act = async (action: string, ...what: unknown[]): Promise<void> => {
    const answer = (await talker.ask(action, ...what)) as { error?: string; complete?: boolean }
    if (answer.error !== undefined) throw new Error(`${action} ${JSON.stringify(what)}: ${answer.error}`)
    if (answer.complete === false) throw new Error(`${action} was incomplete: ${JSON.stringify(answer)}`)
  }
  return {
    deploy: (workload) => act('deploy', workload),
    stop: ({ workload }) => act('stop', workload),
    sweep: () => act('sweep'),
  }
}

function oracle(node: TestNode, grants: boolean): Wirer {
  // Its switch for kernels that lack what grants need.
  const env = { ARP_PATH: grants ? '1' : '0' }
  return {
    async deploy({ workload, address, tenant, identity, allow = [] }) {
      const who = ['--workload', workload, '--addr', address, '--tenant', tenant, '--identity', identity]
      await node.oracle('deploy', ...who, ...allow.flatMap((peer) => ['--allow', peer]), env)
    },
    async stop({ workload, address }) {
      await node.oracle('stop', workload)
      // A namespace's own devices go some time after it was deleted.
      await node.run(`while ip link show veth${address.split('.')[3]}; do sleep 0.05; done >/dev/null 2>&1`)
    },
    async sweep() {
      await node.oracle('sweep', env)
    },
  }
}
