import { describe, expect, test } from 'vitest'
import type { Ran } from '../../src/kernel/host.js'
import {
  applyBatch,
  findBackends,
  IptablesError,
  isBackendChoice,
  readIptables,
} from '../../src/kernel/iptables/tools.js'
import { failure, ScriptedHost } from './namespace.js'

const NAMES = '/proc/thread-self/net/ip_tables_names'
const table = (name: string, ...rules: string[]) =>
  [`*${name}`, ':PREROUTING ACCEPT [0:0]', ...rules.map((rule) => `-A PREROUTING ${rule}`), 'COMMIT', ''].join('\n')

async function rejection(promise: Promise<unknown>): Promise<IptablesError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof IptablesError)) throw new Error(`no IptablesError: ${error}`)
  expect(error.message).not.toContain('\n')
  return error
}

test('the choices', () => {
  expect(['auto', 'nft', 'legacy', 'ipset', ''].map(isBackendChoice)).toEqual([true, true, true, false, false])
})

describe('which back ends are looked at', () => {
  test('legacy only where the kernel lists one of the three tables', async () => {
    const find = async (names: string) => await findBackends(new ScriptedHost({}, { [NAMES]: names }), 'auto')
    expect(await find('')).toEqual([{ backend: 'nft', tables: ['raw', 'mangle', 'filter'] }])
    expect(await find('nat\nsecurity\n')).toEqual([{ backend: 'nft', tables: ['raw', 'mangle', 'filter'] }])
    expect(await find('filter\nnat\nraw\n')).toEqual([
      { backend: 'nft', tables: ['raw', 'mangle', 'filter'] },
      { backend: 'legacy', tables: ['raw', 'filter'] },
    ])
  })

  test('no such file is no legacy, but not when /proc itself is not there', async () => {
    expect(await findBackends(new ScriptedHost({}), 'auto')).toHaveLength(1)
    const error = await rejection(
      findBackends(new ScriptedHost({}, { '/proc/thread-self/net/dev': failure('ENOENT') }), 'auto'),
    )
    expect(error).toMatchObject({ code: 'FAILED', backend: 'legacy', tool: NAMES })
  })

  test('a file that may not be read leaves it open', async () => {
    const host = new ScriptedHost({ 'iptables-nft-save': {} }, { [NAMES]: failure('EACCES') })
    for (const choice of ['auto', 'legacy'] as const) {
      const error = await rejection(findBackends(host, choice))
      expect(error).toMatchObject({ code: 'DENIED', backend: 'legacy', tool: NAMES })
      expect(error.hint).toContain('--iptables nft')
    }
    expect(await findBackends(host, 'nft')).toHaveLength(1)
  })

  test('legacy alone, with nothing listed, is empty, and its tool is not run: it would make the tables', async () => {
    const host = new ScriptedHost({}, { [NAMES]: 'nat\n' })
    expect(await readIptables(host, 'legacy')).toEqual(new Map([['legacy', { tables: new Map(), incompatible: [] }]]))
    expect(host.commands).toEqual([])
  })
})

