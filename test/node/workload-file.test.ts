import { readFileSync } from 'node:fs'
import { toJsonSchema } from '@valibot/to-json-schema'
import { expect, test } from 'vitest'
import { UsageError } from '../../src/node/errors.js'
import { ContainerNet } from '../../src/node/net.js'
import { checkWorkload, workloadSchema } from '../../src/node/workload.js'

const net = new ContainerNet()
const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8'))

test('the schema that is published is the one that files are checked with', () => {
  expect(read('workload.schema.json')).toEqual(
    toJsonSchema(workloadSchema, { target: 'draft-2020-12', typeMode: 'input' }),
  )
})

test('the example is a workload, to the last field', () => {
  expect(checkWorkload(net, read('workload.example.json'))).toEqual({
    workload: 'billing',
    address: '10.128.3.9',
    tenant: 'globex',
    identity: 'globex/prod/billing',
    allow: ['acme/prod/api'],
    mtu: 1420,
  })
})

test('what may be left out is filled in', () => {
  expect(checkWorkload(net, { workload: 'acct', address: '10.128.3.2' })).toEqual({
    workload: 'acct',
    address: '10.128.3.2',
    tenant: 'singleton',
    identity: 'singleton/default/acct',
    allow: [],
    mtu: null,
  })
})

test.each([
  [null, 'workload'],
  [[], 'workload'],
  [{ address: '10.128.3.2' }, 'workload'],
  [{ workload: 'x' }, 'address'],
  [{ workload: '', address: '10.128.3.2' }, 'workload'],
  [{ workload: 'x', adress: '10.128.3.2' }, 'adress'],
  [{ workload: 'x', address: '10.128.3.1' }, 'address'],
  [{ workload: 'x', address: '10.128.3.255' }, 'address'],
  [{ workload: 'x', address: '10.128.3.02' }, 'address'],
  [{ workload: 'x', address: '192.168.3.2' }, 'address'],
  [{ workload: 'x', address: '10.128.3.2', tenant: '' }, 'tenant'],
  [{ workload: 'x', address: '10.128.3.2', identity: 'singleton/x' }, 'identity'],
  [{ workload: 'x', address: '10.128.3.2', tenant: 'acme', identity: 'globex/prod/x' }, 'identity'],
  [{ workload: 'x', address: '10.128.3.2', allow: ['acme'] }, 'allow.0'],
  [{ workload: 'x', address: '10.128.3.2', allow: 'acme/a/b' }, 'allow'],
  [{ workload: 'x', address: '10.128.3.2', mtu: 67 }, 'mtu'],
  [{ workload: 'x', address: '10.128.3.2', mtu: 1400.5 }, 'mtu'],
])('%j is refused, and %s named', (description, field) => {
  const check = (): unknown => checkWorkload(net, description, (name) => `w.json: ${name}`)
  expect(check).toThrow(UsageError)
  expect(check).toThrow(new RegExp(`^w\\.json: ${field.replace('.', '\\.')}: `))
})

test.each([[null], [[]], ['api'], [7], [undefined]])('%j is no description at all, and told so', (description) => {
  expect(() => checkWorkload(net, description)).toThrow(/^workload: must be an object/)
})
