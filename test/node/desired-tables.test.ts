/** What iptables is told for one workload and its bridge, from what iptables-save says is there. */
import { describe, expect, test } from 'vitest'
import { atOnce } from '../../src/kernel/turns.js'
import { addressCommands, bridgeCommands } from '../../src/node/desired-tables.js'
import type { Identity } from '../../src/node/grants.js'
import { ACME, addressLines, admitLines, BILLING_MARK, bridgeLines, GLOBEX, NET, SUBNET, saved } from './views.js'

const A = '10.128.3.7'
const own: Identity = { bridge: ACME, mark: 77 }
const billing: Identity = { bridge: GLOBEX, mark: BILLING_MARK }

const text = (commands: ReadonlyMap<string, readonly (readonly string[])[]>): Record<string, string[]> =>
  Object.fromEntries([...commands].map(([table, lines]) => [table, lines.map((words) => words.join(' '))]))
const bridgeText = (tables: Record<string, readonly string[]>, name = ACME): Record<string, string[]> =>
  text(atOnce(bridgeCommands(NET, name, SUBNET, saved(tables))))
const addressText = (mangle: readonly string[], admitted: readonly Identity[] = []): string[] =>
  addressCommands(A, own, admitted, SUBNET, saved({ mangle })).map((words) => words.join(' '))

/** By chain, in order from the top, what stands in a table after such commands: `-I` on top, `-A` at the end, `-D` the first. */
function standing(lines: readonly string[], commands: readonly string[] = []): string[] {
  const rules = lines.filter((line) => line.startsWith('-A')).map((line) => line.slice(3))
  for (const command of commands) {
    const rule = command.slice(3)
    if (command.startsWith('-I')) rules.unshift(rule)
    else if (command.startsWith('-A')) rules.push(rule)
    else if (command.startsWith('-D')) {
      const at = rules.findIndex((each) => sorted(each) === sorted(rule))
      expect(at, `there is no ${rule}`).not.toBe(-1)
      rules.splice(at, 1)
    }
  }
  return rules
}
/** iptables-save prints the options of a rule in an order of its own. */
const sorted = (rule: string): string => rule.split(/[ ,]/).sort().join(' ')

describe('a tenant bridge', () => {
  const { raw, mangle, filter } = bridgeLines(ACME)
  const DROP = filter.find((line) => line.includes(`! -o ${ACME}`)) ?? ''

  test('on an empty node, gets everything, in one batch for each table', () => {
    const commands = bridgeText({})
    expect(Object.fromEntries(Object.entries(commands).map(([table, lines]) => [table, lines.length]))).toEqual({
      raw: 1,
      mangle: 2,
      filter: 7,
    })
    for (const [table, lines] of Object.entries({ raw, mangle, filter })) {
      const made = standing([], commands[table])
      expect(made.map(sorted).sort()).toEqual(lines.map((line) => sorted(line.slice(3))).sort())
    }
    expect(commands.filter?.slice(-2)).toEqual([`-A FORWARD -i ${ACME} -j ACCEPT`, `-A FORWARD -o ${ACME} -j ACCEPT`])
  })

  test('that stands behind somebody else’s rule goes to the top, however much its comment looks like ours', () => {
    const others = ['yah-isolation-bis', 'my-yah-isolation-b'].map(
      (comment) => `-A FORWARD -i docker0 -m comment --comment ${comment} -j ACCEPT`,
    )
    for (const other of others) {
      const commands = bridgeText({ raw, mangle, filter: [other, ...filter] }).filter ?? []
      const after = standing([other, ...filter], commands)
      expect(after.slice(0, after.indexOf(other.slice(3))).map(sorted)).toContain(sorted(DROP.slice(3)))
    }
  })

  test('that is right is left alone, among other people’s rules behind it', () => {
    const foreign = ['-A FORWARD -i docker0 -j ACCEPT', '-A FORWARD -j LOG']
    expect(bridgeText({ raw, mangle, filter: [...filter, ...foreign] })).toEqual({})
    const other = bridgeLines(GLOBEX)
    const tables = {
      raw: [...other.raw, ...raw],
      mangle: [...other.mangle, ...mangle.slice(1)],
      filter: [...other.filter.slice(0, 5), ...filter.slice(0, 5), ...filter.slice(5), ...other.filter.slice(5)],
    }
    expect(bridgeText(tables)).toEqual({})
  })

  test('of which one rule is missing gets that one', () => {
    expect(bridgeText({ raw, mangle, filter: filter.filter((line) => line !== DROP) })).toEqual({
      filter: [expect.stringMatching(new RegExp(`^-I FORWARD .* -i ${ACME} ! -o ${ACME} .* yah-isolation-b -j DROP$`))],
    })
  })

  test('whose rule stands behind what accepts gets it on top', () => {
    const displaced = [...filter.filter((line) => line !== DROP), DROP]
    const { filter: commands = [] } = bridgeText({ raw, mangle, filter: displaced })
    expect(sorted(standing(displaced, commands)[0] ?? '')).toBe(sorted(DROP.slice(3)))
    expect(standing(displaced, commands)).toHaveLength(filter.length)
  })

  test('whose rules somebody accepts before gets them on top, each once', () => {
    const before = ['-A FORWARD -i docker0 -j ACCEPT', ...filter]
    const { filter: commands } = bridgeText({ raw, mangle, filter: before })
    const made = standing(before, commands).filter((rule) => rule.startsWith('FORWARD'))
    expect(made).toHaveLength(7)
    expect(made.findIndex((rule) => rule.includes('docker0'))).toBe(4)
  })

  test('whose rule is there twice, on top and behind what accepts, keeps the one on top', () => {
    const twice = [...filter, DROP]
    const made = standing(twice, bridgeText({ raw, mangle, filter: twice }).filter)
    expect(made).toHaveLength(filter.length)
    const at = made.findIndex((rule) => sorted(rule) === sorted(DROP.slice(3)))
    expect(at).toBeLessThan(made.findIndex((rule) => rule.endsWith('ACCEPT')))
  })

  test('with the first generation alone gets the second before the first goes', () => {
    const first = bridgeLines(ACME, 'yah-isolation-a')
    const { filter: commands = [] } = bridgeText(first)
    const kinds = commands.map((line) => line.slice(0, 2))
    expect(kinds).toEqual([...Array(5).fill('-I'), ...Array(5).fill('-D')])
    expect(standing(first.filter, commands).map(sorted).sort()).toEqual(
      filter.map((line) => sorted(line.slice(3))).sort(),
    )
  })

  test('is not told to take another tenant’s rules', () => {
    const other = bridgeLines(GLOBEX, 'yah-isolation-a')
    const lines = Object.values(bridgeText({ ...other, mangle: other.mangle.slice(1) })).flat()
    expect(lines.filter((line) => line.startsWith('-D') || line.includes(GLOBEX))).toEqual([])
  })
})

