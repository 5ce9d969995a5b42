/** Whoever else lists links. */

/**
 * @param {import('./node.mjs').Node} node
 * @returns {{ id: string, program: import('./process.mjs').Program }[]}
 */
export function startPeers(node) {
  return [{ id: 'ip -o link', program: node.timed('ip', ['-o', 'link']) }]
}
