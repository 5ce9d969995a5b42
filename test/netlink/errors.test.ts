import { expect, test } from 'vitest'
import { errnoName, MalformedMessage, NetlinkError } from '../../src/kernel/netlink/errors.js'

test('a refusal names the operation, the errno, what it means, and the kernel’s own words', () => {
  const error = NetlinkError.fromErrno('delete rule priority 1202', 16, { kernelMessage: 'rule is in use', offset: 28 })
  expect(error).toMatchObject({
    name: 'NetlinkError',
    code: 'EBUSY',
    errno: 16,
    kernelMessage: 'rule is in use',
    offset: 28,
  })
  expect(error.message).toBe('delete rule priority 1202: EBUSY (resource busy or locked): rule is in use')
})

test('an error without errno carries its code, and the message of its cause', () => {
  const cause = new MalformedMessage('attribute length 3', 40)
  const error = new NetlinkError({ operation: 'all links', code: 'MALFORMED', offset: 40, cause })
  expect(error.errno).toBeUndefined()
  expect(error.cause).toBe(cause)
  expect(error.message).toBe('all links: MALFORMED: attribute length 3 at byte 40')
})

test.each([
  [1, 'EPERM'],
  [2, 'ENOENT'],
  [3, 'ESRCH'],
  [11, 'EAGAIN'],
  [19, 'ENODEV'],
  [95, 'EOPNOTSUPP'],
  [99, 'EADDRNOTAVAIL'],
  [524, 'errno 524'],
])('errno %i is %s', (errno, name) => {
  expect(errnoName(errno)).toBe(name)
})
