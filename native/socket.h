// openSocket: a netlink socket with a thread of its own, as JavaScript sees it.
#pragma once

#include <napi.h>

namespace netsweep {

/** openSocket(protocol, netnsFd): Promise<NativeSocket> */
Napi::Value openSocket(const Napi::CallbackInfo& info);

}  // namespace netsweep
