/** What a call is refused for, before anything is read. `call` fails with status 3 when the node is opened. */
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call } from './call.js'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'netsweep-call-'))
  writeFileSync(join(folder, 'there'), '')
  symlinkSync('nowhere', join(folder, 'dangling'))
})
afterAll(() => rmSync(folder, { recursive: true }))

/** By option: values that cannot be meant. */
const BAD: Readonly<Record<string, readonly string[]>> = {
  bridge: [
    '',
    'longer-than-15-ch',
    'a b',
    'yah/0',
    'a:b',
    '.',
    '..',
    '!yah0',
    '-yah0',
    'yah+',
    'yäh0',
    'yah0-6jgfqfdnu6',
  ],
  range: ['', '10.128.0.0', '10.128.0.1/9', '10.0.0.0/7', '10.128.3.0/25', '010.0.0.0/8', '10.128.0.0/09', 'fd00::/8'],
  subnet: ['', '10.128.3.0', '10.128.3.1/24', '10.128.2.0/23', '10.128.3.0/25', '10.127.3.0/24', '10.128.03.0/24'],
  'singleton-tenant': [''],
  netns: [''],
  iptables: ['', 'both', 'NFT', 'nft,legacy'],
  'lock-timeout': ['', 'x', '-1', '1e3', '0x10', ' 1', '1s', '.5', '1.', 'Infinity', 'NaN', '2147484'],
  timeout: ['', '0', '0.0', 'x', '-1', '1e3', '30s', '2147484'],
  'log-level': ['', 'verbose', 'WARN', '30'],
}
const BAD_FOR_SWEEP: Readonly<Record<string, readonly string[]>> = {
  settle: ['', 'x', '-2', '2,5', '1e1', '2147484'],
  'max-removals': ['', 'x', '-1', '1.5', '1e3', '0x10', '9007199254740993'],
}

const variable = (option: string): string => `NETSWEEP_${option.toUpperCase().replaceAll('-', '_')}`

describe.each(['sweep', 'show', 'demo'])('%s', (command) => {
  const options = Object.entries({ ...BAD, ...(command === 'sweep' ? BAD_FOR_SWEEP : {}) })
  test.each(options.flatMap(([option, values]) => values.map((value) => [option, value] as const)))(
    '--%s %j',
    async (option, value) => {
      const byOption = await call([command, `--${option}=${value}`])
      expect(byOption).toMatchObject({ status: 2, stdout: '' })
      expect(byOption.stderr).toMatch(new RegExp(`^netsweep: --${option}: [^\\n]+\\n$`))

      const byVariable = await call([command], { env: { [variable(option)]: value } })
      expect(byVariable).toMatchObject({ status: 2, stdout: '' })
      expect(byVariable.stderr).toMatch(new RegExp(`^netsweep: ${variable(option)}: [^\\n]+\\n$`))
    },
  )
})

test('lock, too, refuses bad values', async () => {
  for (const [option, values] of Object.entries(BAD))
    expect((await call(['lock', `--${option}=${values[0]}`, '--', 'true'])).status).toBe(2)
})

test('an option of the command line goes before its variable, which is then not looked at', async () => {
  const { status, stderr } = await call(['sweep', '--bridge', 'br+'], { env: { NETSWEEP_BRIDGE: '' } })
  expect(status).toBe(2)
  expect(stderr).toMatch(/^netsweep: --bridge: /)
})

test.each(['yes', '', 'TRUE', '2'])('a switch is set by 1 or true, and not by %j', async (value) => {
  const { status, stderr } = await call(['sweep'], { env: { NETSWEEP_DRY_RUN: value } })
  expect({ status, stderr: stderr.split('"')[0] }).toEqual({ status: 2, stderr: 'netsweep: NETSWEEP_DRY_RUN: ' })
})

test('a variable that is empty is a bad value, also of an option that may be repeated', async () => {
  const api = ['deploy', '--workload', 'api', '--address', '10.128.3.7']
  for (const value of ['', ' ']) {
    const { status, stderr } = await call(api, { env: { NETSWEEP_ALLOW: value } })
    expect({ status, stderr }).toEqual({ status: 2, stderr: 'netsweep: NETSWEEP_ALLOW: is empty; unset it\n' })
  }
  const variables = ['TENANT', 'IDENTITY', 'MTU', 'FILE', 'LOG_LEVEL', 'JSON'].map((name) => `NETSWEEP_${name}`)
  for (const name of variables) {
    const { status, stderr } = await call(api, { env: { [name]: '' } })
    expect({ status, object: stderr.split(': ')[1] }).toEqual({ status: 2, object: name })
  }
  expect((await call(api, { env: { NETSWEEP_ALLOW: ' a/b/c  d/e/f ' } })).stderr).toContain('the node was opened')
  expect((await call([...api, '--allow', 'a/b/c'], { env: { NETSWEEP_ALLOW: '' } })).status).toBe(3)
  expect((await call([...api, '--allow', ''])).status).toBe(2)
})

