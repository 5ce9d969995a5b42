// The kernel's numbers, from the headers that this was compiled with.
#pragma once

#include <napi.h>

namespace netsweep {

Napi::Object constants(Napi::Env env);

}  // namespace netsweep
