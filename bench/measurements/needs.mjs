/** What a pass needs to know of the links, against the same questions in C, and against listing them all. */
import { WARM_UPS } from '../alternate.mjs'

/**
 * @param {import('../lab.mjs').Lab} lab
 * @param {import('../node.mjs').Size} size
 */
export async function needs(lab, size) {
  const node = await lab.node(size)
  const subject = node.subject()
  const floor = node.floor()
  const entries = [
    { id: 'netsweep', warmUps: WARM_UPS, round: () => subject.ask('needs') },
    { id: 'floor targeted', round: () => floor.ask('targeted') },
    { id: 'floor dump_links', round: () => floor.ask('dump_links') },
  ]
  const taken = await lab.compare('needs', node, entries, { rounds: lab.manyRounds })
  await node.quiet()
  const { workloads, tenants } = size
  for (const { bridges, veths, ports } of taken.netsweep ?? [])
    if (bridges !== tenants + 1 || veths !== workloads || ports !== workloads)
      throw new Error(`the links were misread: ${bridges} bridges, ${veths} veths, ${ports} ports`)
}