test.each([
  [['--file', 'w.json', '--mtu', '1400'], {}, '--mtu: does not go with --file; put it into the file'],
  [['--file', 'w.json'], { NETSWEEP_TENANT: 'acme' }, 'NETSWEEP_TENANT: does not go with --file; put it into'],
  [['--file', 'w.json'], { NETSWEEP_ALLOW: '' }, 'NETSWEEP_ALLOW: does not go with --file; put it into'],
  [['--workload', 'zz'], { NETSWEEP_FILE: 'w.json' }, '--workload: does not go with NETSWEEP_FILE; put it into'],
  [[], { NETSWEEP_FILE: 'w.json', NETSWEEP_MTU: '1400' }, 'NETSWEEP_MTU: does not go with NETSWEEP_FILE; put it'],
  [[], { NETSWEEP_FILE: 'no.json' }, 'NETSWEEP_FILE: no.json cannot be read: '],
])('a workload from options or from a file: deploy %j with %j', async (argv, env, line) => {
  const { status, stdout, stderr } = await call(['deploy', ...argv], { env })
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr.startsWith(`netsweep: ${line}`), stderr).toBe(true)
})

test('stop of a name says when the address that is in its way comes from a variable', async () => {
  const { status, stderr } = await call(['stop', 'api'], { env: { NETSWEEP_ADDRESS: '10.128.3.7' } })
  const line = 'netsweep: NETSWEEP_ADDRESS: does not go with a workload’s name; unset it\n'
  expect({ status, stderr }).toEqual({ status: 2, stderr: line })
})

test.each([
  ['there', 'is there already'],
  ['dangling', 'is there already'],
  ['no/such/folder', 'cannot be made'],
])('--record %s', async (name, reason) => {
  const { status, stderr } = await call(['sweep', '--record', join(folder, name)])
  expect(status).toBe(2)
  expect(stderr).toContain(`--record: ${join(folder, name)} ${reason}`)
})

test.each([
  [[], 'command: none was given; netsweep --help lists them'],
  [['swep'], 'swep: unknown command; did you mean sweep?'],
  [['deploy'], '--workload: is missing; netsweep deploy --help'],
  [['deploy', '--workload', 'api'], '--address: is missing; netsweep deploy --help'],
  [['stop'], 'stop: takes a workload’s name, or --address; netsweep stop --help'],
  [['start'], 'start: unknown command'],
  [['sweep', '--dryrun'], '--dryrun: unknown option; did you mean --dry-run?'],
  [['sweep', '--dry-run=1'], '--dry-run=1: unknown option'],
  [['sweep', '--settle'], '--settle: option argument missing'],
  [['sweep', 'now'], 'now: not expected here; netsweep sweep --help'],
  [['show', '--dry-run'], '--dry-run: unknown option'],
  [['show', '--format', 'svg'], '--format: "svg" is none of text, json'],
  [['show', '--format', 'xml'], '--format: "xml" is none of text, json'],
  [['lock'], 'lock: no command to run; write it as: netsweep lock -- COMMAND'],
  [['lock', '--'], 'lock: no command to run'],
  [['lock', 'ip', '-4', 'link'], 'lock: no -- before ip'],
  [['lock', 'ip', '-br', 'link'], '-br: unknown option'],
  [['lock', 'true'], 'lock: no -- before true'],
  [['lock', 'a', '--', 'b'], 'lock: no -- before a'],
  [['demo', '--netns', 'x'], '--netns: the demo makes a namespace of its own'],
])('%j', async (argv, line) => {
  const { status, stdout, stderr } = await call(argv)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr.split('\n')).toHaveLength(2)
  expect(stderr.startsWith(`netsweep: ${line}`), stderr).toBe(true)
})

test('with --json a bad call is an object as well, also one that could not be understood', async () => {
  for (const argv of [
    ['sweep', '--json', '--settle', 'x'],
    ['--json', 'swep'],
    ['show', '--format=json', '--range', 'x'],
  ]) {
    const called = await call(argv)
    expect(called.status).toBe(2)
    expect(called.json()).toEqual({
      error: { code: 'USAGE', message: expect.any(String), hint: expect.any(String) },
    })
    expect(called.stderr).toMatch(/^netsweep: [^\n]+\n$/)
  }
  const byVariable = await call(['sweep', '--timeout', '0'], { env: { NETSWEEP_JSON: '1' } })
  expect(byVariable.json()).toMatchObject({ error: { code: 'USAGE', message: '--timeout: 0 s is no time to wait' } })
})

test("what stands behind -- is the command's own", async () => {
  const { status, stdout } = await call(['lock', '--timeout', 'x', '--', 'true', '--json'])
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})

test('--help lists the commands that there are, and the options of every command', async () => {
  const help = await call(['--help'])
  expect(help).toMatchObject({ status: 0, stderr: '' })
  const commands = [...help.stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
  expect(commands).toEqual(['sweep', 'show', 'deploy', 'stop', 'lock', 'demo'])

  const sweep = await call(['sweep', '--help'])
  expect(sweep.status).toBe(0)
  for (const option of [...Object.keys(BAD), ...Object.keys(BAD_FOR_SWEEP), 'dry-run', 'record', 'json', 'version'])
    expect(sweep.stdout).toContain(`--${option} `)
  expect((await call(['demo', '--help'])).stdout).not.toContain('--inside')
})

test('--version', async () => {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  expect(await call(['--version'])).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' })
})
