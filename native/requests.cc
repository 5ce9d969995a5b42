#include "requests.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "attributes.h"

namespace netsweep {
namespace {

// Far below the send buffer (SO_SNDBUF, 208 KiB by default): a larger send would be refused with EMSGSIZE.
constexpr size_t kLargestSend = 64 * 1024;

// rtnetlink numbers its messages in fours: new, delete, get, set.
bool isRouteGet(const nlmsghdr& header) {
  return (header.nlmsg_type & 3) == 2;
}

// The bits of NLM_F_DUMP mean REPLACE and EXCL in a request that is no get. rtnetlink takes either bit of a get for a
// dump; other families take both together.
bool isDump(int protocol, const nlmsghdr& header) {
  const int bits = header.nlmsg_flags & NLM_F_DUMP;
  return protocol == NETLINK_ROUTE ? isRouteGet(header) && bits != 0 : bits == NLM_F_DUMP;
}

[[noreturn]] void refuse(size_t index, size_t offset, const std::string& reason) {
  throw std::invalid_argument("request " + std::to_string(index) + " at byte " + std::to_string(offset) + ": " + reason);
}

}  // namespace

Requests::Requests(int protocol, std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {
  for (size_t offset = 0; offset < bytes_.size();) {
    const size_t left = bytes_.size() - offset;
    nlmsghdr header;
    if (left < sizeof header) refuse(count(), offset, "header is cut short");
    std::memcpy(&header, bytes_.data() + offset, sizeof header);
    const size_t length = header.nlmsg_len;
    if (length < sizeof header || length > left) {
      refuse(count(), offset, "length " + std::to_string(length) + " of " + std::to_string(left) + " bytes");
    }
    const bool wantsAck = (header.nlmsg_flags & NLM_F_ACK) != 0;
    if (protocol == NETLINK_ROUTE && !isRouteGet(header) && !wantsAck) {
      refuse(count(), offset, "a change without NLM_F_ACK, whose success nothing would answer");
    }
    requests_.push_back({offset, length, isDump(protocol, header), wantsAck, false, std::nullopt, false});
    offset += NLMSG_ALIGN(length);
  }
}

void Requests::keep(size_t index, Keep keep) {
  if (index >= count() || !requests_[index].isDump) {
    throw std::invalid_argument("request " + std::to_string(index) + " is no dump, whose objects could be left out");
  }
  requests_[index].keep = std::move(keep);
}

bool Keep::wants(const uint8_t* message, size_t length) const {
  try {
    AttributeReader reader(message, std::min(length, NLMSG_HDRLEN + header), length);
    Attribute found;
    while (reader.next(found)) {
      if (found.type != attribute) continue;
      return std::find(values.begin(), values.end(), found.as<uint32_t>("attribute")) != values.end();
    }
    return without;
  } catch (const Malformed&) {
    return true;
  }
}

void Requests::number(uint32_t base, uint32_t port) {
  for (size_t index = 0; index < count(); ++index) {
    uint8_t* message = bytes_.data() + requests_[index].offset;
    const uint32_t sequence = base + static_cast<uint32_t>(index);
    std::memcpy(message + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
    std::memcpy(message + offsetof(nlmsghdr, nlmsg_pid), &port, sizeof port);
  }
}

size_t Requests::endOfSend(size_t first, size_t most) const {
  size_t end = first + 1;
  if (requests_[first].isDump) return end;
  while (end < count() && end - first < most && !requests_[end].isDump && span(first, end + 1) <= kLargestSend) ++end;
  return end;
}

size_t Requests::span(size_t first, size_t end) const {
  const Request& last = requests_[end - 1];
  return last.offset + last.length - requests_[first].offset;
}

}  // namespace netsweep
