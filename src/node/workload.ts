/** One workload, as whoever deploys it describes it. */
import * as v from 'valibot'
import { UsageError } from './errors.js'
import type { ContainerNet } from './net.js'

const text = (max: number) => v.pipe(v.string('must be a text'), v.maxLength(max, `is longer than ${max} characters`))
const name = v.pipe(text(255), v.nonEmpty('is empty'))

/** `<tenant>/<namespace>/<name>`; the name may hold further slashes. */
const identity = v.pipe(
  text(1024),
  v.regex(/^[^/\0]+\/[^/\0]+\/[^\0]+$/, 'is no identity: <tenant>/<namespace>/<name>'),
)

const MTU = 'must be a whole number from 68 to 65535'
const mtu = v.pipe(v.number(MTU), v.integer(MTU), v.minValue(68, MTU), v.maxValue(65535, MTU))

/** The schema of a workload file (docs/workload.schema.json is made from it). Unknown fields are refused. */
export const workloadSchema = v.strictObject({
  workload: v.pipe(name, v.description('Its name; the network namespace is named after it.')),
  address: v.pipe(
    v.string('must be a text'),
    v.description('Its IPv4 address, inside the node’s /24, last octet 2 to 254.'),
  ),
  tenant: v.optional(v.pipe(name, v.description('Whose it is. Left out: the singleton tenant.'))),
  identity: v.optional(
    v.pipe(identity, v.description('<tenant>/<namespace>/<name>. Left out: <tenant>/default/<workload>.')),
  ),
  allow: v.optional(
    v.pipe(
      v.array(identity, 'must be a list of identities'),
      v.maxLength(1000, 'has more than 1000 identities'),
      v.description('Identities of other tenants’ workloads that may reach it.'),
    ),
  ),
  mtu: v.optional(v.pipe(mtu, v.description('Of its link; the kernel’s default when left out.'))),
})

export type WorkloadDescription = v.InferInput<typeof workloadSchema>

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
  if (typeof description !== 'object' || description === null || Array.isArray(description))
    throw new UsageError(options('workload'), 'must be an object with the fields of a workload')
  const parsed = v.safeParse(workloadSchema, description)
  if (!parsed.success) throw refused(parsed.issues, options)
  const { workload, address, tenant = net.singletonTenant, allow = [], mtu = null } = parsed.output
  if (net.subnetOf(address)?.workloadOctet(address) == null)
    throw new UsageError(
      options('address'),
      `${address} is no workload's address in ${net.range}: its last octet is 2 to 254`,
    )
  const identity = parsed.output.identity ?? `${tenant}/default/${workload}`
  if (identity.slice(0, identity.indexOf('/')) !== tenant)
    throw new UsageError(options('identity'), `${identity} is not of tenant ${tenant}`, `begin it with ${tenant}/`)
  return { workload, address, tenant, identity, allow: [...new Set(allow)], mtu }
}

type Issues = readonly v.InferIssue<typeof workloadSchema>[]

function refused(issues: Issues, options: (field: string) => string): UsageError {
  const isUnknown = ({ type, expected }: Issues[number]): boolean => type === 'strict_object' && expected === 'never'
  // A misspelt field first: what it stands for is missing too.
  const issue = issues.find(isUnknown) ?? issues[0]
  const field = issue?.path?.map(({ key }) => key).join('.') || 'workload'
  if (issue === undefined || issue.type !== 'strict_object') return new UsageError(options(field), issue?.message ?? '')
  return new UsageError(options(field), isUnknown(issue) ? 'unknown field' : 'is missing')
}
