/**
 * Counts the run for scripts/test.sh: writes `PASSED FAILED SKIPPED` to the file that TEST_COUNT_FILE names, then a line for
 * each skipped test with its reason, so that none is skipped silently, and for each that passed at the second try.
 */
import { writeFileSync } from 'node:fs'
import type { Reporter, SerializedError, TestModule, Vitest } from 'vitest/node'

export default class CountReporter implements Reporter {
  /** Those that a test must have to be one of this run's. */
  #tags: readonly string[] = []

  onInit(vitest: Vitest): void {
    this.#tags = vitest.config.tagsFilter ?? []
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const file = process.env.TEST_COUNT_FILE
    if (file === undefined) return
    const all = modules.flatMap((module) => [...module.children.allTests()])
    const tests = all.filter((test) => this.#tags.every((tag) => test.tags.includes(tag)))
    const count = (state: string) => tests.filter((test) => test.result().state === state).length
    const skipped = tests.flatMap((test) => {
      const result = test.result()
      const reason = result.state === 'skipped' ? (result.note ?? 'marked as skipped') : 'was not run'
      const counted = result.state === 'skipped' || result.state === 'pending'
      return counted ? [`skipped: ${test.module.relativeModuleId}: ${test.fullName}: ${reason}`] : []
    })
    const again = tests
      .filter(
        (test) => test.result().state === 'passed' && !test.options.fails && (test.diagnostic()?.retryCount ?? 0) > 0,
      )
      .map((test) => `passed at the second try: ${test.module.relativeModuleId}: ${test.fullName}`)
    // A file that cannot be loaded, a hook that fails and an error that nobody caught belong to no test.
    const suites = modules.flatMap((module) => [module, ...module.children.allSuites()])
    const failed = count('failed') + suites.filter((suite) => suite.errors().length > 0).length + unhandled.length
    writeFileSync(file, `${[`${count('passed')} ${failed} ${skipped.length}`, ...skipped, ...again].join('\n')}\n`)
  }
}
