import { fileURLToPath } from 'node:url'

/** @param {string} path from this folder */
const at = (path) => fileURLToPath(new URL(path, import.meta.url))

export const PROJECT = at('../')
export const BENCH = at('./')
/** What is compiled or made on the way; nothing of it is committed. */
export const BUILD = at('./build/')
export const RESULTS = at('./results/')
export const ORACLE = at('../test/oracle/node.sh')
export const COMMAND = at('../dist/cli.js')
