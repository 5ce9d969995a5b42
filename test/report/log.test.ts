/** Logs, and the line that shows that something takes long. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createLog } from '../../src/report/log.js'
import { withProgress } from '../../src/report/progress.js'
import { styleOf } from '../../src/report/style.js'

const screen = (isTTY: boolean) => {
  const written: string[] = []
  return { isTTY, written, write: (text: string) => void written.push(text) }
}

test.each([
  ['trace', 2],
  ['debug', 2],
  ['info', 1],
  ['warn', 0],
  ['silent', 0],
] as const)('at %s, of a debug and an info message %i are written', (level, number) => {
  const sink = screen(false)
  const log = createLog(level, sink, styleOf(sink, {}))
  log.debug({ a: 1 }, 'first')
  log.info({ b: 2 }, 'second')
  expect(sink.written.map((line) => JSON.parse(line).msg)).toEqual(['first', 'second'].slice(2 - number))
})

test('on a terminal a message is a readable line, with the trace of an error', () => {
  const sink = screen(true)
  const log = createLog('debug', sink, styleOf(sink, { NO_COLOR: '1' }))
  log.debug({ netns: 'own', steps: 3 }, 'looking')
  log.debug({ err: new Error('no') }, 'failed')
  expect(sink.written[0]).toBe('netsweep: looking netns="own" steps=3\n')
  expect(sink.written[1]).toMatch(/^netsweep: failed\nError: no\n {4}at .*log\.test/)
})

test('work that takes long shows a line on a terminal, which is gone when it is done', async () => {
  const sink = screen(true)
  expect(await withProgress(sink, 'sweeping', () => sleep(600, 'done'))).toBe('done')
  expect(sink.written[0]).toMatch(/^\rsweeping … 0\.\d s/)
  expect(sink.written.length).toBeGreaterThan(2)
  expect(sink.written.at(-1)).toBe('\r\x1b[K')
})

test('also when it fails; what is quick or piped shows nothing', async () => {
  const failing = screen(true)
  await expect(
    withProgress(failing, 'sweeping', () => sleep(500).then(() => Promise.reject(new Error('no')))),
  ).rejects.toThrow('no')
  expect(failing.written.at(-1)).toBe('\r\x1b[K')
  for (const [isTTY, time] of [
    [true, 10],
    [false, 600],
  ] as const) {
    const quiet = screen(isTTY)
    await withProgress(quiet, 'sweeping', () => sleep(time))
    expect(quiet.written).toEqual([])
  }
})
