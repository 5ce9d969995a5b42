// Until when something may take.
#pragma once

#include <napi.h>

#include <algorithm>
#include <chrono>

namespace netsweep {

using Clock = std::chrono::steady_clock;

inline Clock::time_point deadlineAfter(const Napi::Value& timeoutMs) {
  // Longer than this is for ever, and adding it to the clock would overflow.
  constexpr double kLongest = 1e12;
  if (!timeoutMs.IsNumber()) throw Napi::TypeError::New(timeoutMs.Env(), "timeoutMs is no number");
  const double milliseconds = timeoutMs.As<Napi::Number>().DoubleValue();
  if (!(milliseconds >= 0)) throw Napi::RangeError::New(timeoutMs.Env(), "timeoutMs is negative");
  const std::chrono::duration<double, std::milli> left(std::min(milliseconds, kLongest));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(left);
}

}  // namespace netsweep
