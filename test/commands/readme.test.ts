/** What the README promises. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { TestNode } from '../support/node.js'

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const README = readFileSync(`${PROJECT}README.md`, 'utf8')
const SETUP = readFileSync(`${PROJECT}scripts/setup.sh`, 'utf8')

const leftovers = async (): Promise<TestNode> => {
  const node = await TestNode.create()
  await node.oracle('deploy', '--workload', 'acct', '--addr', '10.128.3.2')
  await node.oracle(
    'deploy',
    '--workload',
    'api',
    '--addr',
    '10.128.3.7',
    '--tenant',
    'acme',
    '--identity',
    'acme/prod/api',
  )
  const billing = ['--workload', 'billing', '--addr', '10.128.3.9', '--tenant', 'globex']
  await node.oracle('deploy', ...billing, '--allow', 'acme/prod/api')
  await node.run('ip link delete veth9; ip netns delete billing')
  return node
}

test('it lists the Debian packages that the set-up installs', () => {
  const [, commands = ''] = /COMMANDS='([^']+)'/.exec(SETUP) ?? []
  const packages = new Set([...commands.matchAll(/\S+:(\S+)/g)].map(([, name]) => name))
  const line = README.split('\n').find((text) => text.startsWith('- Debian packages')) ?? ''
  expect(packages.size).toBeGreaterThan(5)
  expect(new Set([...line.matchAll(/`([^`]+)`/g)].map(([, name]) => name))).toEqual(packages)
})

test('its output is what the command prints', async () => {
  await using node = await leftovers()
  const [, printed = ''] = /# netsweep sweep --dry-run\n([\s\S]*?)```/.exec(README) ?? []
  expect((await node.netsweep(['sweep', '--dry-run'])).stdout).toBe(printed)
})

test('docs/ have its library example, and JSON that is JSON', () => {
  const docs = readdirSync(`${PROJECT}docs`).filter((name) => name.endsWith('.md'))
  const texts = docs.map((name) => readFileSync(`${PROJECT}docs/${name}`, 'utf8'))
  const blocks = (text: string, language: string) =>
    [...text.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, 'gm'))].map(([, code]) => code ?? '')
  expect(texts.flatMap((text) => blocks(text, 'ts'))).toEqual(blocks(README, 'ts'))
  const json = texts.flatMap((text) => blocks(text, 'json'))
  expect(json.length).toBeGreaterThan(0)
  for (const code of json) expect(JSON.parse(code)).toBeTypeOf('object')
})

test('its library example compiles as it stands, and sweeps', async () => {
  const [, example = ''] = /```ts\n([\s\S]*?)```/.exec(README) ?? []
  // Inside the project, where its own name leads to dist/.
  const folder = `${PROJECT}build/readme-${process.pid}`
  mkdirSync(folder)
  try {
    writeFileSync(`${folder}/example.mts`, example)
    const options = [
      '--module',
      'nodenext',
      '--target',
      'es2022',
      '--lib',
      'es2023,esnext.disposable',
      '--types',
      'node',
    ]
    const tsc = [
      `${PROJECT}node_modules/typescript/bin/tsc`,
      '--ignoreConfig',
      '--strict',
      '--skipLibCheck',
      ...options,
    ]
    execFileSync(process.execPath, [...tsc, `${folder}/example.mts`], { cwd: PROJECT, stdio: 'pipe' })
    await using node = await leftovers()
    const { status, stdout, stderr } = await node.exec(process.execPath, [`${folder}/example.mjs`])
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(JSON.parse(stdout)).toMatchObject({ msg: 'swept', bridges: ['yah0-91auqknbeu'], addresses: ['10.128.3.9'] })
    expect(await node.run('ip -br link show type bridge')).not.toContain('yah0-91auqknbeu')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('every exit status of the README is one of docs/interface.md, and the commands are those that there are', async () => {
  const interfacePage = readFileSync(`${PROJECT}docs/interface.md`, 'utf8')
  for (const page of [README, interfacePage]) {
    const statuses = [...page.matchAll(/^\| ([0-9]) \| /gm)].map(([, status]) => status)
    expect(statuses).toEqual(['0', '1', '2', '3', '4'])
  }
  await using node = await TestNode.create()
  const { stdout } = await node.netsweep(['--help'])
  const commands = [...stdout.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name)
  for (const command of commands) expect(README).toContain(`\n| \`netsweep ${command}`)
})
