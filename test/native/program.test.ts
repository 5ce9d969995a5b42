/**
 * Programs that are run on a thread of their own: what they get, what they leave, and how they end. Of a host's `run` the rest
 * is in host.test.ts.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type NativeEnd, type NativeProgram, type NativeProgramRun, native } from '../../src/kernel/native.js'
import { ip, loadAddon, openDescriptors, threads } from './support.js'

const ENOENT = 2
const EBADF = 9
const EACCES = 13
const EMFILE = 24
const SIGKILL = 9

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'program-'))
  ip('netns', 'add', 'program-test')
})
afterAll(() => {
  rmSync(folder, { recursive: true })
  ip('netns', 'del', 'program-test')
})

const COMMON = {
  env: ['PATH=/usr/sbin:/usr/bin:/sbin:/bin'],
  input: null,
  netnsFd: -1,
  descriptors: [],
  timeoutMs: 60_000,
  inParts: false,
}

function start(path: string, args: readonly string[], options: Partial<NativeProgram> = {}) {
  return native().startProgram({ ...COMMON, path, args, ...options })
}
const shell = (script: string, options?: Partial<NativeProgram>) => start('/bin/sh', ['-c', script], options)
const out = ({ stdout }: NativeEnd) => stdout.toString()

/** Whether a process runs whose command line has this word. */
const runs = (word: string) => spawnSync('pgrep', ['-f', `sleep ${word}$`]).status === 0

test('it gets these words and this environment, and nothing else', async () => {
  const ended = await start('/usr/bin/env', ['printf', '%s|', 'a b', '', '$x', '"'], {
    env: ['A=1', 'B=x=y z', 'PATH=/usr/bin'],
  }).ended
  expect(out(ended)).toBe('a b||$x|"|')
  expect(out(await start('/usr/bin/env', [], { env: ['A=1', 'B=x=y z'] }).ended)).toBe('A=1\nB=x=y z\n')
})

test('more than the pipes hold, in and out at the same time', async () => {
  const input = Buffer.alloc(3 * 1024 * 1024, 'netsweep\n')
  const ended = await shell('tee /dev/stderr', { input }).ended
  expect(ended.stdout.equals(input)).toBe(true)
  expect(ended.stderr.equals(input)).toBe(true)
})

test('descriptors get their numbers, whatever they are here, and no other is passed on', async () => {
  const files = ['one', 'two', 'three'].map((name) => {
    writeFileSync(join(folder, name), name)
    return openSync(join(folder, name), 'r')
  })
  // In another order than theirs, so that each number is another's before.
  const [a = -1, b = -1, c = -1] = files
  const { stdout } = await shell('cat <&3; echo; cat <&4; echo; cat <&5', { descriptors: [c, a, b] }).ended
  expect(stdout.toString()).toBe('three\none\ntwo')
  // What this process got without the flag that closes it goes on to Node's own children too.
  const { stdout: usual } = spawnSync('ls', ['/proc/self/fd'], {
    encoding: 'utf8',
    stdio: [null, 'pipe', null, a, b, c],
  })
  expect(out(await start('/bin/ls', ['/proc/self/fd'], { descriptors: [c, a, b] }).ended)).toBe(usual)
  for (const fd of files) closeSync(fd)
})

test('a descriptor that is not open is refused, before anything runs', async () => {
  const { ended } = shell(`touch ${folder}/ran`, { descriptors: [100_000] })
  await expect(ended).rejects.toMatchObject({ errno: EBADF, syscall: 'fcntl F_DUPFD_CLOEXEC' })
  expect(spawnSync('ls', [folder], { encoding: 'utf8' }).stdout).not.toContain('ran')
})

test('signals are as in a shell, though this process ignores and blocks some', async () => {
  const said = out(await start('/bin/grep', ['-E', '^Sig(Blk|Ign)', '/proc/self/status']).ended)
  const [blocked, ignored] = [...said.matchAll(/\t(.*)/g)].map(([, mask]) => BigInt(`0x${mask}`))
  // 32 and 33 are the C library's own.
  expect({ blocked, ignored: (ignored ?? 0n) & 0x7fffffffn }).toEqual({ blocked: 0n, ignored: 0n })
})

test('it has a session of its own', async () => {
  const [pid, , , , , sid] = out(await start('/bin/cat', ['/proc/self/stat']).ended).split(' ')
  expect(sid).toBe(pid)
})

test('it runs in the namespace, and this process stays in its own', async () => {
  const own = execFileSync('readlink', ['/proc/self/ns/net'], { encoding: 'utf8' })
  const netnsFd = await native().openNamespace('program-test')
  try {
    const there = execFileSync('ip', ['netns', 'exec', 'program-test', 'readlink', '/proc/self/ns/net'])
    const { ended } = start('/usr/bin/readlink', ['/proc/self/ns/net'], { netnsFd })
    expect((await ended).stdout.toString()).toBe(there.toString())
    expect(out(await start('/usr/bin/readlink', ['/proc/self/ns/net']).ended)).toBe(own)
  } finally {
    native().closeNamespace(netnsFd)
  }
})

