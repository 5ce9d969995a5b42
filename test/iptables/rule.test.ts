import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseRule, ruleKey } from '../../src/kernel/iptables/rule.js'
import { splitWords } from '../../src/kernel/iptables/words.js'

const key = (line: string) => ruleKey(splitWords(line))

describe('parseRule', () => {
  test('a rule with everything that this project writes', () => {
    const line =
      '-d 10.128.3.0/24 -i yah0-91auqknbeu ! -o yah0-91auqknbeu -m conntrack ! --ctstate RELATED,ESTABLISHED -m mark ! --mark 0x2000000/0x2000000 -m comment --comment yah-isolation-b -j DROP'
    expect(parseRule(splitWords(line))).toEqual({
      clauses: [
        { module: '', negated: false, option: '-d', values: ['10.128.3.0/24'] },
        { module: '', negated: false, option: '-i', values: ['yah0-91auqknbeu'] },
        { module: '', negated: true, option: '-o', values: ['yah0-91auqknbeu'] },
        { module: 'conntrack', negated: true, option: '--ctstate', values: ['RELATED,ESTABLISHED'] },
        { module: 'mark', negated: true, option: '--mark', values: ['0x2000000/0x2000000'] },
      ],
      target: 'DROP',
      goto: false,
      targetOptions: [],
      comments: ['yah-isolation-b'],
    })
  })

  test('options of the target, flags, a module without options, a goto', () => {
    expect(parseRule(splitWords('-p tcp -m tcp -m rpfilter --loose --invert -j MARK --set-xmark 0x1/0x1'))).toEqual({
      clauses: [
        { module: '', negated: false, option: '-p', values: ['tcp'] },
        { module: 'tcp', negated: false, option: '', values: [] },
        { module: 'rpfilter', negated: false, option: '--loose', values: [] },
        { module: 'rpfilter', negated: false, option: '--invert', values: [] },
      ],
      target: 'MARK',
      goto: false,
      targetOptions: [{ module: '->MARK', negated: false, option: '--set-xmark', values: ['0x1/0x1'] }],
      comments: [],
    })
    expect(parseRule(['-g', 'yah-id-10.128.3.9'])).toMatchObject({
      target: 'yah-id-10.128.3.9',
      goto: true,
      clauses: [],
    })
    expect(parseRule([])).toEqual({ clauses: [], target: null, goto: false, targetOptions: [], comments: [] })
  })

  test('a comment or a text that looks like a jump is none', () => {
    expect(parseRule(['-m', 'comment', '--comment', '-j', '-j', 'ACCEPT'])).toMatchObject({
      target: 'ACCEPT',
      comments: ['-j'],
    })
    expect(parseRule(['-m', 'string', '--string', '-j', '--algo', 'bm', '-j', 'DROP'])).toMatchObject({
      target: 'DROP',
    })
    expect(parseRule(['-j', 'LOG', '--log-prefix', '-j'])).toMatchObject({ target: 'LOG', comments: [] })
  })

  test('modules that are not known keep all their words', () => {
    const line = '-m u32 --u32 "0x0&0xffff=0x100" -m recent ! --set --name a b --mask 255.255.255.255 --rsource -j c1'
    expect(parseRule(splitWords(line))).toMatchObject({
      clauses: [
        { module: 'u32', negated: false, option: '--u32', values: ['0x0&0xffff=0x100'] },
        { module: 'recent', negated: true, option: '--set', values: [] },
        { module: 'recent', negated: false, option: '--name', values: ['a', 'b'] },
        { module: 'recent', negated: false, option: '--mask', values: ['255.255.255.255'] },
        { module: 'recent', negated: false, option: '--rsource', values: [] },
      ],
      target: 'c1',
    })
  })
})

