/** One workload, as whoever deploys it describes it. */
import { z } from 'zod'
import { UsageError } from './errors.js'
import type { ContainerNet } from './net.js'

/** `<tenant>/<namespace>/<name>`; the name may hold further slashes. */
const identity = z
  .string()
  .max(1024)
  .regex(/^[^/\0]+\/[^/\0]+\/[^\0]+$/, 'is no identity: <tenant>/<namespace>/<name>')

/** The schema of a workload file (docs/workload.schema.json is made from it). Unknown fields are refused. */
export const workloadSchema = z.strictObject({
  workload: z.string().min(1).max(255).describe('Its name; the network namespace is named after it.'),
  address: z.string().describe('Its IPv4 address, inside the node’s /24, last octet 2 to 254.'),
  tenant: z.string().min(1).max(255).optional().describe('Whose it is. Left out: the singleton tenant.'),
  identity: identity.optional().describe('<tenant>/<namespace>/<name>. Left out: <tenant>/default/<workload>.'),
  allow: z.array(identity).max(1000).optional().describe('Identities of other tenants’ workloads that may reach it.'),
  mtu: z.int().min(68).max(65535).optional().describe('Of its link; the kernel’s default when left out.'),
})

export type WorkloadDescription = z.infer<typeof workloadSchema>

/** A workload description that was checked, with everything filled in. */
export interface Workload {
  readonly workload: string
  readonly address: string
  readonly tenant: string
  readonly identity: string
  readonly allow: readonly string[]
  readonly mtu: number | null
}

/**
 * Checks a description. `options` names its fields as the caller spells them: `--address`, `workload.json: address`.
 *
 * @throws UsageError that names the field.
 */
export function checkWorkload(
  net: ContainerNet,
  description: unknown,
  options = (field: string): string => field,
): Workload {
  const parsed = workloadSchema.safeParse(description)
  if (!parsed.success) {
    const { issues } = parsed.error
    // A misspelt field first: what it stands for is missing too.
    const issue = issues.find(({ code }) => code === 'unrecognized_keys') ?? issues[0]
    if (issue?.code === 'unrecognized_keys') throw new UsageError(options(issue.keys[0] ?? ''), 'unknown field')
    const field = issue?.path.join('.') || 'workload'
    const [name] = issue?.path ?? []
    const isMissing = name !== undefined && !Object.hasOwn(Object(description), name)
    throw new UsageError(options(field), isMissing ? 'is missing' : (issue?.message ?? 'is not understood'))
  }
  const { workload, address, tenant = net.singletonTenant, allow = [], mtu = null } = parsed.data
  if (net.subnetOf(address)?.workloadOctet(address) == null)
    throw new UsageError(
      options('address'),
      `${address} is no workload's address in ${net.range}: its last octet is 2 to 254`,
    )
  const identity = parsed.data.identity ?? `${tenant}/default/${workload}`
  if (identity.slice(0, identity.indexOf('/')) !== tenant)
    throw new UsageError(options('identity'), `${identity} is not of tenant ${tenant}`, `begin it with ${tenant}/`)
  return { workload, address, tenant, identity, allow: [...new Set(allow)], mtu }
}
