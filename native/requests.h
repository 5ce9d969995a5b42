// The requests of one exchange: checked, found, and numbered in a private copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace netsweep {

/**
 * Which of the objects that a dump lists are wanted: those whose attribute, 32 bits behind a family header of `header` bytes,
 * has one of `values`; and those that have no such attribute, when `without` says so.
 */
struct Keep {
  size_t header;
  uint16_t attribute;
  std::vector<uint32_t> values;
  bool without;

  /** Wanted too: what cannot be read, which is for the reader to say. `length`: of the whole message. */
  bool wants(const uint8_t* message, size_t length) const;
};

struct Request {
  size_t offset;
  size_t length;
  /** Answered by a list that ends in NLMSG_DONE. */
  bool isDump;
  /** Answered by an NLMSG_ERROR at its end, with error 0 for success. */
  bool wantsAck;
  bool answered;
  std::optional<Keep> keep;
  /** An object that was not wanted said that the dump was interrupted. */
  bool interrupted;
};

class Requests {
 public:
  /** Throws std::invalid_argument for a batch that is not well-formed, with the request and where it stands. */
  Requests(int protocol, std::vector<uint8_t> bytes);

  size_t count() const { return requests_.size(); }
  Request& operator[](size_t index) { return requests_[index]; }
  const uint8_t* data(size_t index) const { return bytes_.data() + requests_[index].offset; }

  /** Throws std::invalid_argument when there is no such request, or it is no dump. */
  void keep(size_t index, Keep keep);

  /** Fills in sequence (`base` + index) and port. */
  void number(uint32_t base, uint32_t port);

  /** One past the last request that goes out in the same send as `first`: a dump goes alone. */
  size_t endOfSend(size_t first, size_t most) const;
  /** Bytes from the request `first` to the end of the one before `end`. */
  size_t span(size_t first, size_t end) const;

 private:
  std::vector<uint8_t> bytes_;
  std::vector<Request> requests_;
};

}  // namespace netsweep
