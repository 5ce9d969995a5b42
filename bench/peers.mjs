/** Whoever else lists links: how each is had, and how it is started. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { BENCH, BUILD } from './paths.mjs'
import { run } from './process.mjs'

/**
 * @typedef {object} Peer
 * @property {string} id
 * @property {() => Promise<void>} prepare fetches and builds it; rejects with the reason where it cannot be had
 * @property {readonly string[]} command
 * @property {boolean} [isTimed] a command that does not time itself
 */

const PYTHON = '/usr/bin/python3' // Debian's: the packages of Debian are for that one alone.
const GO_SOURCES = '/usr/share/gocode'
const CRATES = '/usr/share/cargo/registry'

/** @type {readonly Peer[]} */
const PEERS = [
  {
    id: 'Go vishvananda/netlink',
    command: [`${BUILD}go-links`],
    async prepare() {
      await debian(
        `${GO_SOURCES}/src/github.com/vishvananda/netlink`,
        'golang-go',
        'golang-github-vishvananda-netlink-dev',
      )
      const env = { ...process.env, GO111MODULE: 'off', GOPATH: GO_SOURCES, GOFLAGS: '' }
      await run({ command: 'go', args: ['build', '-o', `${BUILD}go-links`, '.'], cwd: `${BENCH}peers/go`, env })
    },
  },
  {
    id: 'Rust rtnetlink',
    command: [`${BUILD}rust/release/links`],
    async prepare() {
      await debian(`${CRATES}/rtnetlink-0.10.1`, 'librust-rtnetlink-dev', ...((await has('cargo')) ? [] : ['cargo']))
      const debians = ['source.crates-io.replace-with="debian"', `source.debian.directory="${CRATES}"`]
      const args = ['build', '--offline', '--release', '--target-dir', `${BUILD}rust`]
      const cwd = `${BENCH}peers/rust`
      await run({ command: 'cargo', args: [...args, ...debians.flatMap((line) => ['--config', line])], cwd })
    },
  },
  {
    id: 'Python pyroute2',
    command: [PYTHON, 'peers/pyroute2_links.py'],
    prepare: () => debian('/usr/lib/python3/dist-packages/pyroute2', 'python3-pyroute2'),
  },
  {
    id: 'Node.js netlink',
    command: [process.execPath, 'peers/netlink.mjs'],
    async prepare() {
      await npm()
      await run({ command: process.execPath, args: ['-e', 'import("netlink")'], cwd: BENCH })
    },
  },
  {
    id: 'Node.js node-netlink',
    command: [process.execPath, 'peers/node-netlink.mjs'],
    async prepare() {
      await npm()
      const packages = ['syscall-napi', 'buffer2address']
      if (!packages.every((name) => existsSync(`${BENCH}node_modules/${name}/build/Release`)))
        await run({ command: 'npm', args: ['rebuild', '--loglevel=error', ...packages], cwd: BENCH })
      await run({ command: process.execPath, args: ['-e', 'import("node-netlink")'], cwd: BENCH })
    },
  },
  { id: 'ip -o link', command: ['ip', '-o', 'link'], isTimed: true, prepare: async () => {} },
  { id: 'ip -o -d link, parsed', command: [process.execPath, 'peers/ip-text.mjs'], prepare: async () => {} },
  { id: 'ip -j link', command: ['ip', '-j', 'link'], isTimed: true, prepare: async () => {} },
  { id: 'ip -j -d link, parsed', command: [process.execPath, 'peers/ip-json.mjs'], prepare: async () => {} },
]

const PREPARED = `${BUILD}peers.json`

/**
 * Fetches and builds them. One that cannot be had is absent for that reason, which every report names.
 *
 * @param {(what: string) => void} say
 */
export async function preparePeers(say) {
  /** @type {Record<string, string>} */
  const absent = {}
  for (const { id, prepare } of PEERS) {
    say(`preparing ${id}`)
    await prepare().catch((error) => {
      absent[id] = String(error.message).trim()
      say(`  absent: ${absent[id]}`)
    })
  }
  mkdirSync(BUILD, { recursive: true })
  writeFileSync(PREPARED, JSON.stringify(absent))
}

/** Who cannot be had, and why. @returns {Record<string, string>} */
export const absentPeers = () => JSON.parse(readFileSync(PREPARED, 'utf8'))

/** @param {import('./node.mjs').Node} node */
export function startPeers(node) {
  const absent = absentPeers()
  return PEERS.filter(({ id }) => !(id in absent)).map(({ id, command, isTimed }) => {
    const [name = '', ...args] = command
    return { id, program: isTimed ? node.timed(name, args) : node.start(name, args) }
  })
}

/**
 * Debian's packages, unless that path is there.
 *
 * @param {string} path
 * @param {string[]} packages
 */
async function debian(path, ...packages) {
  if (existsSync(path)) return
  const wanted = `Debian's ${packages.join(' ')}`
  if (!(await has('apt-get'))) throw new Error(`it takes ${wanted}, and there is no apt-get`)
  if (process.getuid?.() !== 0) throw new Error(`it takes ${wanted}; as root: apt-get install ${packages.join(' ')}`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  await run({ command: 'apt-get', args: ['update', '--quiet', '--quiet'], env })
  await run({ command: 'apt-get', args: ['install', '--yes', '--no-install-recommends', ...packages], env })
}

/** The packages of package-lock.json, without their install scripts. */
async function npm() {
  if (existsSync(`${BENCH}node_modules/.package-lock.json`)) return
  await run({
    command: 'npm',
    args: ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'],
    cwd: BENCH,
  })
}

/** @param {string} command */
const has = (command) =>
  run({ command: 'sh', args: ['-c', `command -v ${command}`] }).then(
    () => true,
    () => false,
  )
