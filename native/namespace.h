// Network namespaces: opened, made, deleted and looked into, each on a thread that is made for it and ends with it.
#pragma once

#include <napi.h>

#include "descriptor.h"

namespace netsweep {

/** A copy of `fd` (close-on-exec) for another thread to use, whatever its owner does meanwhile; none for -1. */
Descriptor duplicate(int fd);

/** Moves the calling thread, when there is somewhere to go. Throws SystemError. */
void enter(const Descriptor& netns);

Napi::Value openNamespace(const Napi::CallbackInfo& info);
Napi::Value scratchNamespace(const Napi::CallbackInfo& info);
Napi::Value closeNamespace(const Napi::CallbackInfo& info);
Napi::Value createNamespace(const Napi::CallbackInfo& info);
Napi::Value deleteNamespace(const Napi::CallbackInfo& info);
Napi::Value deletePlaceholder(const Napi::CallbackInfo& info);
Napi::Value listNamespaces(const Napi::CallbackInfo& info);
Napi::Value readFileIn(const Napi::CallbackInfo& info);
Napi::Value writeFileIn(const Napi::CallbackInfo& info);

}  // namespace netsweep
