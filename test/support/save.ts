import { type Save, SaveReader } from '../../src/kernel/iptables/save.js'

/** What iptables-save has printed. Throws MalformedSave. */
export function parseSave(text: string): Save {
  const reader = new SaveReader()
  reader.take(text)
  return reader.end()
}
