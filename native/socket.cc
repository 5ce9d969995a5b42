#include "socket.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arguments.h"
#include "channel.h"
#include "deadline.h"
#include "environment.h"
#include "namespace.h"
#include "system_error.h"

namespace netsweep {
namespace {

const char* nameOf(End end) {
  switch (end) {
    case End::complete: return "complete";
    case End::truncated: return "truncated";
    case End::overrun: return "overrun";
    case End::malformed: return "malformed";
    case End::timeout: return "timeout";
    case End::cancelled: return "cancelled";
    case End::failed: return "failed";
    case End::more: return "more";
  }
  return "failed";
}

Napi::Value exchangedValue(Napi::Env env, Exchanged& exchanged) {
  const size_t size = exchanged.answers.size();
  auto result = Napi::Object::New(env);
  result.Set("end", nameOf(exchanged.end));
  result.Set("errno", exchanged.error);
  if (size <= Answers::kCopied) {
    result.Set("bytes", Napi::Buffer<uint8_t>::Copy(env, exchanged.answers.data(), size));
  } else {
    const auto free = [](Napi::Env, uint8_t* data) { std::free(data); };
    result.Set("bytes", Napi::Buffer<uint8_t>::NewOrCopy(env, exchanged.answers.release(), size, free));
  }
  return result;
}

void settle(const Promised& promised, Exchanged exchanged) {
  const auto shared = std::make_shared<Exchanged>(std::move(exchanged));
  promised.resolve([shared](Napi::Env env) { return exchangedValue(env, *shared); });
}

class Owner;

/** One exchange that runs or waits. */
struct Job {
  Job(Requests requests, Clock::time_point deadline, uint32_t key, size_t part, const Promised& promised,
      std::shared_ptr<Owner> owner)
      : requests(std::move(requests)), deadline(deadline), key(key), part(part), owner(std::move(owner)), promised(promised) {}

  Requests requests;
  const Clock::time_point deadline;
  const uint32_t key;
  /** Bytes from which on answers are handed over before they are complete; 0: never. */
  const size_t part;
  /** Keeps a socket that nobody else refers to any more from being closed under it. */
  const std::shared_ptr<Owner> owner;
  std::atomic<bool> cancelled{false};

