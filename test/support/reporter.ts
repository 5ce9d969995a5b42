/**
 * Counts the run for scripts/test.sh: writes `PASSED FAILED SKIPPED` to the file that TEST_COUNT_FILE names, then a line for
 * each skipped test with its reason, so that none is skipped silently, and what went wrong in each that passed at the second
 * try and in each that failed: it stands at the end, where a long log that was cut still has it.
 */
import { writeFileSync } from 'node:fs'
import { stripVTControlCharacters } from 'node:util'
import type { Reporter, SerializedError, TestCase, TestModule, TestSuite, Vitest } from 'vitest/node'

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
    const again = tests.filter(
      (test) => test.result().state === 'passed' && !test.options.fails && (test.diagnostic()?.retryCount ?? 0) > 0,
    )
    // A file that cannot be loaded, a hook that fails and an error that nobody caught belong to no test.
    const suites = modules.flatMap((module) => [module, ...module.children.allSuites()])
    const broken = suites.filter((suite) => suite.errors().length > 0)
    const failed = tests.filter((test) => test.result().state === 'failed')
    const lines = [
      `${count('passed')} ${failed.length + broken.length + unhandled.length} ${skipped.length}`,
      ...skipped,
      ...again.flatMap((test) => told('passed at the second try', nameOf(test), test.result().errors)),
      ...failed.flatMap((test) => told('failed', nameOf(test), test.result().errors)),
      ...broken.flatMap((suite) => told('failed', moduleOf(suite), suite.errors())),
      ...unhandled.flatMap((error) => told('failed', 'outside of any test', [error])),
    ]
    writeFileSync(file, `${lines.join('\n')}\n`)
  }
}

const nameOf = (test: TestCase): string => `${test.module.relativeModuleId}: ${test.fullName}`
const moduleOf = (suite: TestModule | TestSuite): string =>
  suite.type === 'module' ? suite.relativeModuleId : `${suite.module.relativeModuleId}: ${suite.fullName}`

/** Lines of an error that are told. */
const LINES = 12

function told(what: string, name: string, errors: readonly SerializedError[] | undefined): string[] {
  const said = (errors ?? []).flatMap(({ message, diff }) => [
    ...message.split('\n'),
    // What is the same on both sides says nothing.
    ...String(diff ?? '')
      .split('\n')
      .filter((line) => /^\s*[-+]/.test(stripVTControlCharacters(line))),
  ])
  return [
    `${what}: ${name}`,
    ...said.slice(0, LINES).map((line) => `  ${stripVTControlCharacters(line).slice(0, 200)}`),
  ]
}
