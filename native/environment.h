// One JavaScript environment (the main thread's or a worker's), the threads that work for it, and their way back.
#pragma once

#include <napi.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <unordered_map>

namespace netsweep {

/** Makes the JavaScript value of a result. Runs on the JavaScript thread. */
using ToValue = std::function<Napi::Value(Napi::Env)>;

class Environment {
 public:
  /** Binds one to `env`: once, when the addon is loaded there. */
  static void attach(Napi::Env env);
  static Environment& of(Napi::Env env) { return *env.GetInstanceData<Environment>(); }

  /**
   * Starts a thread. `stop` makes `work` return soon: it is called when the environment ends, on the JavaScript
   * thread, which then waits for the thread.
   */
  void start(std::function<void()> work, std::function<void()> stop);

  /**
   * Runs `work` on a thread that is made for it and ends with it; a promise of what it returns or throws. `stop` as above: for
   * work that may wait for somebody.
   */
  static Napi::Value run(Napi::Env env, std::function<ToValue()> work, std::function<void()> stop = [] {});

  /** From any thread: `delivery` runs on the JavaScript thread; never, when the environment ends before. */
  void deliver(std::function<void(Napi::Env)> delivery);

  /** A pending promise keeps the process alive; an open socket alone does not. JavaScript thread. */
  void hold(Napi::Env env);
  void release(Napi::Env env);

 private:
  using Delivery = std::function<void(Napi::Env)>;
  static void call(Napi::Env env, Napi::Function, void*, Delivery* delivery);
  using Queue = Napi::TypedThreadSafeFunction<void, Delivery, call>;

  struct Thread {
    std::thread thread;
    std::function<void()> stop;
  };

  explicit Environment(Napi::Env env);
  void end();

  Queue queue_;
  std::unordered_map<uint64_t, Thread> threads_;
  uint64_t nextThread_ = 0;
  uint64_t held_ = 0;
};

/** A promise of JavaScript's that a thread keeps. It holds the environment until it is settled. */
class Promised {
 public:
  explicit Promised(Napi::Env env);

  /** Valid in the callback that made this, and nowhere else. */
  Napi::Value value() const { return value_; }

  /** From any thread; one of the two, once. */
  void resolve(ToValue result) const;
  void reject(std::exception_ptr failure) const;

 private:
  Environment& environment_;
  napi_deferred deferred_;
  Napi::Value value_;
};

/** Calls `body`, and turns what is wrong with its arguments into the exception or the rejection that JavaScript gets. */
template <typename Body>
Napi::Value rejecting(Napi::Env env, Body body) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (...) {
    const Promised promised(env);
    promised.reject(std::current_exception());
    return promised.value();
  }
}

/** The Error for a failure: with `errno` and `syscall` when it was a system call's. */
Napi::Value errorValue(Napi::Env env, std::exception_ptr failure);

}  // namespace netsweep