  // With the worker's mutex held, unless nobody else can know the job any more.
  /** Who waits for the next of it; nobody, while the last part is being read. */
  std::optional<Promised> promised;
  /** How it ended, while nobody waits for that. */
  Exchanged exchanged;
};

/** The queue between JavaScript's thread and the socket's, and what the latter does. */
class Worker {
 public:
  explicit Worker(int protocol)
      : protocol(protocol), channel_(protocol), event_(check(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}

  const int protocol;

  uint32_t port() const { return channel_.port(); }

  // The socket's thread.
  void open(const Descriptor& netns) {
    if (netns.isOpen()) check(setns(netns.get(), CLONE_NEWNET), "setns");
    channel_.open();
  }
  void serve();

  // Any thread.
  void add(std::shared_ptr<Job> job);
  /** Goes on with an exchange of which a part was handed over. */
  void more(uint32_t key, const Promised& promised);
  void cancel(std::optional<uint32_t> key);
  void close();

 private:
  using Jobs = std::deque<std::shared_ptr<Job>>;
  std::shared_ptr<Job> next();
  bool give(Job& job, Answers& answers);
  void finish(const std::shared_ptr<Job>& job, Exchanged exchanged);
  void end(const std::function<bool(const Job&)>& isMeant, bool close);
  /** With the mutex held. */
  void wake() {
    if (event_.isOpen()) eventfd_write(event_.get(), 1);
  }

  Channel channel_;
  Descriptor event_;
  std::mutex mutex_;
  Jobs waiting_;
  std::shared_ptr<Job> running_;
  /** Their last part has not been asked for yet. */
  Jobs ended_;
  bool closed_ = false;
};

void Worker::serve() {
  while (const std::shared_ptr<Job> job = next()) {
    const Parts parts{job->part, [&](Answers& answers) { return give(*job, answers); }};
    finish(job, channel_.exchange(job->requests, {job->deadline, job->cancelled, event_.get()}, parts));
  }
  // Not left to the destructor: JavaScript may hold the closed socket for as long as it likes.
  const std::lock_guard lock(mutex_);
  channel_.close();
  event_.reset();
}

/** Waits for the next exchange. Null when the socket is closed. */
std::shared_ptr<Job> Worker::next() {
  // Let go of outside the lock: the last reference to the socket may be the job's, and closing takes the lock.
  std::shared_ptr<Job> finished;
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      finished = std::move(running_);
      if (closed_) return nullptr;
      if (!waiting_.empty()) {
        running_ = std::move(waiting_.front());
        waiting_.pop_front();
        return running_;
      }
    }
    finished = nullptr;
    pollfd polled{event_.get(), POLLIN, 0};
    poll(&polled, 1, -1);
    eventfd_t count;
    eventfd_read(event_.get(), &count);
  }
}

void Worker::add(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  if (closed_) throw std::logic_error("the netlink socket is closed");
  waiting_.push_back(std::move(job));
  wake();
}

void Worker::more(uint32_t key, const Promised& promised) {
  const std::lock_guard lock(mutex_);
  const auto isMeant = [key](const auto& job) { return job && job->key == key && !job->promised; };
  if (closed_ || (isMeant(running_) && running_->cancelled)) {
    settle(promised, Exchanged{{}, End::cancelled});
    return;
  }
  if (isMeant(running_)) {
    running_->promised.emplace(promised);
    wake();
    return;
  }
  const auto ended = std::find_if(ended_.begin(), ended_.end(), isMeant);
  if (ended == ended_.end()) throw std::logic_error("no exchange of that key has more");
  settle(promised, std::move((*ended)->exchanged));
  ended_.erase(ended);
}

/** Hands over what there is. False when nobody waits for it. */
bool Worker::give(Job& job, Answers& answers) {
  const std::lock_guard lock(mutex_);
  if (!job.promised || job.cancelled) return false;
  settle(*job.promised, Exchanged{answers.copy(), End::more});
  job.promised.reset();
  answers.clear();
  return true;
}

void Worker::finish(const std::shared_ptr<Job>& job, Exchanged exchanged) {
  const std::lock_guard lock(mutex_);
  if (job->promised) {
    settle(*job->promised, std::move(exchanged));
  } else if (!job->cancelled) {
    job->exchanged = std::move(exchanged);
    ended_.push_back(job);
    running_ = nullptr;
  }
}

void Worker::cancel(std::optional<uint32_t> key) {
  end([key](const Job& job) { return !key || job.key == *key; }, false);
}

void Worker::close() {
  end([](const Job&) { return true; }, true);
}

/** Those that wait end at once; the one that runs, as soon as its thread sees it; nobody will ask for the rest of the others. */
void Worker::end(const std::function<bool(const Job&)>& isMeant, bool close) {
  // Let go of outside the lock, as in `next`.
  Jobs ended, dropped;
  const auto take = [&](Jobs& jobs, Jobs& into) {
    const auto kept = std::stable_partition(jobs.begin(), jobs.end(), [&](const auto& job) { return !isMeant(*job); });
    into.assign(std::make_move_iterator(kept), std::make_move_iterator(jobs.end()));
    jobs.erase(kept, jobs.end());
  };
  {
    const std::lock_guard lock(mutex_);
    closed_ = closed_ || close;
    take(waiting_, ended);
    take(ended_, dropped);
    if (running_ && isMeant(*running_)) running_->cancelled = true;
    wake();
  }
  for (const auto& job : ended) settle(*job->promised, Exchanged{{}, End::cancelled});
}

/** What JavaScript refers to: the socket closes with the last reference. */
class Owner {
 public:
  explicit Owner(std::shared_ptr<Worker> worker) : worker(std::move(worker)) {}
  ~Owner() { worker->close(); }
  const std::shared_ptr<Worker> worker;
};

std::vector<std::pair<size_t, Keep>> keepsOf(const Napi::Value& value) {
  std::vector<std::pair<size_t, Keep>> keeps;
  if (value.IsUndefined()) return keeps;
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), "keeps is no array");
  const auto list = value.As<Napi::Array>();
  for (uint32_t place = 0; place < list.Length(); ++place) {
    const auto object = Napi::Value(list.Get(place)).ToObject();
    const auto values = Napi::Value(object.Get("values"));
    if (!values.IsArray()) throw Napi::TypeError::New(value.Env(), "values is no array");
    Keep keep{unsigned32(object.Get("header"), "header"),
              static_cast<uint16_t>(integer(object.Get("attribute"), "attribute", 0, UINT16_MAX)),
              {},
              Napi::Value(object.Get("without")).ToBoolean()};
    const auto wanted = values.As<Napi::Array>();
    for (uint32_t i = 0; i < wanted.Length(); ++i) keep.values.push_back(unsigned32(wanted.Get(i), "value"));
    keeps.emplace_back(unsigned32(object.Get("request"), "request"), std::move(keep));
  }
  return keeps;
}

