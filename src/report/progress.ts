/** A line on the terminal for as long as something takes long, and no trace of it afterwards. */

/** What is done sooner than this needs no line. */
const PATIENCE_MS = 300
const PERIOD_MS = 100

interface Screen {
  write(text: string): unknown
  readonly isTTY?: boolean | undefined
}

export async function withProgress<T>(screen: Screen, what: string, work: () => Promise<T>): Promise<T> {
  if (screen.isTTY !== true) return work()
  const started = performance.now()
  let isShown = false
  const timer = setInterval(() => {
    const elapsed = performance.now() - started
    if (elapsed < PATIENCE_MS) return
    isShown = true
    screen.write(`\r${what} … ${(elapsed / 1000).toFixed(1)} s\x1b[K`)
  }, PERIOD_MS)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    if (isShown) screen.write('\r\x1b[K')
  }
}
