// What the bridge module and the bridges say of themselves.
#pragma once

#include <napi.h>

namespace netsweep {

Napi::Value bridgeNames(const Napi::CallbackInfo& info);
Napi::Value bridgePorts(const Napi::CallbackInfo& info);

}  // namespace netsweep