Napi::Value exchange(const Napi::CallbackInfo& info, const std::shared_ptr<Owner>& owner) {
  const Napi::Env env = info.Env();
  std::vector<uint8_t> batch = bytes(info[0], "requests");
  const Clock::time_point deadline = deadlineAfter(info[1]);
  const uint32_t key = info[2].IsUndefined() ? 0 : unsigned32(info[2], "key");
  std::vector<std::pair<size_t, Keep>> keeps = keepsOf(info[3]);
  const size_t part = info[4].IsUndefined() ? 0 : unsigned32(info[4], "part");
  const Promised promised(env);
  try {
    Requests requests(owner->worker->protocol, std::move(batch));
    for (auto& [index, keep] : keeps) requests.keep(index, std::move(keep));
    owner->worker->add(std::make_shared<Job>(std::move(requests), deadline, key, part, promised, owner));
  } catch (...) {
    promised.reject(std::current_exception());
  }
  return promised.value();
}

Napi::Value socketValue(Napi::Env env, const std::shared_ptr<Owner>& owner) {
  auto socket = Napi::Object::New(env);
  const auto port = [owner](const Napi::CallbackInfo& call) {
    return Napi::Number::New(call.Env(), owner->worker->port());
  };
  socket.DefineProperty(Napi::PropertyDescriptor::Accessor(env, socket, "port", port, napi_enumerable));
  socket.Set("exchange",
             Napi::Function::New(env, [owner](const Napi::CallbackInfo& call) { return exchange(call, owner); }));
  socket.Set("more", Napi::Function::New(env, [owner](const Napi::CallbackInfo& call) {
    const uint32_t key = unsigned32(call[0], "key");
    const Promised promised(call.Env());
    try {
      owner->worker->more(key, promised);
    } catch (...) {
      promised.reject(std::current_exception());
    }
    return promised.value();
  }));
  socket.Set("cancel", Napi::Function::New(env, [owner](const Napi::CallbackInfo& call) {
    if (call[0].IsUndefined()) owner->worker->cancel(std::nullopt);
    else owner->worker->cancel(unsigned32(call[0], "key"));
  }));
  socket.Set("close", Napi::Function::New(env, [owner](const Napi::CallbackInfo&) { owner->worker->close(); }));
  return socket;
}

}  // namespace

Napi::Value openSocket(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const int protocol = static_cast<int>(integer(info[0], "protocol", 0, INT32_MAX));
  const int netnsFd = descriptor(info[1], "netnsFd");
  const Promised promised(env);
  try {
    const auto worker = std::make_shared<Worker>(protocol);
    const auto netns = std::make_shared<Descriptor>(duplicate(netnsFd));
    const auto body = [worker, netns, promised] {
      try {
        worker->open(*netns);
      } catch (...) {
        promised.reject(std::current_exception());
        return;
      }
      netns->reset();
      // Made on this side already, so that a result which is never delivered closes the socket too.
      auto owner = std::make_shared<Owner>(worker);
      promised.resolve([owner = std::move(owner)](Napi::Env env) { return socketValue(env, owner); });
      worker->serve();
    };
    Environment::of(env).start(body, [worker] { worker->close(); });
  } catch (...) {
    promised.reject(std::current_exception());
  }
  return promised.value();
}

}  // namespace netsweep