describe('ruleKey', () => {
  // Left as deploy writes it, right as iptables-save 1.8.9 prints it, nft and legacy alike.
  test.each([
    [
      '-i B -m conntrack --ctstate ESTABLISHED,RELATED -m comment --comment T -j MARK --set-xmark 0x1000000/0x1000000',
      '-i B -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment T -j MARK --set-xmark 0x1000000/0x1000000',
    ],
    ['-i B -s 10.128.3.9 -d 10.128.3.0/24 -j X', '-s 10.128.3.9/32 -d 10.128.3.0/24 -i B -j X'],
    ['-s 10.128.3.7/24 ! -d 10.0.0.0/255.0.255.0 -p 1 -j X', '-s 10.128.3.0/24 ! -d 10.0.0.0/255.0.255.0 -p icmp -j X'],
    ['-i B ! -p icmp -m comment --comment T -j DROP', '! -p icmp -i B -m comment --comment T -j DROP'],
    ['-j MARK --set-xmark 6249/0xffff', '-j MARK --set-xmark 0x1869/0xffff'],
    ['-m mark --mark 010 -j X', '-m mark --mark 0x8 -j X'],
    ['-m mark --mark 5/0xffffffff -j X', '-m mark --mark 0x5 -j X'],
    ['-m conntrack --ctdir REPLY --ctstate INVALID -j X', '-m conntrack --ctstate INVALID --ctdir REPLY -j X'],
    ['-m conntrack --ctstate NEW,ESTABLISHED,NEW -j X', '-m conntrack --ctstate NEW,ESTABLISHED -j X'],
    ['--source 1.2.3.4 --in-interface B --jump X', '-s 1.2.3.4/32 -i B -j X'],
    ['-m comment --comment T -i B -j X', '-i B -m comment --comment T -j X'],
  ])('%s', (written, printed) => {
    expect(key(written)).toBe(key(printed))
  })

  test.each([
    ['a negation', '-i B -j X', '! -i B -j X'],
    [
      'a negation elsewhere',
      '-m mark ! --mark 1 -m conntrack --ctstate NEW -j X',
      '-m mark --mark 1 -m conntrack ! --ctstate NEW -j X',
    ],
    ['in and out', '-i B -j X', '-o B -j X'],
    ['source and destination', '-s 1.2.3.4 -j X', '-d 1.2.3.4 -j X'],
    ['a prefix', '-s 10.128.3.0/24 -j X', '-s 10.128.3.0/25 -j X'],
    ['a name that begins so', '-i yah -j X', '-i yah+ -j X'],
    ['a jump and a goto', '-j X', '-g X'],
    ['a jump and none', '-i B -j X', '-i B'],
    ['the target', '-i B -j ACCEPT', '-i B -j DROP'],
    ['another comment', '-m comment --comment a -j X', '-m comment --comment b -j X'],
    ['one comment more', '-m comment --comment a -j X', '-m comment --comment a -m comment --comment a -j X'],
    ['a comment and none', '-m comment --comment "" -j X', '-j X'],
    ['a comment in two modules', '-m mark --mark 1 -j X', '-m connmark --mark 1 -j X'],
    ['a mask', '-m mark --mark 1 -j X', '-m mark --mark 1/1 -j X'],
    ['the mask of a target', '-j MARK --set-xmark 1', '-j MARK --set-xmark 1/1'],
    ['the kind of mark', '-j MARK --set-xmark 1/1', '-j CONNMARK --set-xmark 1/1'],
    ['a state', '-m conntrack --ctstate NEW -j X', '-m conntrack --ctstate NEW,RELATED -j X'],
    ['a flag', '-m rpfilter --invert -j X', '-m rpfilter --invert --loose -j X'],
    [
      'flags of two modules',
      '-m rpfilter --invert -m rpfilter --loose -j X',
      '-m rpfilter --invert --loose -m rpfilter -j X',
    ],
    ['an option of a module that is not known', '-i B -j X', '-i B -m foo -j X'],
    ['a value of it', '-m foo --bar 1 -j X', '-m foo --bar 2 -j X'],
    ['an option that is not known', '-i B -j X', '-i B --dport 80 -j X'],
    ['an option of a target that is not known', '-j DROP', '-j DROP --fast'],
    ['counters', '-i B -j X', '-i B -c 1 2 -j X'],
    ['a state that is not known', '-m conntrack --ctstate NEW -j X', '-m conntrack --ctstate NEW,OTHER -j X'],
    ['a negation of what cannot be', '-m comment --comment a -j X', '-m comment ! --comment a -j X'],
    ['a lonely negation', '-i B -j X', '-i B -j X !'],
    ['a stray word', '-i B -j X', '-i B C -j X'],
    ['a value that is missing', '-j X', '-j X -i'],
    ['a comment that reads like the rest', '-m comment --comment "a -j X" -j Y', '-m comment --comment a -j X -j Y'],
    ['an old negation', '! -s 1.2.3.4 -j X', '-s ! 1.2.3.4 -j X'],
    ['a list', '-s 1.2.3.4 -j X', '-s 1.2.3.4,1.2.3.5 -j X'],
    ['a host', '-s 1.2.3.4 -j X', '-s localhost -j X'],
    ['a number that is too large', '-j MARK --set-xmark 0x1', '-j MARK --set-xmark 0x100000001'],
  ])('tells apart: %s', (_, one, other) => {
    expect(key(one)).not.toBe(key(other))
  })

  test('a rule that is not understood is itself alone, in that order', () => {
    expect(key('-m foo --a 1 --b 2 -j X')).toBe(key('-m foo --a 1 --b 2 -j X'))
    expect(key('-m foo --a 1 --b 2 -j X')).not.toBe(key('-m foo --b 2 --a 1 -j X'))
    expect(key('-i B -m comment ! --comment a -j X')).not.toBe(key('-m comment ! --comment a -i B -j X'))
  })

  const own = fc.uniqueArray(
    fc.constantFrom(
      ['-s', '10.0.0.7/32'],
      ['!', '-d', '10.0.0.0/8'],
      ['-i', 'eth+'],
      ['!', '-o', 'B'],
      ['!', '-p', 'icmp'],
    ),
    { selector: (words) => words.at(-2) },
  )
  const modules = fc.array(
    fc.constantFrom(
      ['-m', 'mark', '!', '--mark', '0x1/0x1'],
      ['-m', 'connmark', '--mark', '0x1'],
      ['-m', 'conntrack', '!', '--ctstate', 'NEW'],
      ['-m', 'comment', '--comment', '-j'],
      ['-m', 'comment', '--comment', '!'],
      ['-m', 'rpfilter', '--invert'],
    ),
    { maxLength: 4 },
  )

  test('order does not count; what is dropped or doubled does', () => {
    fc.assert(
      fc.property(own, modules, fc.infiniteStream(fc.nat()), fc.nat(), (options, matches, dice, pick) => {
        const parts = [...options, ...matches, ['-j', 'X']]
        const shuffled = parts
          .map((part) => ({ part, at: dice.next().value ?? 0 }))
          .sort((a, b) => a.at - b.at)
          .map(({ part }) => part)
        expect(ruleKey(shuffled.flat())).toBe(ruleKey(parts.flat()))
        const at = pick % parts.length
        expect(ruleKey(parts.toSpliced(at, 1).flat())).not.toBe(ruleKey(parts.flat()))
        expect(ruleKey(parts.toSpliced(at, 0, parts[at] ?? []).flat())).not.toBe(ruleKey(parts.flat()))
      }),
      { numRuns: 500 },
    )
  })
})
