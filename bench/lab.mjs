/** Where measurements find their nodes, and leave what they took. */
import { alternate } from './alternate.mjs'
import { assertSame, wiredByOracle } from './expected.mjs'
import { Node } from './node.mjs'

/**
 * What was measured beside each other, in one namespace, in turns: for each entry a value of each round.
 *
 * @typedef {object} Contest
 * @property {string} name
 * @property {import('./node.mjs').Size} size of the node
 * @property {keyof import('./node.mjs').Size | null} along the size that grew, on one node, from one contest of that name to the next
 * @property {'ms' | 'KiB'} unit
 * @property {Record<string, number[]>} rounds by entry
 */

export class Lab {
  /** @type {Contest[]} */
  contests = []
  /** @type {Contest['along']} */
  along = null
  /** @type {Node | null} */
  #node = null

  /** @param {{ rounds: number, say: (what: string) => void }} options */
  constructor({ rounds, say }) {
    this.rounds = rounds
    /** Of what takes less than a tenth of a second: the more, the steadier. */
    this.manyRounds = 3 * rounds
    this.say = say
  }

  /**
   * A node of that size with nothing left over; the one at hand where it only has to grow.
   *
   * @param {import('./node.mjs').Size} size
   */
  async node(size) {
    if (this.#node !== null && !isWithin(this.#node.size, size)) await this.discard()
    this.#node ??= await Node.create()
    const node = this.#node
    if (size.workloads > 0 && node.size.workloads === 0) {
      this.say(`  wiring ${size.workloads} workloads of ${size.tenants} tenants`)
      await node.grow({ links: 0, routes: 0, rules: 0, workloads: size.workloads, tenants: size.tenants })
      const expected = await wiredByOracle(size.workloads, size.tenants)
      assertSame('wiring', await node.dump(), expected)
    }
    await node.grow(size)
    return node
  }

  /** The node at hand is of no use any more. */
  async discard() {
    await this.#node?.end()
    this.#node = null
  }

  /**
   * @param {string} name
   * @param {Node} node
   * @param {readonly import('./alternate.mjs').Entry[]} entries
   * @param {{ rounds?: number, unit?: 'ms' | 'KiB', value?: (measured: any) => number }} [options]
   */
  async compare(name, node, entries, { rounds = this.rounds, unit = 'ms', value = ({ ms }) => ms } = {}) {
    const taken = await alternate(entries, rounds)
    const values = Object.entries(taken).map(([id, measured]) => [id, measured.map(value)])
    this.record(name, node, unit, Object.fromEntries(values))
    return taken
  }

  /**
   * @param {string} name
   * @param {Node} node
   * @param {Contest['unit']} unit
   * @param {Contest['rounds']} rounds
   */
  record(name, node, unit, rounds) {
    this.contests.push({ name, along: this.along, size: node.size, unit, rounds })
  }

  /**
   * Measures at each of the sizes, on one node that grows.
   *
   * @param {NonNullable<Contest['along']>} along
   * @param {readonly import('./node.mjs').Size[]} sizes
   * @param {(size: import('./node.mjs').Size, isLast: boolean) => Promise<void>} measure
   */
  async grow(along, sizes, measure) {
    await this.discard()
    this.along = along
    try {
      for (const [i, size] of sizes.entries()) {
        this.say(`  ${size[along]} ${along}`)
        await measure(size, i === sizes.length - 1)
      }
    } finally {
      this.along = null
    }
  }
}

/**
 * @param {import('./node.mjs').Size} have
 * @param {import('./node.mjs').Size} want
 */
function isWithin(have, want) {
  const isSame = have.workloads === want.workloads && have.tenants === want.tenants
  return isSame && have.links <= want.links && have.routes <= want.routes && have.rules <= want.rules
}
