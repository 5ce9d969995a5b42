/** The most memory that a process has had after passes, beside one that has done nothing but open the node. */

const PASSES = 10

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function memory(lab, size) {
  const node = await lab.node(size)
  const after = (/** @type {number} */ passes) => async () => {
    const subject = node.subject()
    for (let i = 0; i < passes; i++) await subject.ask('idle')
    const { kib } = await subject.ask('memory')
    await subject.end()
    return { kib }
  }
  const save = node.timed('iptables-nft-save')
  const entries = [
    { id: 'idle process', round: after(0) },
    { id: `${PASSES} passes`, round: after(PASSES) },
    { id: "iptables-save's text", round: async () => ({ kib: (await save.ask()).bytes / 1024 }) },
  ]
  await lab.compare('memory', node, entries, { unit: 'KiB', value: ({ kib }) => kib })
  await node.quiet()
}
