// A system call that failed, on its way to JavaScript.
#pragma once

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace netsweep {

class SystemError : public std::runtime_error {
 public:
  /** `call`: the system call and what it was called for, `mount /run/netns/x`. */
  SystemError(std::string call, int error)
      : std::runtime_error(call + ": " + std::strerror(error)), call(std::move(call)), error(error) {}

  const std::string call;
  const int error;
};

/** Passes the result of a system call on, or throws what errno says. */
template <typename Result>
Result check(Result result, const std::string& call) {
  if (result == static_cast<Result>(-1)) throw SystemError(call, errno);
  return result;
}

/** The same for a call that a signal may interrupt. */
template <typename Call>
auto retryInterrupted(Call call) {
  decltype(call()) result;
  do result = call();
  while (result == static_cast<decltype(result)>(-1) && errno == EINTR);
  return result;
}

}  // namespace netsweep
