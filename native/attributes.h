// Writing and reading netlink messages of one family header and attributes (linux/netlink.h).
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace netsweep {

/** A message that does not add up, and where: bytes from its beginning. */
class Malformed : public std::runtime_error {
 public:
  Malformed(const std::string& reason, size_t offset)
      : std::runtime_error(reason + " at byte " + std::to_string(offset)), offset(offset) {}

  const size_t offset;
};

/** Builds one request; sequence and port are the exchange's to fill in. */
class MessageWriter {
 public:
  template <typename Family>
  MessageWriter(uint16_t type, uint16_t flags, const Family& family) : bytes_(NLMSG_HDRLEN) {
    nlmsghdr header{};
    header.nlmsg_type = type;
    header.nlmsg_flags = flags | NLM_F_REQUEST;
    std::memcpy(bytes_.data(), &header, sizeof header);
    append(&family, sizeof family);
  }

  void attribute(uint16_t type, const void* value, size_t length) {
    const size_t start = begin(type);
    append(value, length);
    end(start);
  }
  template <typename Value>
  void attribute(uint16_t type, const Value& value) {
    attribute(type, &value, sizeof value);
  }
  void attribute(uint16_t type, const char* text) { attribute(type, text, std::strlen(text) + 1); }

  /** Opens a nest; returns what `end` wants. */
  size_t begin(uint16_t type) {
    const size_t start = bytes_.size();
    const nlattr header{0, type};
    append(&header, sizeof header);
    return start;
  }
  void end(size_t start) {
    const auto length = static_cast<uint16_t>(bytes_.size() - start);
    std::memcpy(bytes_.data() + start, &length, sizeof length);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  const std::vector<uint8_t>& finish() {
    const auto length = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data(), &length, sizeof length);
    return bytes_;
  }

 private:
  void append(const void* data, size_t length) {
    const auto* begin = static_cast<const uint8_t*>(data);
    bytes_.insert(bytes_.end(), begin, begin + length);
  }

  std::vector<uint8_t> bytes_;
};

/** One attribute of a message. `offset`: where its value begins, in the message. */
struct Attribute {
  uint16_t type;
  const uint8_t* value;
  size_t length;
  size_t offset;

  template <typename Value>
  Value as(const char* name) const {
    Value result;
    if (length != sizeof result) throw Malformed(std::string(name) + " of " + std::to_string(length) + " bytes", offset);
    std::memcpy(&result, value, sizeof result);
    return result;
  }

  /** Without the closing zero, which the kernel may leave out. */
  std::string text() const {
    const auto* begin = reinterpret_cast<const char*>(value);
    return std::string(begin, strnlen(begin, length));
  }
};

/** Walks attributes that stand one behind the other, and never reads past their end. */
class AttributeReader {
 public:
  AttributeReader(const uint8_t* message, size_t begin, size_t end) : message_(message), offset_(begin), end_(end) {}
  /** Those nested in `parent`. */
  AttributeReader(const uint8_t* message, const Attribute& parent)
      : AttributeReader(message, parent.offset, parent.offset + parent.length) {}

  /** False at the end. */
  bool next(Attribute& attribute) {
    if (offset_ >= end_) return false;
    nlattr header;
    if (end_ - offset_ < sizeof header) throw Malformed("attribute header is cut short", offset_);
    std::memcpy(&header, message_ + offset_, sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > end_ - offset_) {
      throw Malformed("attribute length " + std::to_string(header.nla_len), offset_);
    }
    attribute.type = header.nla_type & NLA_TYPE_MASK;
    attribute.value = message_ + offset_ + sizeof header;
    attribute.length = header.nla_len - sizeof header;
    attribute.offset = offset_ + sizeof header;
    offset_ += NLA_ALIGN(header.nla_len);
    return true;
  }

 private:
  const uint8_t* message_;
  size_t offset_;
  size_t end_;
};

}  // namespace netsweep
