// A netlink socket and the exchange of requests and answers over it. Knows no JavaScript and no threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "answers.h"
#include "deadline.h"
#include "descriptor.h"
#include "requests.h"

namespace netsweep {

enum class End {
  complete,
  truncated,
  overrun,
  malformed,
  timeout,
  cancelled,
  failed,
  /** No end: a part of the answers. */
  more,
};

struct Exchanged {
  Answers answers;
  End end = End::complete;
  /** Of End::failed. */
  int error = 0;
};

/** What ends an exchange from outside. `event`: an eventfd that becomes readable when `cancelled` has been set. */
struct Limits {
  Clock::time_point deadline;
  const std::atomic<bool>& cancelled;
  int event;
};

/** Where the answers go before they are complete. */
struct Parts {
  /** Bytes from which on they are offered; 0: never. */
  size_t size;
  /** Takes them and clears them, or answers false: later. */
  std::function<bool(Answers&)> give;
};

class Channel {
 public:
  explicit Channel(int protocol) : protocol_(protocol) {}

  /** Opens the socket in the network namespace of the calling thread. Throws SystemError. */
  void open();

  /** The port that the kernel assigned. From any thread. */
  uint32_t port() const { return port_; }

  /**
   * After any end but `complete` the socket is opened anew before the next exchange: it may hold a half-read
   * dump, which the kernel would finish before it takes another.
   */
  Exchanged exchange(Requests& requests, const Limits& limits, const Parts& parts);

  /** Closes the socket, which keeps its network namespace alive. */
  void close() { socket_.reset(); }

 private:
  struct Flight;

  void exchangeAll(Requests& requests, const Limits& limits, const Parts& parts);
  void send(const Requests& requests, size_t first, size_t end, const Limits& limits);
  void collect(Flight& flight, const Limits& limits, const Parts& parts);
  void offer(const Limits& limits, const Parts& parts);
  size_t receive(const Limits& limits);
  void await(short events, const Limits& limits);
  uint32_t takeSequences(size_t count);

  const int protocol_;
  Descriptor socket_;
  std::atomic<uint32_t> port_{0};
  uint32_t nextSequence_ = 1;
  /** Requests whose answers are sure to fit the receive buffer together. */
  size_t mostAtOnce_ = 1;
  /** What came in and was not handed over yet; its room stays allocated from one exchange to the next. */
  Answers answers_;
};

}  // namespace netsweep