describe('reading', () => {
  test('one call, and only the tables that matter', async () => {
    const host = new ScriptedHost({ 'iptables-nft-save': { stdout: table('security') + table('nat') + table('raw') } })
    const saves = await readIptables(host, 'nft')
    expect([...(saves.get('nft')?.tables.keys() ?? [])]).toEqual(['raw', 'nat'])
    expect(host.commands).toEqual(['iptables-nft-save'])
  })

  test('when saving everything fails, each table is saved alone', async () => {
    const host = new ScriptedHost({
      'iptables-nft-save': { status: 3, stdout: table('raw'), stderr: 'Parsing nftables rule failed\n' },
      'iptables-nft-save -t raw': { stdout: table('raw', '-j ACCEPT') },
      'iptables-nft-save -t mangle': { stdout: table('mangle') },
      'iptables-nft-save -t filter': {},
    })
    const tables = (await readIptables(host, 'auto')).get('nft')?.tables
    expect([...(tables?.keys() ?? [])]).toEqual(['raw', 'mangle'])
    expect(tables?.get('raw')?.chains.get('PREROUTING')?.rules).toHaveLength(1)
  })

  test('what stands in the way in nat alone does not matter, however it looks', async () => {
    for (const nat of ['*nat\nrubbish\nCOMMIT\n', '*nat\n', "# Table `nat' is incompatible, use 'nft' tool.\n"]) {
      const host = new ScriptedHost({
        'iptables-nft-save': { stdout: nat },
        'iptables-nft-save -t raw': {},
        'iptables-nft-save -t mangle': {},
        'iptables-nft-save -t filter': {},
      })
      expect(await readIptables(host, 'nft')).toEqual(new Map([['nft', { tables: new Map(), incompatible: [] }]]))
    }
  })

  test('both back ends where both hold tables', async () => {
    const host = new ScriptedHost(
      {
        'iptables-nft-save': { stdout: table('raw') },
        'iptables-legacy-save': { stdout: table('nat') + table('mangle') },
      },
      { [NAMES]: 'mangle\nnat\n' },
    )
    const saves = await readIptables(host, 'auto')
    expect([...saves].map(([backend, { tables }]) => [backend, ...tables.keys()])).toEqual([
      ['nft', 'raw'],
      ['legacy', 'mangle', 'nat'],
    ])
  })

  test('legacy must print every table that the kernel lists', async () => {
    const host = new ScriptedHost({ 'iptables-legacy-save': { stdout: table('raw') } }, { [NAMES]: 'raw\nmangle\n' })
    expect(await rejection(readIptables(host, 'legacy'))).toMatchObject({
      code: 'MALFORMED',
      backend: 'legacy',
      tool: 'iptables-legacy-save',
    })
  })

  test('a plain iptables-save stands in when it is of that back end', async () => {
    const host = (version: string) =>
      new ScriptedHost(
        { 'iptables-save --version': { stdout: version }, 'iptables-save': { stdout: table('raw') } },
        { [NAMES]: 'raw\n' },
      )
    const nft = host('iptables-save v1.8.9 (nf_tables)\n')
    expect((await readIptables(nft, 'nft')).get('nft')?.tables.size).toBe(1)
    expect(await rejection(readIptables(nft, 'legacy'))).toMatchObject({
      code: 'MISSING',
      tool: 'iptables-legacy-save',
    })
    for (const version of ['iptables-save v1.8.9 (legacy)\n', 'iptables-save v1.6.2\n']) {
      const legacy = host(version)
      expect((await readIptables(legacy, 'legacy')).get('legacy')?.tables.size).toBe(1)
      expect(await rejection(readIptables(legacy, 'nft'))).toMatchObject({ code: 'MISSING', tool: 'iptables-nft-save' })
    }
  })

  test('a version that is not told in time is not a tool that is missing', async () => {
    for (const [signal, code] of [
      ['timeout', 'TIMEOUT'],
      ['aborted', 'ABORTED'],
    ] as const) {
      const host = new ScriptedHost({ 'iptables-save --version': { status: null, signal } })
      expect(await rejection(readIptables(host, 'nft'))).toMatchObject({ code })
    }
  })

  test.each<[string, Partial<Ran>, Partial<IptablesError>]>([
    ['killed', { status: null, signal: 'SIGSEGV' }, { code: 'KILLED', tool: 'iptables-nft-save -t raw', table: 'raw' }],
    ['too slow', { status: null, signal: 'timeout' }, { code: 'TIMEOUT', tool: 'iptables-nft-save' }],
    ['given up', { status: null, signal: 'aborted' }, { code: 'ABORTED', tool: 'iptables-nft-save' }],
    ['not to be run', { status: null, code: 'EACCES' }, { code: 'DENIED' }],
    ['not to be started', { status: null, code: 'EMFILE' }, { code: 'FAILED' }],
    ['cut short', { stdout: '*raw\n:PREROUTING ACCEPT [0:0]\n' }, { code: 'MALFORMED', table: 'raw' }],
    ['rubbish', { stdout: 'hello\n' }, { code: 'MALFORMED', table: 'raw' }],
    [
      'incompatible',
      { stdout: "# Table `filter' is incompatible, use 'nft' tool.\n" },
      { code: 'INCOMPATIBLE', table: 'filter' },
    ],
    [
      'without privileges',
      {
        status: 4,
        stderr:
          'iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
      },
      { code: 'DENIED' },
    ],
    [
      'locked',
      {
        status: 4,
        stderr: 'Another app is currently holding the xtables lock. Perhaps you want to use the -w option?\n',
      },
      { code: 'LOCKED' },
    ],
  ])('%s', async (_, ran, wanted) => {
    expect(await rejection(readIptables(new ScriptedHost({ 'iptables-nft-save': ran }), 'nft'))).toMatchObject(wanted)
  })

  test('an error names the command, what it said, and the mend', async () => {
    const stderr =
      'Error: meta sreg key not supported\niptables-nft-save v1.8.9 (nf_tables): Parsing nftables rule failed\nPerhaps iptables-nft-save or your kernel needs to be upgraded.\n'
    const failed = await rejection(
      readIptables(new ScriptedHost({ 'iptables-nft-save': { status: 3, stderr } }), 'nft'),
    )
    expect(failed.message).toMatch(
      /^iptables-nft-save -t raw: ended with status 3: Error: meta sreg key not supported; .*Parsing nftables rule failed/,
    )
    expect(failed.stderr).toBe(stderr)
    const missing = await rejection(
      readIptables(new ScriptedHost({ 'iptables-nft-save': {} }, { [NAMES]: 'raw\n' }), 'auto'),
    )
    expect(missing).toMatchObject({ code: 'MISSING', backend: 'legacy' })
    expect(missing.message).toMatch(/^iptables-legacy-save: not installed; .*package `iptables`.*`--iptables nft`/)
  })
})

