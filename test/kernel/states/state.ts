/** A state of a node, what a sweep makes of it, and the test that holds one against the other. */
import { beforeAll, expect, test } from 'vitest'
import type { ContainerNetOptions } from '../../../src/index.js'
import type { Notice } from '../../../src/node/plan.js'
import { lack } from '../../support/machine.js'
import { type Backend, TestNode } from '../../support/node.js'
import type { Environment } from '../../support/process.js'
import { difference } from '../../support/snapshot.js'
import { sameView } from '../slow-view.js'
import { WORDS } from './build.js'
import { changes, minus, unexplained } from './expected.js'
import { type By, type Pass, sweep } from './pass.js'

export interface State {
  readonly name: string
  /** A shell script in the words of `build.ts`. */
  readonly build: string
  /** Each of them is a test. Default: nft. */
  readonly backends?: readonly Backend[]
  /** Of the sweep, besides the namespace. */
  readonly options?: ContainerNetOptions
  /** For the building, and for the oracle's sweep. */
  readonly env?: Environment
  readonly by?: By
  /** The lines of the dump that a sweep takes away, as often as they go: the rest stays as it is. Default: none. */
  readonly gone?: readonly string[]
  /** Neighbours that go, as `ip neigh` prints them; those of a bridge that goes are not listed. */
  readonly neighbours?: readonly string[]
  /** Whether the rules of both back ends are looked at; those of legacy are then marked `legacy` in `gone`. */
  readonly both?: boolean
  readonly subnet?: string | null
  readonly bridges?: readonly string[]
  readonly addresses?: readonly string[]
  /**
   * Steps that are not taken, by object (`BACKEND` stands for the test's own), and what the reason has to say. With any
   * of them the pass is incomplete.
   */
  readonly kept?: readonly { readonly object: string; readonly reason: RegExp }[]
  /** Default: none. A healthy node is quiet. */
  readonly notices?: readonly Notice[]
  /** The pass ends before anything is changed, with exit status 3, and says all of this. */
  readonly fails?: { readonly code: string; readonly says: readonly RegExp[] }
  /** Whether the oracle's own sweep of the same state leaves the same dump; else why it is no measure here. */
  readonly oracle: 'agrees' | { readonly differs: string }
}

/** One test for each state and back end. */
export function testStates(states: readonly State[]): void {
  const lacks = new Map<Backend, string | undefined>()
  beforeAll(async () => {
    for (const backend of ['nft', 'legacy'] as const) lacks.set(backend, await lack(backend))
  })
  for (const state of states) {
    const { backends = ['nft'] } = state
    for (const backend of backends) {
      test(backends.length > 1 ? `${state.name} (${backend})` : state.name, async (context) => {
        for (const needed of state.both ? (['nft', 'legacy'] as const) : [backend]) {
          const reason = lacks.get(needed)
          if (reason !== undefined) context.skip(reason)
        }
        await hold({ ...state, kept: namingBackend(state.kept ?? [], backend) }, backend)
      })
    }
  }
}

function namingBackend(kept: NonNullable<State['kept']>, backend: Backend): NonNullable<State['kept']> {
  return kept.map(({ object, reason }) => ({ object: object.replace('BACKEND', backend), reason }))
}

async function hold(state: State, backend: Backend): Promise<void> {
  await using node = await TestNode.create({ backend })
  await node.run(WORDS + state.build, { env: state.env ?? {} })
  // Tables that cannot be read have no view; two subnets do.
  const isReadable = state.fails?.code !== 'FAILED'
  const before = { dump: await dumpOf(node, state), snapshot: await node.snapshot() }
  if (isReadable) await sameView(node, state.options)

  const dry = await pass(node, state, true)
  expect(difference(before.snapshot, await node.snapshot()), 'changed by a dry run').toEqual([])

  const swept = await pass(node, state, false)
  const after = { dump: await dumpOf(node, state), snapshot: await node.snapshot() }
  expect(minus(state.gone ?? [], before.dump), 'expected to go, and not there before').toEqual([])
  const { gone, came } = changes(before.dump, state.gone ?? [])
  expect(after.dump).toEqual([...minus(before.dump, gone), ...came].sort())
  const neighbours = state.neighbours ?? []
  expect(
    unexplained(before.snapshot, after.snapshot, { gone, came, neighbours, backend }),
    'changed, and not expected to',
  ).toEqual([])
  assertReport(state, dry, swept)
  if (isReadable) await sameView(node, state.options)

  const again = await pass(node, state, false)
  expect(difference(after.snapshot, await node.snapshot()), 'changed by a second sweep').toEqual([])
  assertNothingLeft(state, again)

  if (state.oracle === 'agrees') expect(after.dump, 'as the oracle leaves it').toEqual(await sweptByOracle(state, node))
}

