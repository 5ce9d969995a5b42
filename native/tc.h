// tc at the ingress of clsact: requests as bytes, and filters as plain values.
#pragma once

#include <napi.h>

namespace netsweep {

Napi::Value encodeFilterDump(const Napi::CallbackInfo& info);
Napi::Value decodeFilter(const Napi::CallbackInfo& info);
Napi::Value encodeFilterReplace(const Napi::CallbackInfo& info);
Napi::Value encodeFilterDelete(const Napi::CallbackInfo& info);
Napi::Value encodeClsactReplace(const Napi::CallbackInfo& info);

}  // namespace netsweep
