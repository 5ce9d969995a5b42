import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // Each file in a process of its own: what it started dies with it. A third of their time they wait for the kernel, so
    // that there may be more of them than processors; more than four would only wait for each other, since it changes one
    // network namespace at a time.
    pool: 'forks',
    maxWorkers: Math.min(4, 2 * availableParallelism()),
    // A test starts dozens of processes, and the machine may be slow and busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // The default is a second, in which a slow machine does not start a program.
    expect: { poll: { timeout: 60_000 } },
    // In CI once more, and the end of the run names what needed it: there a machine that others keep busy is no news.
    retry: process.env.CI ? 1 : 0,
    tags: [
      { name: 'guest', description: 'in CI on a kernel of scripts/vm.sh too: what needs it, and one of every kind' },
    ],
    globalSetup: ['test/support/global.ts'],
    setupFiles: ['test/support/after-file.ts'],
    reporters: ['default', './test/support/reporter.ts'],
  },
})
