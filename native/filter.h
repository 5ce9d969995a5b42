// A filter as RTM_NEWTFILTER describes it.
#pragma once

#include <napi.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace netsweep {

template <typename Value>
struct Masked {
  Value value;
  Value mask;
};

using Ipv4 = std::array<uint8_t, 4>;

struct Action {
  std::string kind;
  std::optional<uint32_t> mark;
  std::optional<uint32_t> mask;
  std::optional<int> control;
  std::vector<uint16_t> otherEdits;
};

struct Filter {
  int index;
  uint32_t parent;
  uint16_t pref;
  uint16_t protocol;
  uint32_t handle;
  std::string kind;
  uint32_t chain;
  std::optional<Masked<uint8_t>> arpOperation;
  std::optional<Masked<Ipv4>> arpSender;
  std::optional<Masked<Ipv4>> arpTarget;
  std::vector<uint16_t> otherKeys;
  std::vector<Action> actions;
};

/** Reads one whole message. None for the entry of handle 0 that a dump begins with. Throws Malformed. */
std::optional<Filter> readFilter(const uint8_t* message, size_t length);

/** As NativeFilter. */
Napi::Value toValue(Napi::Env env, const Filter& filter);

}  // namespace netsweep
