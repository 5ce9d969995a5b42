/** What is wired on a node that is measured. */

const FIRST_OCTET = 2

/** @typedef {{ workload: string, address: string, tenant?: string, identity?: string }} Description */

/**
 * A workload of the singleton tenant. It comes, and leaves the node bridge behind.
 *
 * @type {Description}
 */
export const SEED = { workload: 'seed', address: '10.128.3.254' }

/**
 * The workloads of so many tenants, by turns.
 *
 * @param {number} workloads
 * @param {number} tenants
 */
export function described(workloads, tenants) {
  return Array.from({ length: workloads }, (_, i) => describe(`w${i}`, FIRST_OCTET + i, `tenant${i % tenants}`))
}

/**
 * @param {string} name
 * @param {number} octet
 * @param {string} tenant
 * @returns {Description}
 */
export function describe(name, octet, tenant) {
  return { workload: name, address: `10.128.3.${octet}`, tenant, identity: `${tenant}/prod/${name}` }
}

/**
 * The same for the oracle.
 *
 * @param {Description} description
 */
export function deployArguments({ workload, address, tenant, identity }) {
  const args = ['deploy', '--workload', workload, '--addr', address]
  if (tenant !== undefined) args.push('--tenant', tenant)
  if (identity !== undefined) args.push('--identity', identity)
  return args
}
