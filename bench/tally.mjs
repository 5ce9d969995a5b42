/**
 * What a list of links comes to, for comparison with what others have decoded of the same: numbers that nobody gets right
 * by accident.
 *
 * @param {readonly { index: number, kind: string, master: number, mtu: number, name: string }[]} links
 */
export function tally(links) {
  let [veths, masters, mtus, names] = [0, 0, 0, 0]
  for (const { kind, master, mtu, name } of links) {
    if (kind === 'veth') veths++
    masters += master
    mtus += mtu
    names += name.length
  }
  return { links: links.length, veths, masters, mtus, names }
}
