// Programs that are run to their end, on a thread of their own: see NativeProgram in src/kernel/native.ts.
#pragma once

#include <napi.h>

namespace netsweep {

Napi::Value startProgram(const Napi::CallbackInfo& info);

}  // namespace netsweep
