/** The tests of a guest (scripts/vm-test.sh): those that need one, and those that ask any kernel. One by one, and slowly. */
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import shared from '../../vitest.config.js'

const SLOW = 600_000

export default defineConfig({
  root: fileURLToPath(new URL('../..', import.meta.url)),
  test: {
    ...shared.test,
    include: [
      'test/vm/**/*.guest.ts',
      'test/{kernel,packets,native,conntrack}/**/*.test.ts',
      'test/iptables/kernel.test.ts',
      'test/rtnetlink/{change,live,loose,namespace-id}.test.ts',
    ],
    maxWorkers: 1,
    // One process for all files: each would load the same again, for seconds.
    isolate: false,
    maxConcurrency: 1,
    testTimeout: SLOW,
    hookTimeout: SLOW,
  },
})
