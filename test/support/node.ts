/**
 * A node for one test: network, mount and process namespaces of its own, with an empty /run, so that workloads of
 * the same name can stand on many nodes at once. All of it is gone when it is disposed, or when the test process dies.
 */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { type Ended, type Environment, type Process, type RunOptions, runProcess, start } from './process.js'
import { parseSnapshot, type Snapshot } from './snapshot.js'

export type Backend = 'nft' | 'legacy'

export interface Swept extends Ended {
  /** What it printed to stdout, read as JSON; undefined without `--json`, or when it printed nothing. */
  readonly json: unknown
}

const PROJECT = fileURLToPath(new URL('../..', import.meta.url))
const ORACLE = fileURLToPath(new URL('../oracle/node.sh', import.meta.url))
const SNAPSHOT = fileURLToPath(new URL('./snapshot.sh', import.meta.url))
const PATH = `${process.env.PATH ?? '/usr/bin:/bin'}:/usr/sbin:/sbin`

/**
 * PID 1 of the node: what is started in there looks up namespaces in PID 1's mount namespace. It says which process
 * it is to us, through the /proc that it is about to replace, and then holds the node until its stdin ends.
 */
const HOLD = `
read -r pid _ </proc/self/stat &&
mount --no-mtab -t proc proc /proc && mount --no-mtab -t tmpfs -o mode=755 tmpfs /run && ip link set lo up && echo "$pid" && read -r _`

/** A shell that stops at the first failure, in a pipe too. */
const STRICT = ['-eu', '-o', 'pipefail', '-c']

export class TestNode implements AsyncDisposable {
  readonly #holder: Process

  private constructor(
    holder: Process,
    readonly backend: Backend,
    /** The node's PID 1, as the test process sees it. */
    readonly pid: number,
  ) {
    this.#holder = holder
  }

  static async create(options: { readonly backend?: Backend } = {}): Promise<TestNode> {
    const unshare = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--', 'bash', '-c', HOLD]
    const holder = await start('unshare', unshare, { env: { PATH } })
    const said = await firstLine(holder)
    if (/^\d+$/.test(said)) return new TestNode(holder, options.backend ?? 'nft', Number(said))
    const why = (await text(holder.stderr)).trim()
    throw new Error(`no namespaces for a test (run it through npm test, or as root): ${why}`)
  }

  /** The network namespace as a path that the test process can open. */
  get netnsPath(): string {
    return `/proc/${this.pid}/ns/net`
  }

  /** Everything in there is killed; resolves when it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#holder.exitCode !== null || this.#holder.signalCode !== null) return
    const exit = once(this.#holder, 'exit')
    this.#holder.stdin.end()
    await exit
  }

  /** Starts a process in there. Killing it, or disposing the node, kills what it became. */
  start(command: string, args: readonly string[], options: RunOptions = {}): Promise<Process> {
    return start('nsenter', this.#enter(command, args), { ...options, env: this.#environment(options.env) })
  }

  exec(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
    return runProcess('nsenter', this.#enter(command, args), { ...options, env: this.#environment(options.env) })
  }

  /** Runs a shell script in there and returns its stdout. Rejects when any command of it fails, with what it said. */
  async run(script: string, options: RunOptions = {}): Promise<string> {
    return succeeded(script, await this.exec('bash', [...STRICT, script], options))
  }

  tryRun(script: string, options: RunOptions = {}): Promise<Ended> {
    return this.exec('bash', ['-c', script], options)
  }

  /** Runs the oracle: `oracle('stop', 'api')`, and with an environment `oracle('dump', { ARP_PATH: '1' })`. */
  async oracle(...call: (string | Environment)[]): Promise<string> {
    const args = call.filter((item) => typeof item === 'string')
    const env = call.find((item) => typeof item !== 'string')
    return succeeded(`oracle ${args.join(' ')}`, await this.exec('bash', [ORACLE, ...args], env ? { env } : {}))
  }

  /**
   * The oracle's dump, sorted. With `both`, the rules of the other back end too: those of legacy are then marked
   * `legacy`, and are there only when the namespace has legacy tables, which asking for them would make.
   */
  async dump(options: { readonly both?: boolean; readonly env?: Environment } = {}): Promise<string[]> {
    const of = async (backend: Backend) => lines(await this.oracle('dump', { ...options.env, ...iptables(backend) }))
    if (options.both !== true) return (await of(this.backend)).sort()
    const nft = await of('nft')
    const hasLegacy = (await this.run('cat /proc/net/ip_tables_names 2>/dev/null || :')).trim() !== ''
    const legacy = hasLegacy ? (await of('legacy')).filter((line) => /^(raw|mangle|nat|filter) /.test(line)) : []
    return [...nft, ...legacy.map((line) => `legacy ${line}`)].sort()
  }

  /** What every plain tool says; see `difference`. */
  async snapshot(): Promise<Snapshot> {
    return parseSnapshot(succeeded('snapshot', await this.exec('bash', [SNAPSHOT])))
  }

  /** Runs the command as it was built. Every exit status is an answer. */
  async netsweep(args: readonly string[], options: RunOptions = {}): Promise<Swept> {
    const answer = await this.exec(process.execPath, [`${PROJECT}dist/cli.js`, ...args], options)
    const printed = args.includes('--json') && answer.stdout.trim() !== ''
    return { ...answer, json: printed ? JSON.parse(answer.stdout) : undefined }
  }

  #enter(command: string, args: readonly string[]): string[] {
    const into = ['--target', String(this.pid), '--mount', '--net', '--pid', `--wdns=${PROJECT}`, '--']
    return [...into, 'setpriv', '--pdeathsig', 'KILL', '--', command, ...args]
  }

  #environment(more: Environment = {}): Environment {
    const options = Object.keys(process.env).filter((name) => name.startsWith('NETSWEEP_'))
    const none = Object.fromEntries(options.map((name) => [name, undefined]))
    // Without tc: the oracle's own switch for kernels that lack cls_flower.
    return { ...none, PATH, LC_ALL: 'C', ARP_PATH: '0', ...iptables(this.backend), ...more }
  }
}

function iptables(backend: Backend): { IPTABLES: string } {
  return { IPTABLES: `iptables-${backend}` }
}

export function lines(text: string): string[] {
  return text.split('\n').filter((line) => line !== '')
}

function succeeded(what: string, { status, stdout, stderr }: Ended): string {
  if (status === 0) return stdout
  throw new Error(`${what}\nended with status ${status}\n${stderr}${stdout}`.trimEnd())
}

/** The first line that a process prints; '' when it ends before. */
export async function firstLine(child: Process): Promise<string> {
  const reader = createInterface(child.stdout)
  const [line = ''] = (await Promise.race([once(reader, 'line'), once(reader, 'close')])) as string[]
  reader.close()
  return line
}
