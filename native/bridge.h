// What a bridge says of itself.
#pragma once

#include <napi.h>

namespace netsweep {

Napi::Value bridgePorts(const Napi::CallbackInfo& info);

}  // namespace netsweep
