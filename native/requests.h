// The requests of one exchange: checked, found, and numbered in a private copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace netsweep {

struct Request {
  size_t offset;
  size_t length;
  /** Answered by a list that ends in NLMSG_DONE. */
  bool isDump;
  /** Answered by an NLMSG_ERROR at its end, with error 0 for success. */
  bool wantsAck;
  bool answered;
};

class Requests {
 public:
  /** Throws std::invalid_argument for a batch that is not well-formed, with the request and where it stands. */
  Requests(int protocol, std::vector<uint8_t> bytes);

  size_t count() const { return requests_.size(); }
  Request& operator[](size_t index) { return requests_[index]; }
  const uint8_t* data(size_t index) const { return bytes_.data() + requests_[index].offset; }

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