/** The dump that the oracle's sweep leaves of the same state. `node`: one on which the state was built and swept. */
async function sweptByOracle(state: State, node: TestNode): Promise<string[]> {
  // A state of which nothing goes is still there to be swept.
  if ((state.gone ?? []).length === 0) return oracleSweep(state, node)
  await using other = await TestNode.create({ backend: node.backend })
  await other.run(WORDS + state.build, { env: state.env ?? {} })
  // Awaited here: the node is gone when this function returns.
  return await oracleSweep(state, other)
}

async function oracleSweep(state: State, node: TestNode): Promise<string[]> {
  await node.oracle('sweep', state.env ?? {})
  return dumpOf(node, state)
}

function dumpOf(node: TestNode, state: State): Promise<string[]> {
  return node.dump({ both: state.both === true, env: state.env ?? {} })
}

function pass(node: TestNode, state: State, dryRun: boolean): Promise<Pass> {
  return sweep(node, { by: state.by ?? 'library', dryRun, options: state.options ?? {} })
}

function assertReport(state: State, dry: Pass, swept: Pass): void {
  if (state.fails !== undefined) {
    for (const { status, error } of [dry, swept]) {
      expect({ status, code: error?.code }).toEqual({ status: 3, code: state.fails.code })
      for (const said of state.fails.says) expect(`${error?.message}; ${error?.hint}`).toMatch(said)
    }
    return
  }
  const { kept = [], subnet = '10.128.3.0/24', bridges = [], addresses = [], notices = [] } = state
  const complete = kept.length === 0
  for (const [{ status, report, error }, dryRun] of [
    [dry, true],
    [swept, false],
  ] as const) {
    expect(error ?? null, `the ${dryRun ? 'dry run' : 'sweep'} failed`).toBeNull()
    expect(report).toMatchObject({ subnet, bridges, addresses, notices, dryRun, complete })
    expect(status).toBe(complete ? 0 : 1)
    const stay = report?.steps.filter(({ outcome }) => outcome === 'kept') ?? []
    expect(stay.map(({ object }) => object).sort()).toEqual(kept.map(({ object }) => object).sort())
    for (const { object, reason } of kept) expect(stay.find((step) => step.object === object)?.reason).toMatch(reason)
    const outcomes = new Set(report?.steps.map(({ outcome }) => outcome).filter((outcome) => outcome !== 'kept'))
    expect([...outcomes]).toEqual(report?.steps.length === stay.length ? [] : [dryRun ? 'planned' : 'removed'])
  }
  const promised = dry.report?.steps.map(({ outcome, ...step }) => ({ ...step, kept: outcome === 'kept' }))
  const taken = swept.report?.steps.map(({ outcome, ...step }) => ({ ...step, kept: outcome === 'kept' }))
  expect(promised, 'a dry run lists the same steps').toEqual(taken)
}

function assertNothingLeft({ fails, kept = [] }: State, { status, report }: Pass): void {
  if (fails !== undefined) {
    expect(status).toBe(3)
    return
  }
  expect(report?.steps.map(({ object, outcome }) => `${outcome} ${object}`).sort()).toEqual(
    kept.map(({ object }) => `kept ${object}`).sort(),
  )
  expect(status).toBe(kept.length === 0 ? 0 : 1)
}