describe('how a batch ended', () => {
  const BATCH = '*mangle\n-D PREROUTING -j c1\n-F c1\n-X c1\nCOMMIT\n'

  test('the batch goes to the tool as it is, with what is not named left in place', async () => {
    const host = new ScriptedHost({ 'iptables-legacy-restore': {} })
    expect(await applyBatch(host, 'legacy', BATCH, { waitSeconds: 7 })).toEqual({ ok: true })
    expect(host.commands).toEqual(['iptables-legacy-restore --noflush -w 7'])
    expect(host.inputs).toEqual([BATCH])
  })

  // What 1.8.9 said on 6.18 is tried on the kernel itself in kernel.test.ts; here is what cannot be brought about there.
  test.each<[string, Partial<Ran>, string, string]>([
    ['killed', { status: null, signal: 'SIGKILL' }, 'killed', 'iptables-nft-restore ended by SIGKILL'],
    ['too slow', { status: null, signal: 'timeout' }, 'timeout', 'iptables-nft-restore did not end in time'],
    ['given up', { status: null, signal: 'aborted' }, 'aborted', 'iptables-nft-restore was given up'],
    ['not startable', { status: null, code: 'EMFILE' }, 'other', 'iptables-nft-restore could not be started: EMFILE'],
    ['silent', { status: 1 }, 'other', 'iptables-nft-restore ended with status 1'],
    [
      'lost a race',
      { status: 4, stderr: '\nline 3: RULE_DEL failed (No such file or directory): rule in chain A\n' },
      'stale',
      'line 3: RULE_DEL failed (No such file or directory): rule in chain A',
    ],
    [
      'held and gone',
      {
        status: 4,
        stderr:
          'line 2: RULE_DEL failed (No such file or directory)\nline 4: CHAIN_DEL failed (Device or resource busy): chain c1\n',
      },
      'busy',
      'line 2: RULE_DEL failed (No such file or directory)',
    ],
  ])('%s', async (_, ran, kind, message) => {
    const result = await applyBatch(new ScriptedHost({ 'iptables-nft-restore': ran }), 'nft', BATCH)
    expect(result).toMatchObject({ ok: false, kind, message, status: ran.status ?? null })
  })

  test('not installed', async () => {
    expect(await applyBatch(new ScriptedHost({}), 'legacy', BATCH)).toEqual({
      ok: false,
      kind: 'missing',
      status: null,
      message: 'iptables-legacy-restore not installed',
      line: null,
    })
  })
})
