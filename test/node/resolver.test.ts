import { expect, test } from 'vitest'
import { meshResolver } from '../../src/node/resolver.js'

test.each([
  ['nameserver 100.64.0.53\n', '100.64.0.53'],
  ['# a comment\nsearch example.org\nnameserver\t192.0.2.1\n  nameserver 100.127.255.255', '100.127.255.255'],
  ['nameserver 100.63.255.255\nnameserver 100.128.0.0\n', null],
  ['nameserver 192.0.2.1\noptions ndots:5\n', null],
  ['#nameserver 100.64.0.53\n; nameserver 100.64.0.53\nsearch nameserver 100.64.0.53\n', null],
  ['nameserver fd00::1\nnameserver 100.64.0.053\nnameserver\n', null],
  ['nameserver 100.64.0.53 # the mesh’s\n', '100.64.0.53'],
  ['', null],
])('%j', (text, server) => {
  expect(meshResolver(text)).toBe(server)
})
