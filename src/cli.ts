#!/usr/bin/env node
/** The command: options in, exit status out. */
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Command, CommanderError, Option } from 'commander'
import { type CommandDefinition, GLOBAL_OPTIONS, type OptionDefinition, optionName } from './commands/command.js'
import { demo } from './commands/demo.js'
import { deploy } from './commands/deploy.js'
import { type Io, processIo } from './commands/io.js'
import { lock } from './commands/lock.js'
import { Settings, variable } from './commands/settings.js'
import { show } from './commands/show.js'
import { stop } from './commands/stop.js'
import { sweep } from './commands/sweep.js'
import { packageFile } from './kernel/package.js'
import { UsageError } from './node/errors.js'
import { BrakeError } from './node/reconcile.js'
import { DONE, exitStatus, failureLine, failureOf, INCOMPLETE } from './report/failure.js'
import { createLog, LOG_LEVELS } from './report/log.js'
import { styleOf } from './report/style.js'

const COMMANDS: readonly CommandDefinition[] = [sweep, show, deploy, stop, lock, demo]

/** Runs one command, and resolves to the exit status. `argv`: without the program's name. Never rejects. */
export async function main(argv: readonly string[], given: Partial<Io> = {}): Promise<number> {
  const io = { ...processIo(), ...given }
  let status = DONE
  const program = createProgram(io, async (command, options, operands) => {
    status = await runCommand(command, { io, argv, options, operands })
  })
  try {
    await program.parseAsync(argv, { from: 'user' })
    return status
  } catch (error) {
    if (error instanceof CommanderError && error.exitCode === DONE) return DONE
    return fail(error instanceof CommanderError ? wrongCall(error) : error, io, argv)
  }
}

type Run = (command: CommandDefinition, options: Record<string, unknown>, operands: readonly string[]) => Promise<void>

function createProgram(io: Io, run: Run): Command {
  const program = new Command('netsweep')
    .description("Finds what stopped container workloads left behind in a node's network, and removes exactly that.")
    .version(readVersion(), '--version', 'print the version')
    .helpOption('--help', 'print this help')
    .helpCommand(false)
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: (text) => io.stdout.write(text), writeErr: () => {}, outputError: () => {} })
    .exitOverride()
  for (const option of GLOBAL_OPTIONS) program.addOption(commanderOption(option))
  program.addHelpText('after', `\n${ENVIRONMENT_HELP}\n\n${STATUS_HELP}`)
  for (const definition of COMMANDS) {
    const command = program.command(definition.name).description(definition.summary)
    command.helpOption('--help', 'print this help')
    for (const option of definition.options) command.addOption(commanderOption(option))
    // Surplus operands are refused below, by name.
    command.allowExcessArguments()
    if (definition.operands !== undefined) command.argument(definition.operands)
    command.addHelpText('after', `${definition.more ?? ''}\n${ENVIRONMENT_HELP}`)
    command.action(() => run(definition, command.optsWithGlobals(), command.args))
  }
  return program
}

const ENVIRONMENT_HELP = `Each option can also be set by an environment variable: ${variable('lock-timeout')}=30, ${variable('json')}=1.`
const STATUS_HELP = `Exit status: 0 done; 1 incomplete; 2 the call is wrong; 3 inconclusive, nothing was changed; 4 somebody else
held the node-state lock, nothing was changed.`

function commanderOption({ flags, description, hidden = false, repeated = false }: OptionDefinition): Option {
  const option = new Option(flags, description).hideHelp(hidden)
  return repeated ? option.argParser((value, before: string[] = []) => [...before, value]) : option
}

interface Call {
  readonly io: Io
  readonly argv: readonly string[]
  readonly options: Record<string, unknown>
  readonly operands: readonly string[]
}

async function runCommand(command: CommandDefinition, { io, argv, options, operands }: Call): Promise<number> {
  const given = new Map<string, string | true | readonly string[]>()
  for (const name of [...GLOBAL_OPTIONS, ...command.options].map(optionName)) {
    const value = options[name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())]
    if (typeof value === 'string' || value === true || Array.isArray(value)) given.set(name, value)
  }
  const settings = new Settings(given, io.env)
  const log = createLog(settings.choice('log-level', LOG_LEVELS) ?? 'warn', io.stderr, styleOf(io.stderr, io.env))
  try {
    const [surplus] = command.operands === undefined ? operands : []
    if (surplus !== undefined) throw new UsageError(surplus, 'not expected here', `netsweep ${command.name} --help`)
    const json = settings.isOn('json')
    const net = settings.containerNet()
    const lockTimeoutMs = settings.milliseconds('lock-timeout')
    return await command.run({ io, settings, log, argv, operands, json, net, lockTimeoutMs })
  } catch (error) {
    log.debug({ err: error }, 'failed')
    throw error instanceof UsageError ? settings.named(error) : error
  }
}

/** What commander says, with the object first: `unknown option '--foo'` → `--foo: unknown option`. */
function wrongCall({ code, message, exitCode }: CommanderError): UsageError {
  if (code === 'commander.help' && exitCode !== DONE)
    return new UsageError('command', 'none was given', 'netsweep --help lists them')
  const [reason = '', suggestion] = message.replace(/^error: /, '').split('\n')
  const hint = suggestion?.replace(/^\(|\)$/g, '').replace(/^D/, 'd') ?? 'netsweep --help'
  const [quoted, object] = /'([^' ]+)[^']*'/.exec(reason) ?? []
  if (quoted === undefined || object === undefined) return new UsageError('call', reason, hint)
  return new UsageError(object, reason.replace(quoted, '').replace(/\s+/g, ' ').trim(), hint)
}

/** One line on stderr, with --json one object on stdout besides. */
function fail(error: unknown, io: Io, argv: readonly string[]): number {
  const failure = failureOf(error)
  if (wantsJson(argv, io.env)) {
    const { bridges, addresses, steps } = error instanceof BrakeError ? error.pass : {}
    io.stdout.write(`${JSON.stringify({ error: failure, bridges, addresses, steps }, null, 2)}\n`)
  }
  io.stderr.write(failureLine(failure))
  return exitStatus(error)
}

/** Also of a call that could not be understood. */
function wantsJson(argv: readonly string[], env: Io['env']): boolean {
  const end = argv.indexOf('--')
  const options = end < 0 ? argv : argv.slice(0, end)
  const variables = [env[variable('json')], options.includes('show') ? env[variable('format')] : undefined]
  return (
    options.includes('--json') ||
    options.includes('--format=json') ||
    (options.includes('--format') && options[options.indexOf('--format') + 1] === 'json') ||
    variables.some((value) => value === '1' || value === 'true' || value === 'json')
  )
}

function readVersion(): string {
  return (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version
}

/** Whether Node was started with this file, by whatever symbolic link. */
function isEntryPoint(): boolean {
  const started = process.argv[1]
  return started !== undefined && existsSync(started) && realpathSync(started) === fileURLToPath(import.meta.url)
}

if (isEntryPoint()) {
  // Whoever reads the output may have seen enough; the work is done all the same.
  let unwritten = DONE
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') return
      if (unwritten === DONE && stream === process.stdout) process.stderr.write(`netsweep: stdout: ${error.message}\n`)
      unwritten = INCOMPLETE
      process.exitCode ||= unwritten
    })
  }
  const status = await main(process.argv.slice(2))
  process.exitCode = status === DONE ? unwritten : status
}