test('what is no namespace is not entered, and nothing is run', async () => {
  const fd = openSync('/dev/null', 'r')
  await expect(shell(`touch ${folder}/ran`, { netnsFd: fd }).ended).rejects.toMatchObject({ syscall: 'setns' })
  closeSync(fd)
  expect(spawnSync('ls', [folder], { encoding: 'utf8' }).stdout).not.toContain('ran')
})

test('why it could not be started', async () => {
  writeFileSync(join(folder, 'text'), 'no program', { mode: 0o644 })
  expect(await start(join(folder, 'absent'), []).ended).toMatchObject({ errno: ENOENT })
  expect(await start(join(folder, 'text'), []).ended).toMatchObject({ errno: EACCES })
})

test('a script that does not say what runs it is run by the shell', async () => {
  writeFileSync(join(folder, 'script'), 'echo "$0 $*"\n', { mode: 0o755 })
  const path = join(folder, 'script')
  expect(out(await start(path, ['a', 'b c']).ended)).toBe(`${path} a b c\n`)
})

test.each(['path', 'args', 'env'])('a NUL in %s is refused: it would be cut there', async (where) => {
  const wrong = where === 'path' ? '/bin/true\0' : ['a\0b']
  await expect(start('/bin/echo', [], { [where]: wrong }).ended).rejects.toThrow('with a NUL')
})

test('without any descriptor left, it says so, and the next one runs', () => {
  const program = { ...COMMON, path: '/bin/true', args: [], env: [] }
  const script = `${loadAddon}(async () => {
    const { openSync, closeSync } = require('fs')
    const run = () => native.startProgram(${JSON.stringify(program)}).ended
    for (let free = 0; free < 12; free++) {
      const held = []
      try { for (;;) held.push(openSync('/dev/null')) } catch {}
      for (const fd of held.splice(0, free)) closeSync(fd)
      const said = await run().then(({ errno, status }) => errno || status, (error) => error.errno)
      for (const fd of held) closeSync(fd)
      if (said !== ${EMFILE} && (said !== 0 || free < 7)) throw new Error(free + ' left: ' + said)
      if ((await run()).status !== 0) throw new Error('not run after ' + free)
    }
    console.log(require('fs').readdirSync('/proc/self/fd').length < 60)
  })()`
  const ran = spawnSync('sh', ['-c', 'ulimit -n 64; exec "$0" -e "$1"', process.execPath, script], { encoding: 'utf8' })
  expect({ status: ran.status, stdout: ran.stdout, stderr: ran.stderr }).toEqual({
    status: 0,
    stdout: 'true\n',
    stderr: '',
  })
})

test('in time, or killed with all that it started; what it wrote till then is kept', async () => {
  const begun = performance.now()
  const ended = await shell('sleep 6101 & echo begun; sleep 6102', { timeoutMs: 300 }).ended
  expect(performance.now() - begun).toBeGreaterThan(299)
  expect(ended).toMatchObject({ errno: 0, status: null, signal: SIGKILL, killed: 'timeout' })
  expect(out(ended)).toBe('begun\n')
  await expect.poll(() => [runs('6101'), runs('6102')]).toEqual([false, false])
})

test('killed on demand, and once', async () => {
  const { ended, kill } = shell('sleep 6103')
  setTimeout(kill, 50)
  expect(await ended).toMatchObject({ status: null, signal: SIGKILL, killed: 'aborted' })
  kill()
  await expect.poll(() => runs('6103')).toBe(false)
})

test('who ends by himself was not killed, however late one says so', async () => {
  const { ended, kill } = shell('exit 7')
  expect(await ended).toMatchObject({ status: 7, signal: 0, killed: null })
  kill()
})

test('what it started and what still writes is waited for', async () => {
  const ended = await shell('{ sleep 0.3; echo late; } & echo first').ended
  expect(ended).toMatchObject({ status: 0, killed: null })
  expect(out(ended)).toBe('first\nlate\n')
})

test('but not longer than it may take, in a session of its own either', async () => {
  const ended = await shell('setsid sleep 6104 & echo first', { timeoutMs: 500 }).ended
  expect(ended).toMatchObject({ status: 0, signal: 0, killed: 'timeout' })
  expect(out(ended)).toBe('first\n')
  execFileSync('pkill', ['-f', '^sleep 6104$'])
})

test('a locked file is let go of before the end is told', async () => {
  const path = join(folder, 'lock')
  writeFileSync(path, '')
  for (let i = 0; i < 20; i++) {
    const fd = openSync(path, 'r')
    expect(native().tryLock(fd)).toBe(true)
    await start('/bin/true', [], { descriptors: [fd] }).ended
    closeSync(fd)
    const other = openSync(path, 'r')
    expect(native().tryLock(other)).toBe(true)
    closeSync(other)
  }
})

