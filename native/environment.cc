#include "environment.h"

#include <memory>
#include <system_error>
#include <utility>

#include "system_error.h"

namespace netsweep {

void Environment::attach(Napi::Env env) {
  env.SetInstanceData(new Environment(env));
}

Environment::Environment(Napi::Env env) : queue_(Queue::New(env, "netsweep", 0, 1)) {
  queue_.Unref(env);
  // Clean-up hooks run last in, first out: the threads have ended before the queue that they deliver to is taken down.
  env.AddCleanupHook([](Environment* environment) { environment->end(); }, this);
}

void Environment::end() {
  for (auto& [id, entry] : threads_) entry.stop();
  for (auto& [id, entry] : threads_) entry.thread.join();
  threads_.clear();
}

void Environment::start(std::function<void()> work, std::function<void()> stop) {
  const uint64_t id = nextThread_++;
  std::thread thread([this, id, work = std::move(work)] {
    work();
    deliver([this, id](Napi::Env) {
      const auto entry = threads_.find(id);
      entry->second.thread.join();
      threads_.erase(entry);
    });
  });
  threads_.emplace(id, Thread{std::move(thread), std::move(stop)});
}

Napi::Value Environment::run(Napi::Env env, std::function<ToValue()> work, std::function<void()> stop) {
  const Promised promised(env);
  const auto body = [promised, work = std::move(work)] {
    try {
      promised.resolve(work());
    } catch (...) {
      promised.reject(std::current_exception());
    }
  };
  try {
    of(env).start(body, std::move(stop));
  } catch (...) {
    promised.reject(std::current_exception());
  }
  return promised.value();
}

void Environment::deliver(Delivery delivery) {
  auto owned = std::make_unique<Delivery>(std::move(delivery));
  if (queue_.NonBlockingCall(owned.get()) == napi_ok) owned.release();
}

void Environment::call(Napi::Env env, Napi::Function, void*, Delivery* delivery) {
  const std::unique_ptr<Delivery> owned(delivery);
  // Without an environment it is gone: what was not delivered is dropped.
  if (static_cast<napi_env>(env) == nullptr) return;
  try {
    (*owned)(env);
  } catch (const Napi::Error&) {
    // A worker that is being terminated makes no more values, and has nobody to tell.
  }
}

void Environment::hold(Napi::Env env) {
  if (held_++ == 0) queue_.Ref(env);
}

void Environment::release(Napi::Env env) {
  if (--held_ == 0) queue_.Unref(env);
}

Promised::Promised(Napi::Env env) : environment_(Environment::of(env)) {
  napi_value value;
  const napi_status status = napi_create_promise(env, &deferred_, &value);
  NAPI_THROW_IF_FAILED_VOID(env, status);
  value_ = Napi::Value(env, value);
  environment_.hold(env);
}

void Promised::resolve(ToValue result) const {
  environment_.deliver([deferred = deferred_, &environment = environment_, result = std::move(result)](Napi::Env env) {
    environment.release(env);
    napi_resolve_deferred(env, deferred, result(env));
  });
}

void Promised::reject(std::exception_ptr failure) const {
  environment_.deliver([deferred = deferred_, &environment = environment_, failure](Napi::Env env) {
    environment.release(env);
    napi_reject_deferred(env, deferred, errorValue(env, failure));
  });
}

Napi::Value errorValue(Napi::Env env, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const SystemError& error) {
    Napi::Object value = Napi::Error::New(env, error.what()).Value();
    value.Set("errno", error.error);
    value.Set("syscall", error.call);
    return value;
  } catch (const Napi::Error& error) {
    return error.Value();
  } catch (const std::system_error& error) {
    // A thread that could not be made.
    Napi::Object value = Napi::Error::New(env, error.what()).Value();
    value.Set("errno", error.code().value());
    value.Set("syscall", "clone");
    return value;
  } catch (const std::exception& error) {
    return Napi::Error::New(env, error.what()).Value();
  }
}

}  // namespace netsweep
