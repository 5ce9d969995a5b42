// tryLock: flock(2), which Node does not have.
#pragma once

#include <napi.h>

namespace netsweep {

/** tryLock(fd): boolean */
Napi::Value tryLock(const Napi::CallbackInfo& info);

}  // namespace netsweep
