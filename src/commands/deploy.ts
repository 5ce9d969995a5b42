/** `netsweep deploy`: wires one workload, or mends it. */
import { readFileSync } from 'node:fs'
import { UsageError } from '../node/errors.js'
import { lockNodeState } from '../node/guard.js'
import { DONE } from '../report/failure.js'
import { withProgress } from '../report/progress.js'
import { styleOf } from '../report/style.js'
import { deployText } from '../report/wiring.js'
import type { CommandDefinition, Context } from './command.js'
import { interruptibly } from './io.js'
import type { Settings } from './settings.js'

export const deploy: CommandDefinition = {
  name: 'deploy',
  summary: "wire a workload's network, or mend it",
  options: [
    { flags: '--workload <name>', description: 'its name; the network namespace is named after it' },
    { flags: '--address <address>', description: "its address in the node's /24, last octet 2 to 254" },
    { flags: '--tenant <id>', description: 'whose it is (the singleton tenant)' },
    { flags: '--identity <t/ns/name>', description: 'who it is (<tenant>/default/<workload>)' },
    {
      flags: '--allow <t/ns/name>',
      description: "a workload of another tenant's that may reach it; may be repeated",
      repeated: true,
    },
    { flags: '--mtu <bytes>', description: "of its link, for a mesh that needs a smaller one (the kernel's)" },
    { flags: '--file <workload.json>', description: 'all of these from a file (docs/workload.schema.json)' },
  ],
  run: runDeploy,
}

async function runDeploy({ io, settings, log, json, net, lockTimeoutMs: timeoutMs }: Context): Promise<number> {
  // Loaded by this command alone: a sweep starts sooner without it.
  const [{ deploy: deployWorkload }, { checkWorkload }] = await Promise.all([
    import('../node/deploy.js'),
    import('../node/workload.js'),
  ])
  const file = settings.text('file')
  const description = file === undefined ? fromOptions(settings) : fromFile(settings, file)
  const spelt = (field: string): string => (file === undefined ? settings.source(field) : `${file}: ${field}`)
  checkWorkload(net, description, spelt)
  try {
    const deployed = await interruptibly(io, async (signal) => {
      const host = await io.openNode(net)
      const take = (): ReturnType<typeof lockNodeState> => lockNodeState(net, { host, timeoutMs, signal })
      await using lock = await withProgress(io.stderr, 'waiting for the node-state lock', take)
      return await withProgress(io.stderr, 'wiring', () => deployWorkload(net, lock, description, { signal }))
    })
    log.info({ workload: deployed.workload, changes: deployed.changes.length }, 'deployed')
    io.stdout.write(json ? `${JSON.stringify(deployed, null, 2)}\n` : deployText(deployed, styleOf(io.stdout, io.env)))
    return DONE
  } catch (error) {
    // A refusal names the field of the description.
    if (error instanceof UsageError && /^[a-z]+$/.test(error.option))
      throw new UsageError(spelt(error.option), error.reason, error.hint)
    throw error
  }
}

const FIELDS = ['workload', 'address', 'tenant', 'identity'] as const

function fromOptions(settings: Settings): unknown {
  for (const field of ['workload', 'address'] as const) {
    if (settings.text(field) === undefined) throw new UsageError(`--${field}`, 'is missing', 'netsweep deploy --help')
  }
  const fields = FIELDS.flatMap((field) => {
    const value = settings.text(field)
    return value === undefined ? [] : [[field, value]]
  })
  const mtu = settings.count('mtu')
  return { ...Object.fromEntries(fields), allow: settings.list('allow'), ...(mtu === undefined ? {} : { mtu }) }
}

function fromFile(settings: Settings, file: string): unknown {
  // What comes from the environment too: left out in silence, a tenant's workload would be wired for another.
  const other = [...FIELDS, 'mtu', 'allow'].find((option) => settings.isSet(option))
  if (other !== undefined)
    throw new UsageError(
      settings.source(other),
      `does not go with ${settings.source('file')}`,
      settings.given.has(other) && settings.given.has('file')
        ? 'put it into the file'
        : 'put it into the file, or unset the variable',
    )
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    const reason =
      error instanceof SyntaxError ? `is no JSON: ${error.message}` : `cannot be read: ${(error as Error).message}`
    throw new UsageError(settings.source('file'), `${file} ${reason}`)
  }
}
