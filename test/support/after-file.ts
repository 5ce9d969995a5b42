/** Runs with every test file: fails the one that leaves a node behind. */
import { afterAll, expect } from 'vitest'
import { lastingStrays } from './leftovers.js'

afterAll(async () => {
  expect(await lastingStrays(process.pid), 'namespaces left behind').toEqual([])
})
