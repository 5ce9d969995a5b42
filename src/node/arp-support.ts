/** Whether this kernel can do what a granted pair needs, found out before anything is changed. */
import type { Host } from '../kernel/host.js'
import type { ArpEntry } from './grants.js'
import type { NodeView } from './view.js'

export async function checkArpPath(_host: Host, _view: NodeView, _wanted: readonly ArpEntry[]): Promise<void> {}
