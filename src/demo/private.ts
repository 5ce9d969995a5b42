/**
 * Runs this program again on a node of its own: network, mount and process namespaces that end with it. Without
 * privileges, as the root of a user namespace.
 */
import { spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { constants, networkInterfaces } from 'node:os'
import { type Io, withSignals } from '../commands/io.js'
import { packageFile } from '../kernel/package.js'
import { findTool, runTool } from '../kernel/tool.js'
import { ReadError } from '../node/errors.js'
import { CAP_NET_ADMIN, CAP_SYS_ADMIN, hasCapability } from '../node/privilege.js'

/** What the demo runs, and the Debian packages that have it. */
const TOOLS = ['unshare', 'setpriv', 'mount', 'ip', 'tc', 'iptables-nft']
const PACKAGES = 'apt-get install util-linux mount iproute2 iptables'

/** /proc of the new process namespace; an empty /run, where named namespaces and the node-state lock are. */
const PREPARE =
  'mount -t proc proc /proc && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 125; exec "$@"'

/** The demo's own call of itself says which network namespace it came from, and so must not wire anything in. */
export const INSIDE = 'inside'

const PROBE_MS = 10_000
const SIGNALLED = 128

/** Resolves to the exit status of the command that was run in there. @throws ReadError when there can be no such node. */
export async function runOnPrivateNode(io: Io, args: readonly string[]): Promise<number> {
  const missing = TOOLS.filter((tool) => findTool(tool) === undefined)
  if (missing.length > 0) throw unable(`${missing.join(', ')} not found`, PACKAGES)
  const prefix = await enter()
  const probe = await run([...prefix, 'true'])
  if (probe.status !== 0) {
    const hint = prefix.includes('--user')
      ? 'run it as root, or allow user namespaces: sysctl -w user.max_user_namespaces=15000'
      : 'inside a container, start that one with --privileged'
    throw unable(probe.stderr.trim() || `unshare ended with status ${probe.status}`, hint)
  }
  return attend(io, [
    ...prefix,
    process.execPath,
    packageFile('dist/cli.js'),
    ...args,
    `--${INSIDE}`,
    networkNamespace(),
  ])
}

/**
 * Whether this is the node that `runOnPrivateNode` made: the first process of its namespace, in another network namespace
 * than the one it was called from, where no link but lo has an address yet. Only there may the demo wire anything.
 */
export function isPrivateNode(calledFrom: string): boolean {
  const isEmpty = Object.keys(networkInterfaces()).every((name) => name === 'lo')
  return process.pid === 1 && networkNamespace() !== calledFrom && isEmpty
}

function networkNamespace(): string {
  const { dev, ino } = statSync('/proc/self/ns/net')
  return `${dev}-${ino}`
}

async function enter(): Promise<string[]> {
  const isCapable = (await hasCapability(CAP_NET_ADMIN)) && (await hasCapability(CAP_SYS_ADMIN))
  // The user namespace comes first, by itself: the network namespace is then its root's, /proc/net files included.
  const user = isCapable ? [] : ['unshare', '--user', '--map-root-user', '--']
  const dieWithUs = ['setpriv', '--pdeathsig', 'KILL', '--']
  const namespaces = ['unshare', '--mount', '--net', '--pid', '--fork', '--kill-child', '--']
  return [...user, ...dieWithUs, ...namespaces, 'sh', '-c', PREPARE, 'sh']
}

const environment = (env: Io['env']): Io['env'] => ({ ...env, PATH: `${env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin` })

async function run([command = '', ...args]: readonly string[]): ReturnType<typeof runTool> {
  return runTool(findTool(command) ?? command, args, { timeoutMs: PROBE_MS })
}

async function attend(io: Io, [command = '', ...args]: readonly string[]): Promise<number> {
  const child = spawn(findTool(command) ?? command, args, { stdio: 'inherit', env: environment(io.env) })
  let interrupted: NodeJS.Signals | null = null
  const ended = new Promise<number>((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (status, signal) => {
      const by = interrupted ?? signal
      resolve(by === null ? (status ?? 0) : SIGNALLED + constants.signals[by])
    })
  })
  return withSignals(
    io,
    ['SIGINT', 'SIGTERM', 'SIGHUP'],
    (name) => {
      interrupted = name
      // All that is in there ends with it: the kernel kills a process namespace whose first process is gone.
      child.kill('SIGKILL')
    },
    () => ended,
  )
}

function unable(reason: string, hint: string): ReadError {
  return new ReadError({ read: 'a node for the demo', code: 'FAILED', reason, hint })
}
