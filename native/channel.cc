#include "channel.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "system_error.h"

namespace netsweep {
namespace {

constexpr int kReceiveBuffer = 8 * 1024 * 1024;
// What an answer of ordinary size, a link's, is charged to the receive buffer at most.
constexpr size_t kAnswerCharge = 4096;
constexpr size_t kMostAtOnce = 256;
// Dumps come in datagrams of at most 32 KiB, unless one object alone is larger: a link with its virtual functions.
constexpr size_t kDatagram = 256 * 1024;
// Answers that nobody has taken yet, where they are offered: the kernel waits then.
constexpr size_t kMostAhead = 512 * 1024;
// Answers of one exchange, where they are not. Nothing real comes near: the links of 300,000 workloads would.
constexpr size_t kMostAnswers = size_t{512} * 1024 * 1024;

/** How an exchange ends before it is complete. Thrown and caught in this file alone. */
struct Ended {
  End end;
  int error = 0;
};

void enable(int socket, int option, const char* name) {
  const int on = 1;
  check(setsockopt(socket, SOL_NETLINK, option, &on, sizeof on), std::string("setsockopt ") + name);
}

void checkLimits(const Limits& limits) {
  if (limits.cancelled) throw Ended{End::cancelled};
  if (Clock::now() >= limits.deadline) throw Ended{End::timeout};
}

}  // namespace

/** The requests of one send, while their answers come in. */
struct Channel::Flight {
  Requests& requests;
  const uint32_t base;
  const uint32_t port;
  const size_t first;
  const size_t end;
  size_t unanswered;

  size_t sift(uint8_t* datagram, size_t length);
  bool isAnswer(nlmsghdr& header, const uint8_t* message);
};

void Channel::open() {
  Descriptor socket(check(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol_), "socket"));
  // Without it the kernel ignores what it does not know in a dump's filter, and lists everything.
  enable(socket.get(), NETLINK_GET_STRICT_CHK, "NETLINK_GET_STRICT_CHK");
  enable(socket.get(), NETLINK_EXT_ACK, "NETLINK_EXT_ACK");
  enable(socket.get(), NETLINK_CAP_ACK, "NETLINK_CAP_ACK");

  const int wanted = kReceiveBuffer;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0) {
    // Up to net.core.rmem_max, which is what there is without the privilege.
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
  }
  int granted = 0;
  socklen_t length = sizeof granted;
  check(getsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &granted, &length), "getsockopt SO_RCVBUF");
  mostAtOnce_ = std::clamp(static_cast<size_t>(granted) / kAnswerCharge, size_t{1}, kMostAtOnce);

  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  check(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  length = sizeof address;
  check(getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  port_ = address.nl_pid;
  socket_ = std::move(socket);
}

Exchanged Channel::exchange(Requests& requests, const Limits& limits, const Parts& parts) {
  Exchanged result;
  answers_.clear();
  try {
    exchangeAll(requests, limits, parts);
  } catch (const Ended& ended) {
    result.end = ended.end;
    result.error = ended.error;
  } catch (const SystemError& error) {
    result.end = End::failed;
    result.error = error.error;
  } catch (const std::bad_alloc&) {
    result.end = End::failed;
    result.error = ENOMEM;
  }
  if (result.end != End::complete) socket_.reset();

  if (answers_.size() > Answers::kCopied) {
    answers_.trim();
    result.answers = std::move(answers_);
  } else {
    result.answers = answers_.copy();
  }
  return result;
}

void Channel::exchangeAll(Requests& requests, const Limits& limits, const Parts& parts) {
  if (!socket_.isOpen()) open();
  const uint32_t base = takeSequences(requests.count());
  requests.number(base, port_);
  for (size_t first = 0; first < requests.count();) {
    const size_t end = requests.endOfSend(first, mostAtOnce_);
    Flight flight{requests, base, port_, first, end, end - first};
    send(requests, first, end, limits);
    collect(flight, limits, parts);
    first = end;
    if (first < requests.count()) offer(limits, parts);
  }
}

/** Consecutive numbers that no earlier exchange of this socket had, short of 2^32 requests. Never 0, a notification's. */
uint32_t Channel::takeSequences(size_t count) {
  if (count > UINT32_MAX - nextSequence_) nextSequence_ = 1;
  return std::exchange(nextSequence_, nextSequence_ + static_cast<uint32_t>(count));
}

void Channel::send(const Requests& requests, size_t first, size_t end, const Limits& limits) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  for (;;) {
    checkLimits(limits);
    // A datagram goes whole or not at all.
    if (sendto(socket_.get(), requests.data(first), requests.span(first, end), 0,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) >= 0) {
      return;
    }
    if (errno == EAGAIN) await(POLLOUT, limits);
    else if (errno != EINTR) throw Ended{End::failed, errno};
  }
}

