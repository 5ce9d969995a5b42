/** An address changes hands, and the deploy is killed (SIGKILL) before each of its writes: who reaches whom then. */
import { expect, test } from 'vitest'
import { dies } from '../support/dying.js'
import { BRIEF, GATEWAY, type Name, Network, PATIENT, portOf, WORKLOADS } from './network.js'
import type { Workload } from './wirer.js'

const { api, web, billing } = WORKLOADS
/** Of the tenant of `billing`; `web` is the last owner's mate. */
const HEIR: Workload = { ...WORKLOADS.desk, address: api.address, tenant: billing.tenant, identity: 'globex/prod/heir' }
const ASKERS = ['web', 'billing', 'acct', 'mesh'] as const
const KINDS = ['tcp', 'udp'] as const

/** Sends what is for an address to the node, instead of asking for it on the own link. */
const viaGateway = (name: Name, address: string): string => `ip -n ${name} route replace ${address} via ${GATEWAY}`

interface Asked {
  /** By who asked: what was answered, and by whom. */
  readonly answers: Readonly<Record<string, string>>
  /** Who was heard by each of those that may have the address. */
  readonly heard: Readonly<Partial<Record<Name, string[]>>>
}

/** Everybody asks for the address, on the own link and by the node. */
async function ask(network: Network, owners: readonly Name[], wait: number): Promise<Asked> {
  const answers: Record<string, string> = {}
  const heard: Partial<Record<Name, string[]>> = {}
  for (const owner of owners) await network.at(owner).heard()
  for (const way of [(name: Name) => `ip -n ${name} route del ${api.address} 2>/dev/null || :`, viaGateway]) {
    await network.run(['web', 'billing', 'acct'].map((name) => way(name as Name, api.address)).join('\n'))
    await Promise.all(
      ASKERS.map(async (asker) => {
        const probes = KINDS.map((kind) => ({ kind, dst: api.address, port: portOf(asker), wait }))
        const said = (await network.at(asker).probe(probes)).filter((each) => each !== '' && !each.startsWith('!'))
        answers[asker] = [...new Set([answers[asker] ?? '', ...said])].filter((each) => each !== '').join()
      }),
    )
  }
  for (const owner of owners) {
    const ports = Object.keys(await network.at(owner).heard()).map((key) => Number(key.split(' ')[1]))
    heard[owner] = ASKERS.filter((asker) => ports.includes(portOf(asker)))
  }
  return { answers, heard }
}

test("the last owner's mates do not reach the next one, nor the next one's the last", {
  timeout: 900_000,
}, async () => {
  await using network = await Network.create(['acct', 'api', 'web', 'billing'])
  await network.run('sysctl -qw net.ipv4.conf.all.rp_filter=2')
  const first = await ask(network, ['api'], PATIENT / 10)
  expect(first.answers).toMatchObject({ web: `api hears ${web.address}`, billing: '', acct: '' })

  let kills = 0
  for (; await dies(network.node, HEIR, 'before', kills + 1); kills++) {
    const where = `before write ${kills + 1}`
    const hasEnd = (await network.node.tryRun('ip -n desk link show eth0')).status === 0
    if (hasEnd) {
      await network.enter('desk')
      await network.node.tryRun(viaGateway('desk', web.address))
    }
    const { answers, heard } = await ask(network, hasEnd ? ['api', 'desk'] : ['api'], BRIEF)
    expect(['', `api hears ${web.address}`], where).toContain(answers.web)
    expect(['', `desk hears ${billing.address}`], where).toContain(answers.billing)
    expect(answers.acct, where).toBe('')
    expect(heard.api, where).not.toEqual(expect.arrayContaining([expect.stringMatching(/billing|acct/)]))
    expect(heard.desk ?? [], where).not.toEqual(expect.arrayContaining([expect.stringMatching(/web|acct/)]))
    if (hasEnd) {
      await network.at('web').heard()
      await network
        .at('desk')
        .probe(KINDS.map((kind) => ({ kind, dst: web.address, port: portOf('desk'), wait: BRIEF })))
      expect(await network.at('web').heard(), where).toEqual({})
    }

    await network.stop('desk')
    await network.by.sweep()
    await network.leave('api')
    await network.by.deploy(api)
    await network.enter('api')
  }
  expect(kills).toBeGreaterThan(8)
  await network.enter('desk')
  const last = await ask(network, ['api', 'desk'], PATIENT / 10)
  expect(last.answers).toMatchObject({ web: '', billing: `desk hears ${billing.address}`, acct: '' })
})
