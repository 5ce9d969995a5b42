/**
 * The node that is measured: network, mount and process namespaces of its own, with workloads, and others' links, routes
 * and iptables rules beside them.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { BENCH, BUILD, ORACLE } from './paths.mjs'
import { Program, run } from './process.mjs'
import { described, SEED } from './workloads.mjs'

/**
 * How large: others' links, routes and iptables rules, and the node's own live workloads, by turns of so many tenants.
 *
 * @typedef {{ links: number, routes: number, rules: number, workloads: number, tenants: number }} Size
 */

/** PID 1: it says which process it is to us, through the /proc that it is about to replace, and holds the node. */
const HOLD = `
read -r pid _ </proc/self/stat &&
mount --no-mtab -t proc proc /proc && mount --no-mtab -t tmpfs -o mode=755 tmpfs /run && ip link set lo up && echo "$pid" && read -r _`

export const ENVIRONMENT = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('NETSWEEP_'))),
  PATH: `${process.env.PATH}:/usr/sbin:/sbin`,
  LC_ALL: 'C',
  IPTABLES: 'iptables-nft',
  // No workload here has a grant, so neither side has use for tc.
  ARP_PATH: '0',
}

export class Node {
  #holder
  #pid
  /** @type {Size} */
  #size = { links: 0, routes: 0, rules: 0, workloads: 0, tenants: 0 }
  /** @type {Set<Program>} */
  #programs = new Set()

  /**
   * @param {import('node:child_process').ChildProcess} holder
   * @param {string} pid
   */
  constructor(holder, pid) {
    this.#holder = holder
    this.#pid = pid
  }

  static async create() {
    const args = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--', 'bash', '-c', HOLD]
    const holder = spawn('unshare', args, { env: ENVIRONMENT, stdio: ['pipe', 'pipe', 'inherit'] })
    const reader = createInterface(holder.stdout)
    const [pid] = await Promise.race([once(reader, 'line'), once(holder, 'exit').then(() => [''])])
    if (!/^\d+$/.test(pid)) throw new Error('no namespaces for a node: run this through `npm run bench`')
    return new Node(holder, pid)
  }

  /** @returns {Readonly<Size>} */
  get size() {
    return this.#size
  }

  /**
   * @param {string} command
   * @param {readonly string[]} args
   */
  #inside(command, args) {
    const into = ['--target', this.#pid, '--mount', '--net', '--pid', `--wdns=${BENCH}`, '--']
    return { command: 'nsenter', args: [...into, command, ...args], env: ENVIRONMENT }
  }

  /**
   * @param {string} command
   * @param {readonly string[]} [args]
   * @param {string} [input]
   */
  run(command, args = [], input = '') {
    return run(this.#inside(command, args), input)
  }

  /** @param {string[]} args */
  oracle(...args) {
    return this.run('bash', [ORACLE, ...args])
  }

  /** All that passes are about, as the kernel prints it. */
  dump() {
    return this.oracle('dump')
  }

  /**
   * Starts a program that is to be asked.
   *
   * @param {string} command
   * @param {readonly string[]} [args]
   */
  start(command, args = []) {
    const program = new Program([command, ...args].join(' '), this.#inside(command, args))
    this.#programs.add(program)
    return program
  }

  /** The project, as a process that goes on running. */
  subject() {
    return this.start(process.execPath, ['subject.mjs'])
  }

  /** The kernel's limit. */
  floor() {
    return this.start(`${BUILD}floor`)
  }

  /**
   * A command that is timed as a process, again each time it is asked.
   *
   * @param {string} command
   * @param {readonly string[]} [args]
   */
  timed(command, args = []) {
    return this.start(`${BUILD}stopwatch`, [command, ...args])
  }

  /** Ends the programs that were started. */
  async quiet() {
    for (const program of this.#programs) await program.end()
    this.#programs.clear()
  }

  /**
   * Adds what is missing for that size. Workloads come first: the oracle's way to wire them takes the longer, the more
   * links there are.
   *
   * @param {Size} size
   */
  async grow({ links, routes, rules, workloads, tenants }) {
    if (this.#size.workloads === 0 && workloads > 0) await this.#wire(workloads, tenants)
    if (workloads !== this.#size.workloads || tenants !== this.#size.tenants)
      throw new Error(`a node of ${this.#size.workloads} workloads does not become one of ${workloads}`)
    if (links > this.#size.links) await this.#crowd('links', links, this.#size.links)
    if (routes > this.#size.routes) await this.#crowd('routes', routes, this.#size.routes)
    if (rules > this.#size.rules) await this.#crowd('rules', rules, this.#size.rules)
    this.#size = { links, routes, rules, workloads, tenants }
  }

  /**
   * @param {'links' | 'routes' | 'rules'} what
   * @param {number} many
   * @param {number} have
   */
  async #crowd(what, many, have) {
    await this.run('bash', ['crowd.sh', what, String(many), String(have)])
  }

  /**
   * By the project's own deploy, which is the faster one; see `wiredByOracle` for what it must come to.
   *
   * @param {number} workloads
   * @param {number} tenants
   */
  async #wire(workloads, tenants) {
    const subject = this.subject()
    await subject.ask(`deploy ${JSON.stringify(SEED)}`)
    await subject.ask(`stop ${JSON.stringify(SEED.workload)}`)
    await subject.ask('sweep')
    for (const description of described(workloads, tenants)) await subject.ask(`deploy ${JSON.stringify(description)}`)
    await this.quiet()
    this.#size = { ...this.#size, workloads, tenants }
  }

  /**
   * Waits until a link is gone: the devices of a namespace go a while after its name.
   *
   * @param {string} link
   */
  async gone(link) {
    await this.run('bash', ['-c', `while ip link show "${link}" >/dev/null 2>&1; do sleep 0.01; done`])
  }

  /** Ends everything in there, and waits until the kernel has taken it all down. */
  async end() {
    await this.quiet()
    const exit = once(this.#holder, 'exit')
    this.#holder.stdin?.end()
    await exit
    await settled()
  }
}

/**
 * Waits for the kernel to take down what has ended: it does so in the background, at leisure, and would do so during the next
 * measurement. Namespaces go in the order in which they ended, so that one more that has gone tells that all have.
 */
export async function settled() {
  const script = `
    ip netns add last && ip link add last type veth peer name first netns last && ip netns del last
    while [ -e /sys/class/net/last ] || ip link show last >/dev/null 2>&1; do sleep 0.1; done`
  await run({ command: 'bash', args: ['-c', script], env: ENVIRONMENT })
}
