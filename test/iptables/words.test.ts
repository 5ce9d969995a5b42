import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MalformedWords, quoteWord, splitWords } from '../../src/kernel/iptables/words.js'

// The left column is what iptables-save 1.8.9 printed, both back ends alike, for the comment in the right column.
test.each([
  ['""', ''],
  ['"a b"', 'a b'],
  ['"a\\"b"', 'a"b'],
  ['"a\\\\b"', 'a\\b'],
  ['"a\\\'b"', "a'b"],
  ['"#x"', '#x'],
  ['"-j ACCEPT"', '-j ACCEPT'],
  ['-j', '-j'],
  ['--', '--'],
  ['"a\nb"', 'a\nb'],
  ['"a\tb"', 'a\tb'],
  ['"é"', 'é'],
  ['"yah-isolation-b\\" -j ACCEPT"', 'yah-isolation-b" -j ACCEPT'],
  ['"!"', '!'],
  ['"x "', 'x '],
  ['"\\\\"', '\\'],
  ['yah-isolation-b', 'yah-isolation-b'],
])('a comment printed as %s', (printed, comment) => {
  expect(splitWords(`-m comment --comment ${printed} -j ACCEPT`)).toEqual([
    '-m',
    'comment',
    '--comment',
    comment,
    '-j',
    'ACCEPT',
  ])
})

test('a quote inside a bare word is part of it: names are printed as they are', () => {
  expect(splitWords('-A a"b -i x"y -j "z z"')).toEqual(['-A', 'a"b', '-i', 'x"y', '-j', 'z z'])
})

test('a backslash outside quotes is part of the word', () => {
  expect(splitWords('-i a\\b -j X')).toEqual(['-i', 'a\\b', '-j', 'X'])
})

test('blanks between words do not count', () => {
  expect(splitWords('  -s\t1.2.3.4/32   -j X ')).toEqual(['-s', '1.2.3.4/32', '-j', 'X'])
  expect(splitWords('')).toEqual([])
})

test.each([
  ['--comment "a b', 10],
  ['--comment "a\\"', 10],
  ['--comment "', 10],
  // Printed for an interface called `"z`: nobody can tell where its name ends.
  ['-i "z -j a"b', 3],
  ['-j X\n-j Y', 4],
])('%j is an error at %i', (line, offset) => {
  expect(() => splitWords(line)).toThrow(expect.objectContaining({ name: 'MalformedWords', offset }))
  expect(() => splitWords(line)).toThrow(MalformedWords)
})

test('splitting undoes quoting, whatever the words are', () => {
  const word = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.constantFrom('"', '\\', "'", ' ', '\n', '#', '-', '!', 'a') }),
  )
  fc.assert(
    fc.property(fc.array(word), (words) => {
      expect(splitWords(words.map(quoteWord).join(' '))).toEqual(words)
    }),
    { numRuns: 2000 },
  )
})

test('what needs no quotes for iptables-restore gets none', () => {
  expect(['-s', '10.0.0.0/8', '!', '0x1/0x1', 'RELATED,ESTABLISHED', 'eth+'].map(quoteWord).join(' ')).toBe(
    '-s 10.0.0.0/8 ! 0x1/0x1 RELATED,ESTABLISHED eth+',
  )
})