test('many at the same time; neither descriptors, threads nor dead children are left', async () => {
  await start('/bin/true', []).ended
  const before = { descriptors: openDescriptors(), threads: threads() }
  const all = await Promise.all(
    Array.from({ length: 30 }, (_, i) => shell(`cat; exit ${i}`, { input: Buffer.from(`${i}`) }).ended),
  )
  expect(all.map((ended) => [out(ended), ended.status])).toEqual(all.map((_, i) => [`${i}`, i]))
  await expect.poll(() => ({ descriptors: openDescriptors(), threads: threads() })).toEqual(before)
  const children = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim()
  const states = children === '' ? [] : children.split(' ').map((pid) => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  expect(states.filter((state) => / Z /.test(state))).toEqual([])
})

test('a worker that is terminated takes its programs along', async () => {
  const program = { ...COMMON, path: '/bin/sleep', args: ['6105'], env: [] }
  const worker = new Worker(`${loadAddon}native.startProgram(${JSON.stringify(program)})`, { eval: true })
  await expect.poll(() => runs('6105')).toBe(true)
  await worker.terminate()
  await expect.poll(() => runs('6105')).toBe(false)
})

test('a process that exits does not wait for its program', () => {
  const program = { ...COMMON, path: '/bin/sleep', args: ['6106'], env: [] }
  const script = `${loadAddon}native.startProgram(${JSON.stringify(program)}); setTimeout(() => process.exit(3), 50)`
  const { status, stderr } = spawnSync(process.execPath, ['-e', script], { encoding: 'utf8', timeout: 20_000 })
  expect({ status, stderr }).toEqual({ status: 3, stderr: '' })
})

const inParts = (script: string, options: Partial<NativeProgram> = {}) => shell(script, { ...options, inParts: true })

async function rest({ next }: Pick<NativeProgramRun, 'next'>): Promise<Buffer[]> {
  const parts: Buffer[] = []
  for (let part = await next(); part.length > 0; part = await next()) parts.push(part)
  return parts
}

test('what it prints comes in parts, while it goes on', async () => {
  const script = `mkfifo ${folder}/go; seq 20000; read -r line <${folder}/go; echo "$line"; echo wrong >&2; exit 4`
  const { ended, next } = inParts(script)
  const first = await next()
  expect(first.length).toBe(32 * 1024)
  writeFileSync(join(folder, 'go'), 'gone\n')
  const parts = [first, ...(await rest({ next }))]
  expect(Math.max(...parts.map(({ length }) => length))).toBe(32 * 1024)
  expect(Buffer.concat(parts).toString()).toBe(`${execFileSync('seq', ['20000'])}gone\n`)
  expect(await ended).toMatchObject({ status: 4, stdout: Buffer.alloc(0), stderr: Buffer.from('wrong\n') })
  expect(await next()).toHaveLength(0)
})

test('parts that nobody has asked for are kept until somebody does', async () => {
  const run = inParts('seq 20000')
  expect((await run.ended).stdout).toHaveLength(0)
  expect(Buffer.concat(await rest(run)).equals(execFileSync('seq', ['20000']))).toBe(true)
})

test('two at a time are refused, and the first one is kept', async () => {
  const run = inParts('sleep 0.2; echo said')
  const first = run.next()
  await expect(run.next()).rejects.toThrow('the part before has not come yet')
  expect((await first).toString()).toBe('said\n')
  expect(await rest(run)).toEqual([])
  await run.ended
})

test('no part is left to be waited for when it is killed, or was never started', async () => {
  const run = inParts('echo begun; sleep 6107')
  setTimeout(run.kill, 200)
  expect(Buffer.concat(await rest(run)).toString()).toBe('begun\n')
  expect(await run.ended).toMatchObject({ killed: 'aborted' })
  const absent = start(join(folder, 'absent'), [], { inParts: true })
  expect(await rest(absent)).toEqual([])
  expect(await absent.ended).toMatchObject({ errno: ENOENT })
  const wrong = start('/bin/echo', ['a\0b'], { inParts: true })
  const refused = expect(wrong.ended).rejects.toThrow('with a NUL')
  expect(await rest(wrong)).toEqual([])
  await refused
})

test('the event loop goes on meanwhile', async () => {
  let turns = 0
  const turn = setInterval(() => turns++, 1)
  const { ended } = shell('sleep 0.2')
  await sleep(100)
  expect(turns).toBeGreaterThan(5)
  await ended
  clearInterval(turn)
})

test('what is no program at all', () => {
  expect(() => native().startProgram(null as never)).toThrow(TypeError)
})

test.each([
  ['a path that is no text', { path: 1 }, TypeError],
  ['words that are no list', { args: 'x' }, TypeError],
  ['a word that is no text', { args: [1] }, TypeError],
  ['input that is no Buffer', { input: 'text' }, TypeError],
  ['parts, and how many', { inParts: 1 }, TypeError],
  ['a time that is negative', { timeoutMs: -1 }, RangeError],
  ['a descriptor that is none', { descriptors: [-1] }, RangeError],
])('%s', async (_what, wrong, kind) => {
  await expect(
    native().startProgram({ ...COMMON, path: '/bin/true', args: [], ...wrong } as never).ended,
  ).rejects.toThrow(kind)
})
