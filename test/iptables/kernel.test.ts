/** What the tools and the kernel really do, both back ends; each test in a network namespace of its own. */
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { formatBatch } from '../../src/kernel/iptables/restore.js'
import { parseRule, ruleKey } from '../../src/kernel/iptables/rule.js'
import type { SavedRule } from '../../src/kernel/iptables/save.js'
import { applyBatch, type Backend, IptablesError, readIptables } from '../../src/kernel/iptables/tools.js'
import { splitWords } from '../../src/kernel/iptables/words.js'
import { Namespace } from './namespace.js'

let net: Namespace

beforeEach(async () => {
  net = await Namespace.create()
})

afterEach(async () => {
  await net[Symbol.asyncDispose]()
})

const BACKENDS: readonly Backend[] = ['nft', 'legacy']
const iptables = (backend: Backend, line: string) => net.must(`iptables-${backend}`, splitWords(line))

async function rules(backend: Backend, table: string, chain: string): Promise<readonly SavedRule[]> {
  const saves = await readIptables(net, backend)
  return saves.get(backend)?.tables.get(table)?.chains.get(chain)?.rules ?? []
}

const comments = async (backend: Backend) =>
  (await rules(backend, 'mangle', 'PREROUTING')).flatMap(({ words }) => parseRule(words).comments)
const apply = (backend: Backend, table: string, ...lines: string[]) =>
  applyBatch(net, backend, formatBatch(table, lines.map(splitWords)))

