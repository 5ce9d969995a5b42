const IFLA_INFO_KIND = 1

/**
 * The kind, out of the attributes inside IFLA_LINKINFO.
 *
 * @param {Buffer} info
 */
export function kindOf(info) {
  for (const [type, value] of attributes(info)) if (type === IFLA_INFO_KIND) return text(value)
  return ''
}

/**
 * @param {Buffer} bytes
 * @param {number} [start]
 * @returns {Generator<[type: number, value: Buffer]>}
 */
export function* attributes(bytes, start = 0) {
  for (let at = start; at + 4 <= bytes.length; ) {
    const length = bytes.readUInt16LE(at)
    yield [bytes.readUInt16LE(at + 2) & 0x3fff, bytes.subarray(at + 4, at + length)]
    at += (length + 3) & ~3
  }
}

/** @param {Buffer} value with the null byte that ends it */
export const text = (value) => value.toString('latin1', 0, value.length - 1)
