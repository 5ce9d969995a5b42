#include "lock.h"

#include <sys/file.h>

#include <cerrno>

#include "arguments.h"
#include "environment.h"
#include "system_error.h"

namespace netsweep {

Napi::Value tryLock(const Napi::CallbackInfo& info) {
  const int fd = static_cast<int>(integer(info[0], "fd", 0, INT32_MAX));
  if (retryInterrupted([fd] { return flock(fd, LOCK_EX | LOCK_NB); }) == 0) return Napi::Boolean::New(info.Env(), true);
  if (errno == EWOULDBLOCK) return Napi::Boolean::New(info.Env(), false);
  throw Napi::Error(info.Env(), errorValue(info.Env(), std::make_exception_ptr(SystemError("flock", errno))));
}

}  // namespace netsweep