describe.each(BACKENDS)('%s', (backend) => {
  test('comments come back as they were given, from restore to save', async () => {
    const unit = fc.oneof(
      {
        weight: 3,
        arbitrary: fc.constantFrom('"', '\\', "'", ' ', '\t', '#', '-', '!', 'A', 'j', 'COMMIT', '\r', 'é', '*', ':'),
      },
      { weight: 1, arbitrary: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }) },
    )
    const comment = fc
      .array(unit, { maxLength: 40 })
      .map((parts) => parts.join(''))
      .filter((text) => !/[\n\0\ufffd]/.test(text) && Buffer.byteLength(text) < 256)
    await iptables(backend, '-t mangle -N c1')
    await fc.assert(
      fc.asyncProperty(fc.array(comment, { minLength: 100, maxLength: 200 }), async (texts) => {
        const commands = texts.map((text) => ['-A', 'PREROUTING', '-m', 'comment', '--comment', text, '-j', 'ACCEPT'])
        const batch = formatBatch('mangle', [['-F', 'PREROUTING'], ...commands])
        expect(await applyBatch(net, backend, batch)).toEqual({ ok: true })
        expect(await comments(backend)).toEqual(texts)
        // Every second one is deleted with the words that were printed: exactly these go.
        const gone = (await rules(backend, 'mangle', 'PREROUTING')).filter((_, index) => index % 2 === 0)
        const deletion = gone.map(({ chain, words }) => ['-D', chain, ...words])
        expect(await applyBatch(net, backend, formatBatch('mangle', deletion))).toEqual({ ok: true })
        const left = [...texts]
        for (const text of texts.filter((_, index) => index % 2 === 0)) left.splice(left.indexOf(text), 1)
        expect(await comments(backend)).toEqual(left)
      }),
      { numRuns: 4 },
    )
  })

  test('line breaks and bytes that are no text in comments', async () => {
    for (const text of ['a\nb', 'x"\n-A PREROUTING -j DROP\nCOMMIT\n# "', '\n', '"'])
      await net.must(`iptables-${backend}`, [
        '-t',
        'mangle',
        '-A',
        'PREROUTING',
        '-m',
        'comment',
        '--comment',
        text,
        '-j',
        'ACCEPT',
      ])
    await net.must('sh', [
      '-c',
      `iptables-${backend} -t mangle -A PREROUTING -m comment --comment "$(printf 'a\\377b')" -j ACCEPT`,
    ])
    expect(await comments(backend)).toEqual(['a\nb', 'x"\n-A PREROUTING -j DROP\nCOMMIT\n# "', '\n', '"', 'a\ufffdb'])
  })

  test('names with quotes and backslashes', async () => {
    await net.must(`iptables-${backend}`, ['-t', 'mangle', '-N', 'a"b'])
    await net.must(`iptables-${backend}`, ['-t', 'mangle', '-A', 'PREROUTING', '-i', 'x"\\y', '-j', 'a"b'])
    const [rule] = await rules(backend, 'mangle', 'PREROUTING')
    expect(rule?.words).toEqual(['-i', 'x"\\y', '-j', 'a"b'])
    const batch = formatBatch('mangle', [
      ['-D', 'PREROUTING', ...(rule?.words ?? [])],
      ['-X', 'a"b'],
    ])
    expect(await applyBatch(net, backend, batch)).toEqual({ ok: true })
    expect((await readIptables(net, backend)).get(backend)?.tables.get('mangle')?.chains.has('a"b')).toBe(false)
  })

  const tagged = '-m comment --comment yah-isolation-b'
  test.each([
    ['raw', 'PREROUTING', `-i yah0-91auqknbeu -m rpfilter --invert ${tagged} -j DROP`],
    [
      'mangle',
      'PREROUTING',
      `-i yah0-91auqknbeu -m conntrack --ctstate ESTABLISHED,RELATED ${tagged} -j MARK --set-xmark 0x1000000/0x1000000`,
    ],
    ['mangle', 'PREROUTING', `-s 100.64.0.0/10 -d 10.128.3.0/24 ${tagged} -j MARK --set-xmark 0x1000000/0x1000000`],
    [
      'filter',
      'FORWARD',
      `-i yah0-91auqknbeu -d 10.128.3.0/24 ! -o yah0-91auqknbeu -m mark ! --mark 0x2000000/0x2000000 ${tagged} -j DROP`,
    ],
    [
      'filter',
      'FORWARD',
      `-o yah0-91auqknbeu -s 10.128.3.0/24 ! -i yah0-91auqknbeu -m mark ! --mark 0x2000000/0x2000000 ${tagged} -j DROP`,
    ],
    ['filter', 'FORWARD', `-i yah0 -o yah0-91auqknbeu -m mark ! --mark 0x2000000/0x2000000 ${tagged} -j DROP`],
    [
      'filter',
      'FORWARD',
      `-i yah0-91auqknbeu -d 100.64.0.0/10 -m conntrack ! --ctstate ESTABLISHED,RELATED -m mark ! --mark 0x2000000/0x2000000 ${tagged} -j DROP`,
    ],
    ['filter', 'INPUT', `-i yah0-91auqknbeu ! -p icmp -m conntrack ! --ctstate ESTABLISHED,RELATED ${tagged} -j DROP`],
    ['filter', 'FORWARD', '-o yah0-91auqknbeu -j ACCEPT'],
    ['mangle', 'PREROUTING', '-s 10.128.3.9 -j yah-id-10.128.3.9'],
    [
      'mangle',
      'yah-id-10.128.3.9',
      '-i yah0-91auqknbeu -s 10.128.3.9 -d 10.128.3.0/24 -j MARK --set-xmark 0x1869/0xffff',
    ],
    [
      'mangle',
      'yah-gr-10.128.3.9',
      '-i yah0 -d 10.128.3.9 -m mark --mark 6249/0xffff -j CONNMARK --set-xmark 0x2000000/0x2000000',
    ],
    [
      'mangle',
      'yah-gr-10.128.3.9',
      '-i yah0 -s 10.128.3.9 -m conntrack --ctdir REPLY -m connmark --mark 0x2000000/0x2000000 -j MARK --set-xmark 0x2000000/0x2000000',
    ],
  ])('%s %s %s: written and printed have one key, and what is printed deletes it', async (table, chain, line) => {
    for (const name of ['yah-id-10.128.3.9', 'yah-gr-10.128.3.9']) await iptables(backend, `-t mangle -N ${name}`)
    // Neighbours that differ in little, which must stay.
    const others = ['yah0-91auqknbev', 'yah0-91auqknb+'].map((link) =>
      line
        .replace('yah0-91auqknbeu', link)
        .replace('10.128.3.9', '10.128.3.8')
        .replace('-s 100.64.0.0/10', '-s 100.64.0.0/11'),
    )
    for (const each of [...others, line, line]) await iptables(backend, `-t ${table} -A ${chain} ${each}`)
    const before = await rules(backend, table, chain)
    expect(before.map(({ words }) => ruleKey(words))).toEqual(
      [...others, line, line].map((each) => ruleKey(splitWords(each))),
    )
    const words = before.at(-1)?.words ?? []
    for (const copies of [1, 0]) {
      expect(await applyBatch(net, backend, formatBatch(table, [['-D', chain, ...words]]))).toEqual({ ok: true })
      const left = await rules(backend, table, chain)
      expect(left.map((rule) => rule.words)).toEqual([before[0]?.words, before[1]?.words, ...Array(copies).fill(words)])
    }
    expect(await applyBatch(net, backend, formatBatch(table, [['-D', chain, ...words]]))).toMatchObject({
      ok: false,
      line: 2,
    })
  })

  describe('batches that fail change nothing, and say why', () => {
    const LEGACY = { status: 1, kind: 'other' }
    const expected = (line: number | null, nft: object, legacy: object = LEGACY) => ({
      ok: false,
      line,
      ...(backend === 'nft' ? nft : legacy),
    })

    beforeEach(async () => {
      for (const line of ['-N c1', '-N c2', '-A PREROUTING -s 10.1.1.1 -j c1', '-A INPUT -j c1', '-A c1 -j RETURN'])
        await iptables(backend, `-t mangle ${line}`)
    })

    test.each([
      [
        ['-D PREROUTING -s 10.1.1.1 -j c1', '-D PREROUTING -s 9.9.9.9 -j ACCEPT'],
        expected(3, { status: 1, kind: 'stale' }),
      ],
      [['-D PREROUTING -s 10.1.1.1 -j c1', '-D nochain -j ACCEPT'], expected(3, { status: 1, kind: 'stale' })],
      [['-D PREROUTING -s 10.1.1.1 -j c1', '-X nochain'], expected(3, { status: 1, kind: 'stale' })],
      [['-D PREROUTING -s 10.1.1.1 -j c1', '-F nochain'], expected(3, { status: 1, kind: 'stale' })],
      [
        ['-D PREROUTING -s 10.1.1.1 -j c1', '-D PREROUTING -j nochain', '-F c2'],
        backend === 'nft'
          ? expected(null, { status: 2, kind: 'stale' })
          : expected(3, {}, { status: 2, kind: 'stale' }),
      ],
      // Held by a jump from elsewhere in the table.
      [['-D PREROUTING -s 10.1.1.1 -j c1', '-F c1', '-X c1'], expected(4, { status: 4, kind: 'busy' })],
      // Not held, but not empty.
      [['-D PREROUTING -s 10.1.1.1 -j c1', '-D INPUT -j c1', '-X c1'], expected(4, { status: 4, kind: 'busy' })],
      [
        ['-D PREROUTING -s 10.1.1.1 -j c1', '-D PREROUTING --bogus -j c1'],
        expected(3, { status: 2, kind: 'other' }, { status: 2, kind: 'other' }),
      ],
    ])('%j', async (lines, wanted) => {
      const before = await net.must(`iptables-${backend}-save`, ['-t', 'mangle'])
      const result = await apply(backend, 'mangle', ...lines)
      expect(result).toMatchObject(wanted)
      if (!result.ok) expect(result.message).toMatch(/\S/)
      const printed = (text: string) => text.split('\n').filter((line) => /^[-:]/.test(line))
      expect(printed(await net.must(`iptables-${backend}-save`, ['-t', 'mangle']))).toEqual(printed(before))
    })

    test('emptied and let go by everybody, a chain goes', async () => {
      expect(
        await apply(backend, 'mangle', '-D PREROUTING -s 10.1.1.1 -j c1', '-D INPUT -j c1', '-F c1', '-X c1'),
      ).toEqual({ ok: true })
      expect([
        ...((await readIptables(net, backend)).get(backend)?.tables.get('mangle')?.chains.keys() ?? []),
      ]).not.toContain('c1')
    })
  })

  test('without privileges', async () => {
    await iptables(backend, '-t mangle -N c1')
    const unprivileged: typeof net.run = (command, args, options) =>
      net.run(
        'setpriv',
        ['--bounding-set=-net_admin,-net_raw', '--inh-caps=-net_admin,-net_raw', command, ...args],
        options,
      )
    const host = {
      namespace: net.namespace,
      exchange: net.exchange,
      readFile: net.readFile.bind(net),
      close: net.close,
      run: unprivileged,
    }
    await expect(readIptables(host, backend)).rejects.toMatchObject({ name: 'IptablesError', code: 'DENIED', backend })
    // Legacy's restore says no more than that it cannot begin.
    const kind = backend === 'nft' ? 'denied' : 'other'
    expect(await applyBatch(host, backend, formatBatch('mangle', [['-X', 'c1']]))).toMatchObject({ ok: false, kind })
  })
})

