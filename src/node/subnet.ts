/** The `/24` of a node: which addresses are its workloads', and which is the gateway. */
import { formatIpv4, parseIpv4 } from '../kernel/ipv4.js'
import { isWorkloadOctet } from './contract.js'

export class Subnet {
  /** `base`: the network's address as a number. */
  private constructor(readonly base: number) {}

  /** The `/24` that an address lies in. Throws on text that is no IPv4 address. */
  static containing(address: string): Subnet {
    const number = parseIpv4(address)
    if (number === null) throw new RangeError(`${JSON.stringify(address)} is no IPv4 address`)
    return new Subnet(number - (number % 256))
  }

  get gateway(): string {
    return this.address(1)
  }

  address(octet: number): string {
    return formatIpv4(this.base + octet)
  }

  includes(address: string): boolean {
    const number = parseIpv4(address)
    return number !== null && number - (number % 256) === this.base
  }

  /** The last octet of a workload's address here; null for any other address: the gateway, another subnet's, no address. */
  workloadOctet(address: string): number | null {
    const octet = (parseIpv4(address) ?? -1) - this.base
    return isWorkloadOctet(octet) ? octet : null
  }

  equals(other: Subnet): boolean {
    return other.base === this.base
  }

  toString(): string {
    return `${formatIpv4(this.base)}/24`
  }
}
