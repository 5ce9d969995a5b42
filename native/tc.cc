#include "tc.h"

#include <arpa/inet.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_skbedit.h>

#include <algorithm>

#include "arguments.h"
#include "attributes.h"
#include "filter.h"

namespace netsweep {
namespace {

constexpr uint32_t kIngress = TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS);
constexpr uint8_t kWholeByte = 0xff;
constexpr uint32_t kWholeAddress = 0xffffffff;

int interfaceIndex(const Napi::Value& value) {
  return static_cast<int>(integer(value, "index", 1, INT32_MAX));
}

/** tcm_info: the preference in the upper half, the protocol in network byte order in the lower. */
uint32_t info(const Napi::Value& pref, uint16_t protocol) {
  return TC_H_MAKE(static_cast<uint32_t>(integer(pref, "pref", 0, UINT16_MAX)) << 16, htons(protocol));
}

uint16_t protocolOf(const Napi::Value& value) {
  return static_cast<uint16_t>(integer(value, "protocol", 0, UINT16_MAX));
}

Ipv4 address(const Napi::Value& value, const char* name) {
  const std::vector<uint8_t> given = bytes(value, name);
  Ipv4 result;
  if (given.size() != result.size()) throw Napi::RangeError::New(value.Env(), std::string(name) + " is not 4 bytes");
  std::copy(given.begin(), given.end(), result.begin());
  return result;
}

tcmsg ingressOf(int index) {
  tcmsg message{};
  message.tcm_family = AF_UNSPEC;
  message.tcm_ifindex = index;
  message.tcm_parent = kIngress;
  return message;
}

tcmsg clsactOf(int index) {
  tcmsg message = ingressOf(index);
  message.tcm_parent = TC_H_CLSACT;
  message.tcm_handle = TC_H_MAKE(TC_H_CLSACT, 0);
  return message;
}

Napi::Value toBuffer(Napi::Env env, const std::vector<uint8_t>& message) {
  return Napi::Buffer<uint8_t>::Copy(env, message.data(), message.size());
}

void writeSkbedit(MessageWriter& message, uint32_t mark, uint32_t mask) {
  constexpr uint16_t kFirst = 1;  // the place of the action in the filter's list
  const size_t actions = message.begin(TCA_FLOWER_ACT);
  const size_t action = message.begin(kFirst);
  message.attribute(TCA_ACT_KIND, "skbedit");
  const size_t options = message.begin(TCA_ACT_OPTIONS | NLA_F_NESTED);
  tc_skbedit parameters{};
  parameters.action = TC_ACT_PIPE;
  message.attribute(TCA_SKBEDIT_PARMS, parameters);
  message.attribute(TCA_SKBEDIT_MARK, mark);
  message.attribute(TCA_SKBEDIT_MASK, mask);
  message.end(options);
  message.end(action);
  message.end(actions);
}

}  // namespace

Napi::Value encodeFilterDump(const Napi::CallbackInfo& call) {
  tcmsg header = ingressOf(interfaceIndex(call[0]));
  header.tcm_info = info(call[1], protocolOf(call[2]));
  return toBuffer(call.Env(), MessageWriter(RTM_GETTFILTER, NLM_F_DUMP, header).finish());
}

Napi::Value encodeFilterReplace(const Napi::CallbackInfo& call) {
  const auto filter = call[0].As<Napi::Object>();
  const uint16_t protocol = ETH_P_ARP;
  tcmsg header = ingressOf(interfaceIndex(filter.Get("index")));
  header.tcm_info = info(filter.Get("pref"), protocol);
  header.tcm_handle = unsigned32(filter.Get("handle"), "handle");

  // In the order in which tc(8) writes them.
  MessageWriter message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_ACK, header);
  message.attribute(TCA_KIND, "flower");
  const size_t options = message.begin(TCA_OPTIONS);
  message.attribute(TCA_FLOWER_KEY_ARP_OP, uint8_t{ARPOP_REQUEST});
  message.attribute(TCA_FLOWER_KEY_ARP_OP_MASK, kWholeByte);
  message.attribute(TCA_FLOWER_KEY_ARP_SIP, address(filter.Get("sender"), "sender"));
  message.attribute(TCA_FLOWER_KEY_ARP_SIP_MASK, kWholeAddress);
  message.attribute(TCA_FLOWER_KEY_ARP_TIP, address(filter.Get("target"), "target"));
  message.attribute(TCA_FLOWER_KEY_ARP_TIP_MASK, kWholeAddress);
  writeSkbedit(message, unsigned32(filter.Get("mark"), "mark"), unsigned32(filter.Get("mask"), "mask"));
  message.attribute(TCA_FLOWER_FLAGS, uint32_t{0});
  message.attribute(TCA_FLOWER_KEY_ETH_TYPE, htons(protocol));
  message.end(options);
  return toBuffer(call.Env(), message.finish());
}

Napi::Value encodeFilterDelete(const Napi::CallbackInfo& call) {
  const auto filter = call[0].As<Napi::Object>();
  tcmsg header = ingressOf(interfaceIndex(filter.Get("index")));
  header.tcm_info = info(filter.Get("pref"), protocolOf(filter.Get("protocol")));
  header.tcm_handle = unsigned32(filter.Get("handle"), "handle");
  // Handle 0 or preference 0 would delete all of a preference, or all of the device.
  if (header.tcm_handle == 0 || TC_H_MAJ(header.tcm_info) == 0) {
    throw Napi::RangeError::New(call.Env(), "a filter is deleted by its preference and handle, neither of them 0");
  }
  MessageWriter message(RTM_DELTFILTER, NLM_F_ACK, header);
  message.attribute(TCA_KIND, text(filter.Get("kind"), "kind").c_str());
  return toBuffer(call.Env(), message.finish());
}

Napi::Value encodeClsactReplace(const Napi::CallbackInfo& call) {
  MessageWriter message(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, clsactOf(interfaceIndex(call[0])));
  message.attribute(TCA_KIND, "clsact");
  return toBuffer(call.Env(), message.finish());
}

Napi::Value decodeFilter(const Napi::CallbackInfo& call) {
  const Napi::Env env = call.Env();
  const std::vector<uint8_t> message = bytes(call[0], "message");
  try {
    const std::optional<Filter> filter = readFilter(message.data(), message.size());
    return filter ? toValue(env, *filter) : env.Null();
  } catch (const Malformed& malformed) {
    auto error = Napi::Error::New(env, malformed.what());
    error.Value().Set("offset", static_cast<double>(malformed.offset));
    throw error;
  }
}

}  // namespace netsweep
