/** A network namespace of its own with a small Host over it, and a Host that plays back answers. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CallOptions, Ran, ToolHost } from '../../src/kernel/host.js'

type RunOptions = CallOptions & { readonly input?: string }

export class Namespace implements ToolHost, AsyncDisposable {
  readonly namespace = { device: 0, inode: 0 }
  /** Every command that was run, as one line each. */
  readonly commands: string[] = []
  /** Legacy's lock: of this namespace alone. */
  readonly lockFile: string
  readonly #holder: ChildProcess
  readonly #folder: string

  private constructor(holder: ChildProcess) {
    this.#holder = holder
    this.#folder = mkdtempSync(join(tmpdir(), 'iptables-test-'))
    this.lockFile = join(this.#folder, 'xtables.lock')
  }

  static async create(): Promise<Namespace> {
    // `cat` ends with its standard input, so that the namespace does not outlive the test.
    const holder = spawn('unshare', ['--net', 'sh', '-c', 'echo there; exec cat'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    await once(holder.stdout, 'data')
    return new Namespace(holder)
  }

  async run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    this.commands.push([command, ...args].join(' '))
    if (!isInstalled(command)) return { status: null, signal: null, code: 'ENOENT', stdout: '', stderr: '' }
    const child = spawn(
      'nsenter',
      [`--net=/proc/${this.#holder.pid}/ns/net`, 'env', `XTABLES_LOCKFILE=${this.lockFile}`, command, ...args],
      { stdio: 'pipe' },
    )
    let ended: string | null = null
    const end = (why: string) => {
      ended = why
      child.kill('SIGKILL')
    }
    const timer = setTimeout(() => end('timeout'), options.timeoutMs ?? 10_000)
    options.signal?.addEventListener('abort', () => end('aborted'))
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    const chunks: Buffer[][] = [[], []]
    child.stdout.on('data', (chunk: Buffer) => chunks[0]?.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => chunks[1]?.push(chunk))
    const [status, signal] = (await once(child, 'close')) as [number | null, string | null]
    clearTimeout(timer)
    const [stdout = '', stderr = ''] = chunks.map((each) => Buffer.concat(each).toString())
    return { status, signal: ended ?? signal, code: null, stdout, stderr }
  }

  /** Runs a command that must succeed, and returns what it printed. */
  async must(command: string, args: readonly string[], input = ''): Promise<string> {
    const ran = await this.run(command, args, { input })
    if (ran.status !== 0) throw new Error(`${command} ${args.join(' ')}: status ${ran.status}: ${ran.stderr}`)
    return ran.stdout
  }

  async readFile(path: string): Promise<string> {
    const ran = await this.run('cat', [path])
    if (ran.status === 0) return ran.stdout
    throw Object.assign(new Error(ran.stderr), { code: ran.stderr.includes('No such file') ? 'ENOENT' : 'EACCES' })
  }

  exchange(): Promise<Buffer> {
    return Promise.reject(new Error('not asked here'))
  }

  namespaceNames(): Promise<ReadonlyMap<number, string>> {
    return Promise.reject(new Error('not asked here'))
  }

  close(): void {
    this.#holder.stdin?.end()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
    if (this.#holder.exitCode === null) await once(this.#holder, 'exit')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

function isInstalled(command: string): boolean {
  return [...(process.env.PATH ?? '').split(':'), '/usr/sbin', '/sbin'].some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

const ENDED_WELL: Ran = { status: 0, signal: null, code: null, stdout: '', stderr: '' }

/** Answers by command line and by path; a command that is not there is not installed, a file that is not there is ENOENT. */
export class ScriptedHost implements ToolHost {
  readonly namespace = { device: 0, inode: 0 }
  readonly commands: string[] = []
  /** Standard input of each command. */
  readonly inputs: string[] = []

  constructor(
    readonly answers: Readonly<Record<string, Partial<Ran>>>,
    readonly files: Readonly<Record<string, string | Error>> = {},
  ) {}

  async run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const line = [command, ...args].join(' ')
    this.commands.push(line)
    this.inputs.push(options.input ?? '')
    const answer = this.answers[line] ?? this.answers[command]
    return answer === undefined ? { ...ENDED_WELL, status: null, code: 'ENOENT' } : { ...ENDED_WELL, ...answer }
  }

  async readFile(path: string): Promise<string> {
    const content = { '/proc/thread-self/net/dev': '', ...this.files }[path] ?? failure('ENOENT')
    if (typeof content !== 'string') throw content
    return content
  }

  exchange(): Promise<Buffer> {
    return Promise.reject(new Error('not asked here'))
  }

  namespaceNames(): Promise<ReadonlyMap<number, string>> {
    return Promise.reject(new Error('not asked here'))
  }

  close(): void {}
}

export function failure(code: string): Error {
  return Object.assign(new Error(code), { code })
}
