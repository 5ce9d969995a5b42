/** In a guest of scripts/vm.sh: the tests that only it can run, and any other that is named; one after the other, slowly. */
import { mergeConfig } from 'vitest/config'
import shared from '../../vitest.config.js'

export default mergeConfig(shared, {
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/vm/**/*.guest.ts'],
    maxWorkers: 1,
    testTimeout: 600_000,
    hookTimeout: 600_000,
    teardownTimeout: 60_000,
  },
})