void Channel::collect(Flight& flight, const Limits& limits, const Parts& parts) {
  while (flight.unanswered > 0) {
    if (answers_.size() > kMostAnswers) throw Ended{End::truncated};
    const size_t length = receive(limits);
    answers_.keep(flight.sift(answers_.data() + answers_.size(), length));
    if (flight.unanswered > 0) offer(limits, parts);
  }
}

/** Waits only when too much would come together else. */
void Channel::offer(const Limits& limits, const Parts& parts) {
  if (parts.size == 0 || answers_.size() < parts.size) return;
  while (!parts.give(answers_) && answers_.size() >= kMostAhead) {
    checkLimits(limits);
    await(0, limits);
  }
}

/** One datagram of the kernel's, into the room behind the answers. */
size_t Channel::receive(const Limits& limits) {
  for (;;) {
    checkLimits(limits);
    sockaddr_nl sender{};
    iovec room{answers_.room(kDatagram + NLMSG_ALIGNTO), kDatagram};
    msghdr header{};
    header.msg_name = &sender;
    header.msg_namelen = sizeof sender;
    header.msg_iov = &room;
    header.msg_iovlen = 1;
    const ssize_t length = recvmsg(socket_.get(), &header, 0);
    if (length < 0) {
      if (errno == EAGAIN) await(POLLIN, limits);
      else if (errno == ENOBUFS) throw Ended{End::overrun};
      else if (errno != EINTR) throw Ended{End::failed, errno};
      continue;
    }
    // Any process may send to this port.
    if (sender.nl_pid != 0) continue;
    if ((header.msg_flags & MSG_TRUNC) != 0) throw Ended{End::truncated};
    return static_cast<size_t>(length);
  }
}

/** Until the socket is ready for one of these, or somebody says that there is news. */
void Channel::await(short events, const Limits& limits) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(limits.deadline - Clock::now()).count();
  pollfd polled[] = {{events == 0 ? -1 : socket_.get(), events, 0}, {limits.event, POLLIN, 0}};
  const int ready = poll(polled, 2, static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX)));
  if (ready < 0 && errno != EINTR) throw Ended{End::failed, errno};
  // Another request joined the queue, perhaps: whether this one was cancelled is for checkLimits to say.
  if (ready > 0 && polled[1].revents != 0) {
    eventfd_t count;
    eventfd_read(limits.event, &count);
  }
}

/** Moves the messages that answer this flight to the front of the datagram, numbered by request. Returns their bytes. */
size_t Channel::Flight::sift(uint8_t* datagram, size_t length) {
  size_t kept = 0;
  for (size_t offset = 0; offset < length;) {
    const size_t left = length - offset;
    nlmsghdr header;
    if (left < sizeof header) throw Ended{End::malformed};
    std::memcpy(&header, datagram + offset, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) throw Ended{End::malformed};
    const size_t whole = std::min<size_t>(NLMSG_ALIGN(header.nlmsg_len), left);
    if (isAnswer(header, datagram + offset)) {
      if (kept != offset) std::memmove(datagram + kept, datagram + offset, whole);
      std::memcpy(datagram + kept, &header, sizeof header);
      kept += whole;
    }
    offset += whole;
  }
  // The last may be as long as it says and no longer; the next datagram's begins aligned.
  while (kept % NLMSG_ALIGNTO != 0) datagram[kept++] = 0;
  return kept;
}

/** Whether it answers one of this flight and is wanted. Puts the request's index for its sequence, and notes when it was the last. */
bool Channel::Flight::isAnswer(nlmsghdr& header, const uint8_t* message) {
  const uint32_t index = header.nlmsg_seq - base;
  if (header.nlmsg_pid != port || index < first || index >= end) return false;
  Request& request = requests[index];
  if (request.answered) return false;
  if (request.keep && header.nlmsg_type >= NLMSG_MIN_TYPE && !request.keep->wants(message, header.nlmsg_len)) {
    request.interrupted |= (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    return false;
  }
  header.nlmsg_seq = index;
  if (request.interrupted) header.nlmsg_flags |= NLM_F_DUMP_INTR;

  const bool isEnd = header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE;
  const bool isWhole = !request.isDump && !request.wantsAck && (header.nlmsg_flags & NLM_F_MULTI) == 0;
  if (isEnd || isWhole) {
    request.answered = true;
    --unanswered;
  }
  return true;
}

}  // namespace netsweep
