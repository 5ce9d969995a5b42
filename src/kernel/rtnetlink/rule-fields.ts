/** Fields of a rule that have a form of their own: the action's name, ranges. */
import {
  FR_ACT_BLACKHOLE,
  FR_ACT_GOTO,
  FR_ACT_NOP,
  FR_ACT_PROHIBIT,
  FR_ACT_TO_TBL,
  FR_ACT_UNREACHABLE,
} from '../linux.js'

/** Both ends belong to it. */
export interface Range {
  readonly start: number
  readonly end: number
}

export type RuleAction = 'table' | 'goto' | 'nop' | 'blackhole' | 'unreachable' | 'prohibit'

const ACTIONS: ReadonlyMap<number, RuleAction> = new Map([
  [FR_ACT_TO_TBL, 'table'],
  [FR_ACT_GOTO, 'goto'],
  [FR_ACT_NOP, 'nop'],
  [FR_ACT_BLACKHOLE, 'blackhole'],
  [FR_ACT_UNREACHABLE, 'unreachable'],
  [FR_ACT_PROHIBIT, 'prohibit'],
])

/** FR_ACT_* to its name, or to itself where it has none here. */
export function actionName(number: number): RuleAction | number {
  return ACTIONS.get(number) ?? number
}

export function actionNumber(action: RuleAction | number): number {
  if (typeof action === 'number') return action
  for (const [number, name] of ACTIONS) if (name === action) return number
  throw new RangeError(`action ${action}`)
}

export function readUids(bytes: Buffer): Range {
  return { start: bytes.readUInt32LE(0), end: bytes.readUInt32LE(4) }
}

export function uidBytes({ start, end }: Range): Buffer {
  const bytes = Buffer.alloc(8)
  bytes.writeUInt32LE(start, 0)
  bytes.writeUInt32LE(end, 4)
  return bytes
}

export function readPorts(bytes: Buffer): Range {
  return { start: bytes.readUInt16LE(0), end: bytes.readUInt16LE(2) }
}

export function portBytes({ start, end }: Range): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt16LE(start, 0)
  bytes.writeUInt16LE(end, 2)
  return bytes
}
