/** nftables rules, as far as iptables-nft-save does not tell what they are. For `{ protocol: 'netfilter' }`. */
import {
  AF_INET,
  NFNETLINK_V0,
  NFNL_SUBSYS_NFTABLES,
  NFT_MSG_GETRULE,
  NFT_MSG_NEWRULE,
  NFTA_EXPR_NAME,
  NFTA_LIST_ELEM,
  NFTA_RULE_CHAIN,
  NFTA_RULE_EXPRESSIONS,
  NFTA_RULE_TABLE,
  NLM_F_DUMP,
} from './linux.js'
import { AttributeReader, AttributeWriter } from './netlink/attribute.js'
import type { Message } from './netlink/message.js'
import type { Request } from './netlink/request.js'
import { attributesAt } from './rtnetlink/expect.js'

/** struct nfgenmsg: family, version, resource. */
const NFGENMSG = 4
const type = (message: number): number => (NFNL_SUBSYS_NFTABLES << 8) | message

/** The names of the expressions of each rule of a chain (`meta`, `cmp`, `lookup`, …), in the chain's order. ENOENT: no such chain. */
export function expressionsIn(table: string, chain: string): Request<readonly string[]> {
  const payload = new AttributeWriter(Buffer.of(AF_INET, NFNETLINK_V0, 0, 0))
    .string(NFTA_RULE_TABLE, table)
    .string(NFTA_RULE_CHAIN, chain)
  return {
    what: `nft rules of ip ${table} ${chain}`,
    type: type(NFT_MSG_GETRULE),
    flags: NLM_F_DUMP,
    payload: payload.finish(),
    decode: readExpressions,
  }
}

function readExpressions(message: Message): string[] {
  const rule = new AttributeReader(message.bytes, attributesAt(message, type(NFT_MSG_NEWRULE), NFGENMSG))
  const names: string[] = []
  while (rule.next()) {
    if (rule.type !== NFTA_RULE_EXPRESSIONS) continue
    const list = rule.nested()
    while (list.next()) {
      if (list.type !== NFTA_LIST_ELEM) continue
      const expression = list.nested()
      while (expression.next()) if (expression.type === NFTA_EXPR_NAME) names.push(expression.string())
    }
  }
  return names
}
