import { expect, test } from 'vitest'
import * as linux from '../../src/kernel/linux.js'
import { native } from '../../src/kernel/native.js'

/** The highest number that a header knows: newer headers know more. */
const HIGHEST = /_MAX$/

const spelled = Object.entries(linux).filter(([name]) => !HIGHEST.test(name))
const highest = Object.entries(linux).filter(([name]) => HIGHEST.test(name))

test('linux.ts spells constants, and a good many', () => {
  expect(spelled.length).toBeGreaterThan(100)
})

test.each(spelled)('%s is what the kernel headers say', (name, value) => {
  expect(native().constants[name]).toBe(value)
})

test.each(highest)('%s is not beyond what the kernel headers know', (name, value) => {
  expect(native().constants[name]).toBeGreaterThanOrEqual(value)
})
