#include "filter.h"

#include <arpa/inet.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_skbedit.h>

#include "attributes.h"

namespace netsweep {
namespace {

/** A key and its mask, which are attributes of their own. */
template <typename Value>
struct KeyReader {
  uint16_t keyType;
  uint16_t maskType;
  std::optional<Value> value;
  std::optional<Value> mask;

  bool take(const Attribute& attribute, const char* name) {
    if (attribute.type == keyType) value = attribute.as<Value>(name);
    else if (attribute.type == maskType) mask = attribute.as<Value>(name);
    else return false;
    return true;
  }

  /** Half a key is something that is not understood: it counts as another. */
  std::optional<Masked<Value>> finish(std::vector<uint16_t>& otherKeys) const {
    if (value && mask) return Masked<Value>{*value, *mask};
    if (value) otherKeys.push_back(keyType);
    if (mask) otherKeys.push_back(maskType);
    return std::nullopt;
  }
};

void readSkbedit(const uint8_t* message, const Attribute& options, Action& action) {
  AttributeReader reader(message, options);
  Attribute attribute;
  while (reader.next(attribute)) {
    switch (attribute.type) {
      case TCA_SKBEDIT_PARMS: action.control = attribute.as<tc_skbedit>("TCA_SKBEDIT_PARMS").action; break;
      case TCA_SKBEDIT_MARK: action.mark = attribute.as<uint32_t>("TCA_SKBEDIT_MARK"); break;
      case TCA_SKBEDIT_MASK: action.mask = attribute.as<uint32_t>("TCA_SKBEDIT_MASK"); break;
      case TCA_SKBEDIT_TM:
      case TCA_SKBEDIT_PAD: break;
      default: action.otherEdits.push_back(attribute.type);
    }
  }
}

Action readAction(const uint8_t* message, const Attribute& nest) {
  Action action;
  std::optional<Attribute> options;
  AttributeReader reader(message, nest);
  Attribute attribute;
  while (reader.next(attribute)) {
    if (attribute.type == TCA_ACT_KIND) action.kind = attribute.text();
    else if (attribute.type == TCA_ACT_OPTIONS) options = attribute;
  }
  if (options && action.kind == "skbedit") readSkbedit(message, *options, action);
  return action;
}

void readActions(const uint8_t* message, const Attribute& nest, std::vector<Action>& actions) {
  AttributeReader reader(message, nest);
  Attribute attribute;
  while (reader.next(attribute)) actions.push_back(readAction(message, attribute));
}

void readFlower(const uint8_t* message, const Attribute& options, Filter& filter) {
  KeyReader<uint8_t> operation{TCA_FLOWER_KEY_ARP_OP, TCA_FLOWER_KEY_ARP_OP_MASK, {}, {}};
  KeyReader<Ipv4> sender{TCA_FLOWER_KEY_ARP_SIP, TCA_FLOWER_KEY_ARP_SIP_MASK, {}, {}};
  KeyReader<Ipv4> target{TCA_FLOWER_KEY_ARP_TIP, TCA_FLOWER_KEY_ARP_TIP_MASK, {}, {}};
  AttributeReader reader(message, options);
  Attribute attribute;
  while (reader.next(attribute)) {
    if (operation.take(attribute, "TCA_FLOWER_KEY_ARP_OP") || sender.take(attribute, "TCA_FLOWER_KEY_ARP_SIP") ||
        target.take(attribute, "TCA_FLOWER_KEY_ARP_TIP")) {
      continue;
    }
    switch (attribute.type) {
      case TCA_FLOWER_ACT: readActions(message, attribute, filter.actions); break;
      case TCA_FLOWER_KEY_ETH_TYPE:
      case TCA_FLOWER_FLAGS:
      case TCA_FLOWER_IN_HW_COUNT: break;
      default: filter.otherKeys.push_back(attribute.type);
    }
  }
  filter.arpOperation = operation.finish(filter.otherKeys);
  filter.arpSender = sender.finish(filter.otherKeys);
  filter.arpTarget = target.finish(filter.otherKeys);
}

Napi::Value numbers(Napi::Env env, const std::vector<uint16_t>& list) {
  auto array = Napi::Array::New(env, list.size());
  for (uint32_t place = 0; place < list.size(); ++place) array.Set(place, list[place]);
  return array;
}

Napi::Value number(Napi::Env env, uint32_t value) {
  return Napi::Number::New(env, value);
}
Napi::Value number(Napi::Env env, int value) {
  return Napi::Number::New(env, value);
}
Napi::Value number(Napi::Env env, uint8_t value) {
  return Napi::Number::New(env, value);
}
Napi::Value number(Napi::Env env, const Ipv4& value) {
  return Napi::Buffer<uint8_t>::Copy(env, value.data(), value.size());
}

template <typename Value>
Napi::Value orNull(Napi::Env env, const std::optional<Value>& value) {
  return value ? number(env, *value) : env.Null();
}

template <typename Value>
Napi::Value orNull(Napi::Env env, const std::optional<Masked<Value>>& key) {
  if (!key) return env.Null();
  auto object = Napi::Object::New(env);
  object.Set("value", number(env, key->value));
  object.Set("mask", number(env, key->mask));
  return object;
}

Napi::Value toValue(Napi::Env env, const Action& action) {
  auto object = Napi::Object::New(env);
  object.Set("kind", action.kind);
  object.Set("mark", orNull(env, action.mark));
  object.Set("mask", orNull(env, action.mask));
  object.Set("control", orNull(env, action.control));
  object.Set("otherEdits", numbers(env, action.otherEdits));
  return object;
}

}  // namespace

std::optional<Filter> readFilter(const uint8_t* message, size_t length) {
  nlmsghdr header;
  tcmsg tc;
  if (length < NLMSG_LENGTH(sizeof tc)) throw Malformed("filter is cut short", length);
  std::memcpy(&header, message, sizeof header);
  if (header.nlmsg_len < NLMSG_LENGTH(sizeof tc) || header.nlmsg_len > length) {
    throw Malformed("message length " + std::to_string(header.nlmsg_len) + " of " + std::to_string(length) + " bytes", 0);
  }
  if (header.nlmsg_type != RTM_NEWTFILTER) {
    throw Malformed("message type " + std::to_string(header.nlmsg_type) + " is no filter", offsetof(nlmsghdr, nlmsg_type));
  }
  std::memcpy(&tc, message + NLMSG_HDRLEN, sizeof tc);

  Filter filter{};
  filter.index = tc.tcm_ifindex;
  filter.parent = tc.tcm_parent;
  filter.pref = static_cast<uint16_t>(TC_H_MAJ(tc.tcm_info) >> 16);
  filter.protocol = ntohs(static_cast<uint16_t>(TC_H_MIN(tc.tcm_info)));
  filter.handle = tc.tcm_handle;

  std::optional<Attribute> options;
  AttributeReader reader(message, NLMSG_LENGTH(sizeof tc), header.nlmsg_len);
  Attribute attribute;
  while (reader.next(attribute)) {
    if (attribute.type == TCA_KIND) filter.kind = attribute.text();
    else if (attribute.type == TCA_CHAIN) filter.chain = attribute.as<uint32_t>("TCA_CHAIN");
    else if (attribute.type == TCA_OPTIONS) options = attribute;
  }
  if (filter.handle == 0 && !options) return std::nullopt;
  if (options && filter.kind == "flower") readFlower(message, *options, filter);
  return filter;
}

Napi::Value toValue(Napi::Env env, const Filter& filter) {
  auto object = Napi::Object::New(env);
  object.Set("index", filter.index);
  object.Set("parent", filter.parent);
  object.Set("pref", filter.pref);
  object.Set("protocol", filter.protocol);
  object.Set("handle", filter.handle);
  object.Set("kind", filter.kind);
  object.Set("chain", filter.chain);
  object.Set("arpOperation", orNull(env, filter.arpOperation));
  object.Set("arpSender", orNull(env, filter.arpSender));
  object.Set("arpTarget", orNull(env, filter.arpTarget));
  object.Set("otherKeys", numbers(env, filter.otherKeys));
  auto actions = Napi::Array::New(env, filter.actions.size());
  for (uint32_t place = 0; place < filter.actions.size(); ++place) actions.Set(place, toValue(env, filter.actions[place]));
  object.Set("actions", actions);
  return object;
}

}  // namespace netsweep
