/** One command of the program: its options, and what it does. */
import type { ContainerNet } from '../node/net.js'
import type { Log } from '../report/log.js'
import type { Io } from './io.js'
import type { Settings } from './settings.js'

export interface OptionDefinition {
  /** As in the help: `--settle <seconds>`. */
  readonly flags: string
  readonly description: string
  /** Left out of the help. */
  readonly hidden?: boolean
  /** May be given several times; its environment variable holds them separated by spaces. */
  readonly repeated?: boolean
}

export interface Context {
  readonly io: Io
  readonly settings: Settings
  readonly log: Log
  /** The whole call, without the program's name. */
  readonly argv: readonly string[]
  /** What is neither an option nor the command's name. */
  readonly operands: readonly string[]
  readonly json: boolean
  readonly net: ContainerNet
  readonly lockTimeoutMs: number | undefined
}

export interface CommandDefinition {
  readonly name: string
  readonly summary: string
  /** Operands, as commander writes them: `[command...]`. */
  readonly operands?: string
  readonly options: readonly OptionDefinition[]
  /** Shown below the help. */
  readonly more?: string
  /** Resolves to the exit status. */
  run(context: Context): Promise<number>
}

/** Every command takes them. */
export const GLOBAL_OPTIONS: readonly OptionDefinition[] = [
  { flags: '--bridge <name>', description: 'the node bridge (yah0)' },
  { flags: '--range <cidr>', description: "the range that nodes' /24s are cut from (10.128.0.0/9)" },
  { flags: '--subnet <cidr>', description: "the node's /24 (what the bridges' gateway says)" },
  { flags: '--singleton-tenant <id>', description: 'the tenant that lives on the node bridge (singleton)' },
  { flags: '--netns <name|path>', description: 'the network namespace (the one that this runs in)' },
  { flags: '--iptables <choice>', description: 'the iptables back ends to look at: auto, nft, legacy (auto)' },
  { flags: '--lock-timeout <seconds>', description: 'how long to wait for the node-state lock (10)' },
  { flags: '--timeout <seconds>', description: 'how long one question to the kernel or one tool may take (30)' },
  { flags: '--json', description: 'print one JSON object instead of text' },
  { flags: '--log-level <level>', description: 'trace, debug, info, warn, error, fatal, silent (warn)' },
]

/** `--settle <seconds>` → `settle` */
export function optionName({ flags }: OptionDefinition): string {
  return /^--([a-z-]+)/.exec(flags)?.[1] ?? ''
}