test('the lock of legacy is waited for, and then named; nft needs none', async () => {
  for (const backend of BACKENDS) await iptables(backend, '-t mangle -N c1')
  const held = net.run('flock', [net.lockFile, 'sh', '-c', 'sleep 3'])
  await expect.poll(async () => (await net.run('flock', ['--nonblock', net.lockFile, 'true'])).status).toBe(1)
  const batch = formatBatch('mangle', [['-X', 'c1']])
  expect(await applyBatch(net, 'nft', batch, { waitSeconds: 1 })).toEqual({ ok: true })
  expect(await applyBatch(net, 'legacy', batch, { waitSeconds: 1 })).toMatchObject({
    ok: false,
    kind: 'locked',
    status: 4,
  })
  expect(await applyBatch(net, 'legacy', batch, { waitSeconds: 9 })).toEqual({ ok: true })
  await held
})

describe('what is there to be read', () => {
  const names = () => net.readFile('/proc/thread-self/net/ip_tables_names')

  test('reading makes no table, in either back end', async () => {
    for (const choice of ['auto', 'nft', 'legacy'] as const) await readIptables(net, choice)
    expect(await names()).toBe('')
    expect(await net.must('nft', ['list', 'tables'])).toBe('')
  })

  test('asking legacy for a table makes it, which is why it is not asked', async () => {
    await net.must('iptables-legacy-save', ['-t', 'raw'])
    expect(await names()).toBe('raw\n')
  })

  test('both back ends are read where both hold tables, and the warning on legacy is no failure', async () => {
    await iptables('nft', '-t mangle -A PREROUTING -s 1.1.1.1 -j ACCEPT')
    await iptables('legacy', '-t mangle -A PREROUTING -s 2.2.2.2 -j ACCEPT')
    const saves = await readIptables(net, 'auto')
    const sources = [...saves].map(([backend, { tables }]) => [
      backend,
      tables
        .get('mangle')
        ?.chains.get('PREROUTING')
        ?.rules.map(({ words }) => words[1]),
    ])
    expect(sources).toEqual([
      ['nft', ['1.1.1.1/32']],
      ['legacy', ['2.2.2.2/32']],
    ])
    expect([...(await readIptables(net, 'nft')).keys()]).toEqual(['nft'])
  })

  test('legacy tables that are of no concern are not asked for', async () => {
    await iptables('legacy', '-t nat -A PREROUTING -j ACCEPT')
    expect([...(await readIptables(net, 'auto')).keys()]).toEqual(['nft'])
    expect(await names()).toBe('nat\n')
  })

  const nft = (line: string) => net.must('nft', [line])

  test('native rules in nat that iptables cannot print do not hide the rest', async () => {
    await iptables('nft', '-t mangle -A PREROUTING -s 1.1.1.1 -j ACCEPT')
    await nft('add table ip nat')
    await nft('add chain ip nat POSTROUTING { type nat hook postrouting priority 100; }')
    await nft('add rule ip nat POSTROUTING meta mark set meta mark and 0xffff xor 0x10')
    expect((await net.run('iptables-nft-save', [])).status).toBe(3)
    expect(await rules('nft', 'mangle', 'PREROUTING')).toHaveLength(1)
  })

  test('the same in mangle is a failed read that names the table', async () => {
    await iptables('nft', '-t mangle -A PREROUTING -s 1.1.1.1 -j ACCEPT')
    await nft('add rule ip mangle PREROUTING meta mark set meta mark and 0xffff xor 0x10')
    const read = readIptables(net, 'nft')
    await expect(read).rejects.toThrow(IptablesError)
    await expect(read).rejects.toMatchObject({ code: 'FAILED', table: 'mangle', tool: 'iptables-nft-save -t mangle' })
  })

  test('an incompatible table of the three is a failed read, one of the others is not', async () => {
    const incompatible = async (table: string) => {
      await iptables('nft', `-t ${table} -A OUTPUT -j ACCEPT`)
      await nft(`add rule ip ${table} OUTPUT ct mark set 4`)
    }
    await incompatible('nat')
    expect((await readIptables(net, 'nft')).get('nft')?.tables.size).toBe(0)
    await incompatible('raw')
    await expect(readIptables(net, 'nft')).rejects.toMatchObject({ code: 'INCOMPATIBLE', table: 'raw' })
  })

  test('base chains of somebody else in a table do not hide its own', async () => {
    await iptables('nft', '-t mangle -A PREROUTING -s 1.1.1.1 -j ACCEPT')
    await nft('add chain ip mangle mine { type filter hook prerouting priority -140; }')
    expect(await net.must('iptables-nft-save', [])).toContain('contains incompatible base-chains')
    expect(await rules('nft', 'mangle', 'PREROUTING')).toHaveLength(1)
  })
})
