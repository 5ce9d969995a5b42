/** `netsweep show`: the node as the sweep sees it. Takes no lock and changes nothing. */
import { UsageError } from '../node/errors.js'
import { decide } from '../node/reconcile.js'
import { namespaceNames } from '../node/system.js'
import { DONE } from '../report/failure.js'
import { reportNode } from '../report/node.js'
import { nodeText } from '../report/node-text.js'
import { withProgress } from '../report/progress.js'
import { styleOf } from '../report/style.js'
import type { CommandDefinition, Context } from './command.js'
import { interruptibly } from './io.js'

export const show: CommandDefinition = {
  name: 'show',
  summary: 'the node as the kernel describes it',
  options: [{ flags: '--format <format>', description: 'text, json (text)' }],
  run: runShow,
}

async function runShow({ io, settings, log, json, net }: Context): Promise<number> {
  const format = settings.text('format')
  if (format !== undefined && format !== 'text' && format !== 'json')
    throw new UsageError(settings.source('format'), `${JSON.stringify(format)} is none of text, json`)

  const report = await interruptibly(io, async (signal) => {
    const host = await io.openNode(net)
    try {
      return await withProgress(io.stderr, 'reading the node', async () => {
        const decision = await decide(host, net, null, { signal, log })
        return reportNode(decision, await namespaceNames(host, { signal }))
      })
    } finally {
      host.close()
    }
  })
  const isJson = json || format === 'json'
  const text = isJson ? `${JSON.stringify(report, null, 2)}\n` : nodeText(report, net.range, styleOf(io.stdout, io.env))
  io.stdout.write(text)
  return DONE
}
