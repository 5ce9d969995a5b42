// Two peers that are not checked: one is not installed where only the types are, the other has none.
declare module 'netlink' {
  export function createRtNetlink(): {
    getLinks(): Promise<
      {
        data: { index?: number; flags?: unknown }
        attrs: { ifname?: string; linkinfo?: Buffer; master?: number; mtu?: number; address?: Buffer }
      }[]
    >
  }
}
declare module 'node-netlink' {
  const netlink: {
    readonly NLM_F_REQUEST: bigint
    readonly NLM_F_DUMP: bigint
    readonly NLM_F_ACK: bigint
    // biome-ignore lint/suspicious/noExplicitAny: the package has no types
    open(options: { family: number }): Promise<any>
  }
  export default netlink
}
