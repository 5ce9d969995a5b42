/** Reading iptables: which back ends hold tables, and what is in them. */
import type { CallOptions, ToolHost } from '../host.js'
import { type Backend, type BackendChoice, runTool } from './backend.js'
import { describeRun, failureCode, IptablesError } from './errors.js'
import { MalformedSave, type Save, SaveReader, type Table } from './save.js'

export { type ApplyOptions, type ApplyResult, applyBatch, type FailureKind } from './apply.js'
export { type Backend, type BackendChoice, isBackendChoice } from './backend.js'
export { IptablesError, type IptablesErrorCode } from './errors.js'
export { assertExact } from './exact.js'

/** The tables that are read. Whatever goes on in security is of no concern here. */
const READ_TABLES: readonly string[] = ['raw', 'mangle', 'filter']
/** Taken along where it came with the others, to save whoever asserts a rule in it a run: that it is missing says nothing. */
const BESIDES = 'nat'

/** A back end that is to be read. */
export interface BackendTables {
  readonly backend: Backend
  /** Those of READ_TABLES that may be asked for: asking legacy for a table makes that table. */
  readonly tables: readonly string[]
}

/**
 * Which back ends are to be looked at. Nft always is, unless legacy alone was chosen; legacy only where the kernel lists
 * tables of it, and then only these. Rejects with IptablesError when that cannot be told.
 */
export async function findBackends(
  host: ToolHost,
  choice: BackendChoice,
  options: CallOptions = {},
): Promise<readonly BackendTables[]> {
  const nft: BackendTables = { backend: 'nft', tables: READ_TABLES }
  if (choice === 'nft') return [nft]
  const listed = await listedTables(host, options)
  const legacy: BackendTables = { backend: 'legacy', tables: READ_TABLES.filter((table) => listed.has(table)) }
  if (choice === 'legacy') return [legacy]
  return legacy.tables.length === 0 ? [nft] : [nft, legacy]
}

/**
 * The tables raw, mangle and filter of each back end that is looked at; a table that does not exist is left out. Rejects
 * with IptablesError when anything of it cannot be read with certainty. Of nat there is what came along.
 */
export async function readIptables(
  host: ToolHost,
  choice: BackendChoice,
  options: CallOptions = {},
): Promise<Map<Backend, Save>> {
  const saves = new Map<Backend, Save>()
  for (const found of await findBackends(host, choice, options))
    saves.set(found.backend, await readBackend(host, found, options))
  return saves
}

const LISTED_TABLES = '/proc/thread-self/net/ip_tables_names'
/** There in every network namespace. */
const ALWAYS_THERE = '/proc/thread-self/net/dev'

async function listedTables(host: ToolHost, options: CallOptions): Promise<ReadonlySet<string>> {
  const fail = (code: 'ABORTED' | 'DENIED' | 'FAILED', reason: string, hint?: string, cause?: unknown): never => {
    throw new IptablesError({ code, backend: 'legacy', tool: LISTED_TABLES, reason, hint, cause })
  }
  if (options.signal?.aborted) fail('ABORTED', 'was given up')
  try {
    return new Set((await host.readFile(LISTED_TABLES)).split('\n').filter((line) => line !== ''))
  } catch (error) {
    const code = errorCode(error)
    // Without the module there is no such file; without /proc there is none either, and that says nothing.
    if (code === 'ENOENT' && (await isThere(host, ALWAYS_THERE))) return new Set()
    const hint = 'where nothing uses legacy iptables, pass `--iptables nft`'
    if (code === 'EACCES' || code === 'EPERM')
      return fail('DENIED', `${code}: whether legacy iptables holds tables cannot be told`, hint, error)
    return fail(
      'FAILED',
      `${code}: whether legacy iptables holds tables cannot be told (is /proc mounted?)`,
      hint,
      error,
    )
  }
}

async function isThere(host: ToolHost, path: string): Promise<boolean> {
  return host.readFile(path).then(
    () => true,
    () => false,
  )
}

