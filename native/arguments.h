// Arguments from JavaScript, checked: a TypeError or RangeError names the one that is wrong.
#pragma once

#include <napi.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace netsweep {

inline int64_t integer(const Napi::Value& value, const char* name, int64_t least, int64_t most) {
  if (!value.IsNumber()) throw Napi::TypeError::New(value.Env(), std::string(name) + " is no number");
  const double number = value.As<Napi::Number>().DoubleValue();
  if (std::trunc(number) != number || number < static_cast<double>(least) || number > static_cast<double>(most)) {
    throw Napi::RangeError::New(value.Env(), std::string(name) + " is no integer from " + std::to_string(least) + " to " +
                                                 std::to_string(most));
  }
  return static_cast<int64_t>(number);
}

inline uint32_t unsigned32(const Napi::Value& value, const char* name) {
  return static_cast<uint32_t>(integer(value, name, 0, UINT32_MAX));
}

/** A descriptor, or -1. */
inline int descriptor(const Napi::Value& value, const char* name) {
  return static_cast<int>(integer(value, name, -1, INT32_MAX));
}

inline std::string text(const Napi::Value& value, const char* name) {
  if (!value.IsString()) throw Napi::TypeError::New(value.Env(), std::string(name) + " is no string");
  return value.As<Napi::String>().Utf8Value();
}

inline std::vector<uint8_t> bytes(const Napi::Value& value, const char* name) {
  if (!value.IsBuffer()) throw Napi::TypeError::New(value.Env(), std::string(name) + " is no Buffer");
  const auto buffer = value.As<Napi::Buffer<uint8_t>>();
  return std::vector<uint8_t>(buffer.Data(), buffer.Data() + buffer.Length());
}

}  // namespace netsweep
