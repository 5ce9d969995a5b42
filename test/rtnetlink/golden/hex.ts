/** Bytes written in hex, with spaces between them and `# comments` behind. */
export function fromHex(text: string): Buffer {
  const digits = text.replaceAll(/#.*$/gm, '').replaceAll(/\s/g, '')
  const bytes = Buffer.from(digits, 'hex')
  // Buffer.from stops at the first character that is no hex digit, and says nothing.
  if (bytes.length * 2 !== digits.length) throw new Error(`not hex: ${digits.slice(bytes.length * 2)}`)
  return bytes
}