function errorCode(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

async function readBackend(host: ToolHost, { backend, tables }: BackendTables, options: CallOptions): Promise<Save> {
  if (tables.length === 0) return { tables: new Map(), incompatible: [] }
  const save = await saveAll(host, backend, tables, options)
  const incompatible = save.incompatible.find((table) => tables.includes(table))
  if (incompatible !== undefined) {
    throw new IptablesError({
      code: 'INCOMPATIBLE',
      backend,
      tool: saveCommand(backend),
      table: incompatible,
      reason: `table ${incompatible} is incompatible: native nft rules are in it that iptables cannot print`,
      hint: `move them to a table of their own (\`nft list table ip ${incompatible}\`)`,
    })
  }
  const wanted = new Map<string, Table>()
  for (const name of tables) {
    const table = save.tables.get(name)
    if (table !== undefined) wanted.set(name, table)
    else if (backend === 'legacy')
      throw malformed(backend, undefined, `did not print table ${name}, which the kernel lists`)
  }
  const besides = save.incompatible.includes(BESIDES) ? undefined : save.tables.get(BESIDES)
  if (besides !== undefined) wanted.set(BESIDES, besides)
  return { tables: wanted, incompatible: [] }
}

/** Everything in one call where that works; table by table where one that is not needed (nat, security) stands in the way. */
async function saveAll(
  host: ToolHost,
  backend: Backend,
  tables: readonly string[],
  options: CallOptions,
): Promise<Save> {
  try {
    return await save(host, backend, undefined, options)
  } catch (error) {
    if (!(error instanceof IptablesError) || !['FAILED', 'KILLED', 'MALFORMED'].includes(error.code)) throw error
  }
  const saves: Save[] = []
  for (const table of tables) saves.push(await save(host, backend, table, options))
  return {
    tables: new Map(saves.flatMap((each) => [...each.tables])),
    incompatible: saves.flatMap((each) => each.incompatible),
  }
}

async function save(host: ToolHost, backend: Backend, table: string | undefined, options: CallOptions): Promise<Save> {
  const reader = new SaveReader()
  const args = table === undefined ? [] : ['-t', table]
  const { tool, ran } = await runTool(host, backend, 'save', args, { ...options, take: (part) => reader.take(part) })
  const code = failureCode(ran)
  if (code !== null) {
    throw new IptablesError({
      code,
      backend,
      tool: saveCommand(backend, table, tool),
      table,
      reason: describeRun(ran),
      stderr: ran.stderr.slice(-2000),
      hint: hintFor(code, backend),
    })
  }
  try {
    reader.take(ran.stdout)
    return reader.end()
  } catch (error) {
    if (!(error instanceof MalformedSave)) throw error
    throw malformed(backend, table, `printed what is not understood: ${error.message}`, tool, error)
  }
}

function malformed(
  backend: Backend,
  table: string | undefined,
  reason: string,
  tool?: string,
  cause?: unknown,
): IptablesError {
  return new IptablesError({
    code: 'MALFORMED',
    backend,
    tool: saveCommand(backend, table, tool),
    table,
    reason,
    cause,
  })
}

function saveCommand(backend: Backend, table?: string, tool = `iptables-${backend}-save`): string {
  return table === undefined ? tool : `${tool} -t ${table}`
}

function hintFor(code: IptablesError['code'], backend: Backend): string | undefined {
  switch (code) {
    case 'MISSING':
      return backend === 'legacy'
        ? 'the kernel holds legacy tables: install the package `iptables`, or leave them out with `--iptables nft`'
        : 'install the package `iptables` (1.8 or newer, but not the upstream’s 1.8.11) and have /usr/sbin in PATH, or pass `--iptables legacy` where nothing uses nft'
    case 'DENIED':
      return 'run it as root, or with CAP_NET_ADMIN and CAP_NET_RAW over the network namespace'
    case 'FAILED':
    case 'KILLED':
      return backend === 'nft'
        ? 'native nft rules in a table of iptables (`nft list ruleset`) or an older iptables may be the reason'
        : 'where nothing uses legacy iptables, pass `--iptables nft`'
    default:
      return undefined
  }
}