test('the node bridge gets its two ACCEPTs and nothing else', () => {
  expect(bridgeText({}, 'yah0')).toEqual({ filter: ['-A FORWARD -i yah0 -j ACCEPT', '-A FORWARD -o yah0 -j ACCEPT'] })
})

describe('an address', () => {
  const right = addressLines(A, ACME, 77)
  const granting = addressLines(A, ACME, 77, admitLines(A, ACME, GLOBEX, BILLING_MARK))

  test('that is right is left alone', () => {
    expect(addressText(right)).toEqual([])
    expect(addressText(granting, [billing])).toEqual([])
  })

  test('gets two chains and one jump, and with a grant two more', () => {
    expect(addressText([])).toEqual([
      `-N yah-id-${A}`,
      `-A yah-id-${A} -s ${A}/32 -d 10.128.3.0/24 -i ${ACME} -j MARK --set-xmark 0x4d/0xffff`,
      `-N yah-gr-${A}`,
      `-I PREROUTING -s ${A}/32 -j yah-id-${A}`,
    ])
    const grants = addressText([], [billing])
    expect(grants.filter((line) => line.startsWith('-A PREROUTING'))).toEqual([
      `-A PREROUTING -d ${A}/32 -j yah-gr-${A}`,
      `-A PREROUTING -s ${A}/32 -j yah-gr-${A}`,
    ])
    // 6249, as node-state.md has it.
    expect(grants.filter((line) => line.includes('0x1869/0xffff'))).toHaveLength(2)
    expect(grants.filter((line) => line.includes('--ctdir REPLY'))).toHaveLength(1)
  })

  test('admits no peer of its own bridge, which needs no grant', () => {
    expect(addressText(right, [{ bridge: ACME, mark: 5 }])).toEqual([])
  })

  test('that admits nobody any more loses the jumps before the chain is emptied or after, in one batch', () => {
    expect(addressText(granting).sort()).toEqual(
      [`-F yah-gr-${A}`, `-D PREROUTING -d ${A}/32 -j yah-gr-${A}`, `-D PREROUTING -s ${A}/32 -j yah-gr-${A}`].sort(),
    )
  })

  test('whose identity jump stands behind a jump to a grant chain gets it before', () => {
    const jump = `-A PREROUTING -s ${A}/32 -j yah-id-${A}`
    const displaced = [...granting.filter((line) => line !== jump), jump]
    const made = standing(
      displaced,
      addressText(displaced, [billing]).map((line) => line.replaceAll(`${A} `, `${A}/32 `)),
    )
    const chain = made.filter((rule) => rule.startsWith('PREROUTING')).map((rule) => rule.split(' ').at(-1))
    expect(chain).toEqual([`yah-id-${A}`, `yah-gr-${A}`, `yah-gr-${A}`])
  })

  test('is told of no other address’s chains', () => {
    const other = addressLines('10.128.3.70', ACME, 9, admitLines('10.128.3.70', ACME, GLOBEX, BILLING_MARK))
    expect(addressText([...right, ...other])).toEqual([])
    for (const line of addressText(other, [billing])) expect(line).not.toContain('10.128.3.70')
  })
})
