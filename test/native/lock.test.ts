import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { native } from '../../src/kernel/native.js'
import { loadAddon } from './support.js'

let folder: string
let file: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'lock-'))
  file = join(folder, 'lock')
})
afterEach(() => rmSync(folder, { recursive: true }))

test('one descriptor holds it, another does not get it, closing lets it go', () => {
  const [one, other] = [openSync(file, 'w'), openSync(file, 'w')]
  expect(native().tryLock(one)).toBe(true)
  expect(native().tryLock(one)).toBe(true)
  expect(native().tryLock(other)).toBe(false)
  closeSync(one)
  expect(native().tryLock(other)).toBe(true)
  closeSync(other)
})

test.each(['SIGTERM', 'SIGKILL'] as const)(
  'another process holds it, and it dies with that one (%s)',
  async (signal) => {
    const holder = spawn(process.execPath, [
      '-e',
      `${loadAddon}
     console.log(native.tryLock(require('fs').openSync(${JSON.stringify(file)}, 'w')))
     setInterval(() => {}, 1000)`,
    ])
    const [said] = await once(holder.stdout, 'data')
    expect(String(said)).toBe('true\n')

    const mine = openSync(file, 'w')
    expect(native().tryLock(mine)).toBe(false)
    holder.kill(signal)
    await once(holder, 'exit')
    expect(native().tryLock(mine)).toBe(true)
    closeSync(mine)
  },
)

test('flock(1) of util-linux respects it', async () => {
  const mine = openSync(file, 'w')
  expect(native().tryLock(mine)).toBe(true)
  const [status] = await once(spawn('flock', ['--nonblock', file, 'true']), 'exit')
  expect(status).toBe(1)
  closeSync(mine)
})

test('a descriptor that is not open is an error, not a held lock', () => {
  const EBADF = 9
  expect(() => native().tryLock(1_000_000)).toThrow(expect.objectContaining({ errno: EBADF, syscall: 'flock' }))
})
