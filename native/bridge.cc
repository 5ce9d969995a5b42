#include "bridge.h"

#include <linux/if_bridge.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "environment.h"
#include "namespace.h"
#include "system_error.h"

namespace netsweep {
namespace {

// The kernel numbers the ports of a bridge with ten bits, from 1.
constexpr size_t kPortNumbers = 1024;

struct Ports {
  std::vector<int> indexes;
  int error = 0;
};

/** rtnetlink finds the ports of a bridge by walking every link of the namespace; the bridge has them in a list. */
Ports portsOf(int socket, const std::string& name) {
  std::vector<int> byNumber(kPortNumbers);
  unsigned long arguments[] = {BRCTL_GET_PORT_LIST, reinterpret_cast<unsigned long>(byNumber.data()), kPortNumbers, 0};
  ifreq request{};
  std::memcpy(request.ifr_name, name.c_str(), name.size() + 1);
  request.ifr_data = reinterpret_cast<char*>(arguments);
  Ports ports;
  if (ioctl(socket, SIOCDEVPRIVATE, &request) < 0) {
    ports.error = errno;
    return ports;
  }
  for (const int index : byNumber) {
    if (index != 0) ports.indexes.push_back(index);
  }
  return ports;
}

std::vector<std::string> linkNames(const Napi::Value& value) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "names is no array");
  const auto list = value.As<Napi::Array>();
  std::vector<std::string> names;
  for (uint32_t place = 0; place < list.Length(); ++place) {
    std::string name = text(list.Get(place), "name");
    if (name.empty() || name.size() >= IFNAMSIZ || name.find('\0') != std::string::npos) {
      throw Napi::RangeError::New(value.Env(), "name is no link's: " + name);
    }
    names.push_back(std::move(name));
  }
  return names;
}

Napi::Value toValue(Napi::Env env, const Ports& ports) {
  auto indexes = Napi::Array::New(env, ports.indexes.size());
  for (uint32_t place = 0; place < ports.indexes.size(); ++place) indexes.Set(place, ports.indexes[place]);
  auto object = Napi::Object::New(env);
  object.Set("indexes", indexes);
  object.Set("errno", ports.error);
  return object;
}

}  // namespace

Napi::Value bridgePorts(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    // Shared, because a std::function must be copyable.
    const auto netns = std::make_shared<Descriptor>(duplicate(descriptor(info[0], "netnsFd")));
    return Environment::run(info.Env(), [netns, names = linkNames(info[1])]() -> ToValue {
      enter(*netns);
      const Descriptor socket(check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
      std::vector<Ports> found;
      for (const std::string& name : names) found.push_back(portsOf(socket.get(), name));
      return [found = std::move(found)](Napi::Env env) {
        auto list = Napi::Array::New(env, found.size());
        for (uint32_t place = 0; place < found.size(); ++place) list.Set(place, toValue(env, found[place]));
        return list;
      };
    });
  });
}

}  // namespace netsweep
