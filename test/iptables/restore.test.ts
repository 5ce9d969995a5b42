import { expect, test } from 'vitest'
import { formatBatch, UnwritableCommand } from '../../src/kernel/iptables/restore.js'

test('a batch', () => {
  const commands = [
    ['-D', 'PREROUTING', '-s', '10.128.3.9/32', '-m', 'comment', '--comment', 'a "b"', '-j', 'yah-id-10.128.3.9'],
    ['-F', 'yah-id-10.128.3.9'],
    ['-X', 'yah-id-10.128.3.9'],
  ]
  expect(formatBatch('mangle', commands)).toBe(
    '*mangle\n' +
      '-D PREROUTING -s 10.128.3.9/32 -m comment --comment "a \\"b\\"" -j yah-id-10.128.3.9\n' +
      '-F yah-id-10.128.3.9\n' +
      '-X yah-id-10.128.3.9\n' +
      'COMMIT\n',
  )
})

test.each([
  ['a line break', ['-D', 'A', '--comment', 'x\n-F']],
  ['a null byte', ['-D', 'A', '--comment', 'x\0']],
  ['bytes that were no text', ['-D', 'A', '--comment', '\ufffd']],
  ['a word that is too long', ['-D', 'A', '--comment', 'é'.repeat(512)]],
  ['a line that is too long', ['-D', 'A', ...Array<string>(20).fill('x'.repeat(600))]],
  ['too many words', ['-D', 'A', ...Array<string>(247).fill('x')]],
  ['no command', [':A']],
  ['nothing', []],
])('refuses %s', (_, command) => {
  expect(() => formatBatch('mangle', [command])).toThrow(UnwritableCommand)
})

test('refuses a table that is none', () => {
  expect(() => formatBatch('mangle\n-F', [])).toThrow(UnwritableCommand)
})
