#include "namespace.h"

#include <fcntl.h>
#include <sched.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "environment.h"
#include "named.h"
#include "system_error.h"

namespace netsweep {
namespace {

Napi::Value undefined(Napi::Env env) {
  return env.Undefined();
}

Descriptor openFile(const std::string& path, int flags) {
  return Descriptor(check(retryInterrupted([&] { return open(path.c_str(), flags | O_CLOEXEC); }), "open " + path));
}

/** Files of procfs tell no size: read to the end. */
std::vector<char> readAll(const std::string& path) {
  const Descriptor file = openFile(path, O_RDONLY);
  std::vector<char> content;
  char piece[64 * 1024];
  for (;;) {
    const ssize_t length = check(retryInterrupted([&] { return read(file.get(), piece, sizeof piece); }), "read " + path);
    if (length == 0) return content;
    content.insert(content.end(), piece, piece + length);
  }
}

/** In one write(2): a sysctl takes its value whole. */
void writeWhole(const std::string& path, const std::string& text) {
  const Descriptor file = openFile(path, O_WRONLY | O_TRUNC);
  const ssize_t length =
      check(retryInterrupted([&] { return write(file.get(), text.data(), text.size()); }), "write " + path);
  if (static_cast<size_t>(length) != text.size()) throw SystemError("write " + path, EIO);
}

/** Where openNamespace looks. */
Descriptor openWanted(const std::string& wanted) {
  if (wanted[0] == '/') return openNetwork(wanted);
  return openNamed(wanted);
}

std::string nameArgument(const Napi::Value& value) {
  std::string name = text(value, "name");
  checkName(name);
  return name;
}

/** The namespace and the path that readFileIn and writeFileIn begin with. */
struct Place {
  explicit Place(const Napi::CallbackInfo& info)
      : netns(std::make_shared<Descriptor>(duplicate(descriptor(info[0], "netnsFd")))), path(text(info[1], "path")) {}
  // Shared, because a std::function must be copyable.
  std::shared_ptr<Descriptor> netns;
  std::string path;
};

}  // namespace

Descriptor duplicate(int fd) {
  return Descriptor(fd < 0 ? -1 : check(fcntl(fd, F_DUPFD_CLOEXEC, 0), "fcntl F_DUPFD_CLOEXEC"));
}

void enter(const Descriptor& netns) {
  if (netns.isOpen()) check(setns(netns.get(), CLONE_NEWNET), "setns");
}

Napi::Value openNamespace(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    std::string wanted = info[0].IsNull() ? "/proc/thread-self/ns/net" : text(info[0], "nameOrPath");
    if (wanted.find('/') != 0) checkName(wanted);
    return Environment::run(info.Env(), [wanted = std::move(wanted)]() -> ToValue {
      // Closed again when it is never delivered.
      const auto network = std::make_shared<Descriptor>(openWanted(wanted));
      return [network](Napi::Env env) { return Napi::Number::New(env, network->release()); };
    });
  });
}

Napi::Value scratchNamespace(const Napi::CallbackInfo& info) {
  return Environment::run(info.Env(), []() -> ToValue {
    check(unshare(CLONE_NEWNET), "unshare");
    const auto network = std::make_shared<Descriptor>(openNetwork("/proc/thread-self/ns/net"));
    return [network](Napi::Env env) { return Napi::Number::New(env, network->release()); };
  });
}

Napi::Value closeNamespace(const Napi::CallbackInfo& info) {
  Descriptor(static_cast<int>(integer(info[0], "fd", 0, INT32_MAX))).reset();
  return info.Env().Undefined();
}

Napi::Value createNamespace(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    const auto stopped = std::make_shared<std::atomic<bool>>(false);
    const auto work = [name = nameArgument(info[0]), stopped]() -> ToValue {
      createNamed(name, *stopped);
      return undefined;
    };
    return Environment::run(info.Env(), work, [stopped] { *stopped = true; });
  });
}

Napi::Value deleteNamespace(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    return Environment::run(info.Env(), [name = nameArgument(info[0])]() -> ToValue {
      deleteNamed(name);
      return undefined;
    });
  });
}

Napi::Value deletePlaceholder(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    return Environment::run(info.Env(), [name = nameArgument(info[0])]() -> ToValue {
      return [was = deletePlaceholder(name)](Napi::Env env) { return Napi::Boolean::New(env, was); };
    });
  });
}

Napi::Value listNamespaces(const Napi::CallbackInfo& info) {
  return Environment::run(info.Env(), []() -> ToValue {
    return [names = listNamed()](Napi::Env env) {
      auto list = Napi::Array::New(env, names.size());
      for (size_t index = 0; index < names.size(); ++index) list.Set(static_cast<uint32_t>(index), names[index]);
      return list;
    };
  });
}

Napi::Value readFileIn(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    return Environment::run(info.Env(), [place = Place(info)]() -> ToValue {
      enter(*place.netns);
      return [content = readAll(place.path)](Napi::Env env) {
        return Napi::Buffer<char>::Copy(env, content.data(), content.size());
      };
    });
  });
}

Napi::Value writeFileIn(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    return Environment::run(info.Env(), [place = Place(info), text = text(info[2], "text")]() -> ToValue {
      enter(*place.netns);
      writeWhole(place.path, text);
      return undefined;
    });
  });
}

}  // namespace netsweep
