// What the addon exports: src/kernel/native.ts says what each of it does.
#include <napi.h>

#include "bridge.h"
#include "constants.h"
#include "environment.h"
#include "lock.h"
#include "namespace.h"
#include "program.h"
#include "socket.h"
#include "tc.h"

using namespace netsweep;

static Napi::Object load(Napi::Env env, Napi::Object exports) {
  Environment::attach(env);
  const auto add = [&](const char* name, Napi::Value (*function)(const Napi::CallbackInfo&)) {
    exports.Set(name, Napi::Function::New(env, function, name));
  };
  exports.Set("constants", constants(env));
  add("openSocket", openSocket);
  add("openNamespace", openNamespace);
  add("closeNamespace", closeNamespace);
  add("scratchNamespace", scratchNamespace);
  add("createNamespace", createNamespace);
  add("deleteNamespace", deleteNamespace);
  add("deletePlaceholder", deletePlaceholder);
  add("listNamespaces", listNamespaces);
  add("readFileIn", readFileIn);
  add("writeFileIn", writeFileIn);
  add("startProgram", startProgram);
  add("bridgeNames", bridgeNames);
  add("bridgePorts", bridgePorts);
  add("tryLock", tryLock);
  add("encodeFilterDump", encodeFilterDump);
  add("decodeFilter", decodeFilter);
  add("encodeFilterReplace", encodeFilterReplace);
  add("encodeFilterDelete", encodeFilterDelete);
  add("encodeClsactReplace", encodeClsactReplace);
  return exports;
}

NODE_API_MODULE(netsweep, load)
