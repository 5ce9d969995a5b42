#include "bridge.h"

#include <linux/if_bridge.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
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

// The kernel itself refuses room for 2048.
constexpr int64_t kMostRoom = 2048;

/** Of the namespace that the calling thread is in. */
Descriptor ioctlSocket() {
  return Descriptor(check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket"));
}

struct Name {
  int index;
  std::string name;
};

/**
 * rtnetlink walks all links for it and takes thrice as long. None where it is not to be had like this: there may be more than
 * fit, or the module is not loaded, and asking would load it.
 */
std::optional<std::vector<Name>> allBridges(int socket, size_t room) {
  if (access("/sys/module/bridge", F_OK) != 0) return std::nullopt;
  std::vector<int> indexes(room);
  unsigned long arguments[] = {BRCTL_GET_BRIDGES, reinterpret_cast<unsigned long>(indexes.data()), room, 0};
  const int found = ioctl(socket, SIOCGIFBR, arguments);
  // The module is just being unloaded, or this kernel has no such call.
  if (found < 0 && (errno == ENOPKG || errno == EOPNOTSUPP || errno == ENOTTY)) return std::nullopt;
  const size_t count = static_cast<size_t>(check(found, "ioctl BRCTL_GET_BRIDGES"));
  if (count >= room) return std::nullopt;
  std::vector<Name> names;
  for (size_t place = 0; place < count; ++place) {
    ifreq request{};
    request.ifr_ifindex = indexes[place];
    if (ioctl(socket, SIOCGIFNAME, &request) == 0) names.push_back({indexes[place], request.ifr_name});
    // Else it has gone meanwhile.
    else if (errno != ENODEV) throw SystemError("ioctl SIOCGIFNAME", errno);
  }
  return names;
}

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

Napi::Value toValue(Napi::Env env, const std::vector<Name>& names) {
  auto list = Napi::Array::New(env, names.size());
  for (uint32_t place = 0; place < names.size(); ++place) {
    auto object = Napi::Object::New(env);
    object.Set("index", names[place].index);
    object.Set("name", names[place].name);
    list.Set(place, object);
  }
  return list;
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

Napi::Value bridgeNames(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    // Shared, because a std::function must be copyable.
    const auto room = static_cast<size_t>(integer(info[1], "room", 1, kMostRoom));
    const auto netns = std::make_shared<Descriptor>(duplicate(descriptor(info[0], "netnsFd")));
    return Environment::run(info.Env(), [netns, room]() -> ToValue {
      enter(*netns);
      const Descriptor socket = ioctlSocket();
      return [found = allBridges(socket.get(), room)](Napi::Env env) { return found ? toValue(env, *found) : env.Null(); };
    });
  });
}

Napi::Value bridgePorts(const Napi::CallbackInfo& info) {
  return rejecting(info.Env(), [&] {
    const auto netns = std::make_shared<Descriptor>(duplicate(descriptor(info[0], "netnsFd")));
    return Environment::run(info.Env(), [netns, names = linkNames(info[1])]() -> ToValue {
      enter(*netns);
      const Descriptor socket = ioctlSocket();
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
