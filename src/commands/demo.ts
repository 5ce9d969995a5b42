/** `netsweep demo`: workloads come, some go, and a sweep removes what they leave; on a node that ends with the command. */
import { INSIDE, isPrivateNode, runOnPrivateNode } from '../demo/private.js'
import type { DemoResult } from '../demo/story.js'
import { Tools } from '../demo/tools.js'
import { UsageError } from '../node/errors.js'
import { DONE, INCOMPLETE } from '../report/failure.js'
import { styleOf } from '../report/style.js'
import type { CommandDefinition, Context } from './command.js'
import { interruptibly } from './io.js'

export const demo: CommandDefinition = {
  name: 'demo',
  summary: 'all of it, in a private network namespace',
  options: [{ flags: `--${INSIDE} <namespace>`, description: "the demo's own call of itself", hidden: true }],
  more: `
Makes network, mount and process namespaces of its own, in a user namespace where it has no privileges, and leaves
nothing behind. The exit status is 0 only when what is left on that node is exactly what should be.
`,
  run: runDemo,
}

async function runDemo({ io, settings, argv, json, net }: Context): Promise<number> {
  if (net.netns !== undefined) throw new UsageError(settings.source('netns'), 'the demo makes a namespace of its own')
  // By the call alone: a variable that somebody set must not make a demo take his node for its own.
  const outside = settings.given.get(INSIDE)
  if (outside === undefined) return runOnPrivateNode(io, argv)
  if (typeof outside !== 'string' || !isPrivateNode(outside))
    throw new UsageError(`--${INSIDE}`, 'this is no node of its own')

  const { playDemo } = await import('../demo/story.js')
  const style = styleOf(io.stdout, io.env)
  const tell = json ? () => {} : (text: string) => void io.stdout.write(text)
  const result = await interruptibly(
    io,
    (signal): Promise<DemoResult> => playDemo(net, new Tools(signal), { tell, style, signal }),
  )
  if (json) io.stdout.write(`${JSON.stringify(result, null, 2)}\n`)
  return result.problems.length === 0 ? DONE : INCOMPLETE
}
