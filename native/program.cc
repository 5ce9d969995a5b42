#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "deadline.h"
#include "descriptor.h"
#include "environment.h"
#include "namespace.h"
#include "system_error.h"

namespace netsweep {
namespace {

enum class Killed { no, timeout, aborted };

Napi::Value bufferOf(Napi::Env env, const std::vector<uint8_t>& bytes) {
  return Napi::Buffer<uint8_t>::Copy(env, bytes.data(), bytes.size());
}

/** What a program has written, for whoever takes it while it goes on. */
class Output {
 public:
  /** Keeps it: the next part, and nothing when there is no more. JavaScript's thread. */
  void next(const Promised& promised) {
    const std::lock_guard lock(mutex_);
    if (waiting_) {
      promised.reject(std::make_exception_ptr(std::logic_error("the part before has not come yet")));
      return;
    }
    waiting_.emplace(promised);
    give();
  }

  /** Takes these, which are none afterwards. Any thread, as the one below. */
  void add(std::vector<uint8_t>& bytes) {
    const std::lock_guard lock(mutex_);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes.clear();
    give();
  }

  /** There is no more. */
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    give();
  }

 private:
  // Some hundred rules of iptables: a fraction of a millisecond to read.
  static constexpr size_t kPart = 32 * 1024;

  /** With the mutex held. */
  void give() {
    if (!waiting_ || (!over_ && bytes_.size() < kPart)) return;
    const auto end = bytes_.begin() + static_cast<ptrdiff_t>(std::min(bytes_.size(), kPart));
    const auto part = std::make_shared<std::vector<uint8_t>>(bytes_.begin(), end);
    bytes_.erase(bytes_.begin(), end);
    waiting_->resolve([part](Napi::Env env) { return bufferOf(env, *part); });
    waiting_.reset();
  }

  std::mutex mutex_;
  std::vector<uint8_t> bytes_;
  bool over_ = false;
  std::optional<Promised> waiting_;
};

/** What is to be run, and what ends it early. */
struct Program {
  std::string path;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  std::vector<uint8_t> input;
  bool hasInput = false;
  Descriptor netns;
  /** The program's numbers 3 and so on. */
  std::vector<Descriptor> descriptors;
  Clock::time_point deadline;
  /** Its output is taken in parts. */
  bool inParts = false;
  Output output;
  Descriptor event{check(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")};
  std::atomic<bool> aborted{false};

  /** From any thread. */
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted = true;
    if (event.isOpen()) eventfd_write(event.get(), 1);
  }
  /** JavaScript may hold on to this for as long as it likes. */
  void close() {
    const std::lock_guard lock(mutex_);
    event.reset();
    netns.reset();
    descriptors.clear();
    input = {};
    output.end();
  }

 private:
  std::mutex mutex_;
};

struct Ended {
  /** Why it was not started; then there is nothing else. */
  int error = 0;
  /** Of waitpid(2); none when somebody else in this process has waited for it. */
  std::optional<int> status;
  Killed killed = Killed::no;
  std::vector<uint8_t> out;
  std::vector<uint8_t> err;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe makePipe() {
  int ends[2];
  check(pipe2(ends, O_CLOEXEC), "pipe2");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

void unblock(const Descriptor& end) {
  check(fcntl(end.get(), F_SETFL, O_NONBLOCK), "fcntl F_SETFL");
}

/** One past the last number that the program gets. Whatever becomes one of these is moved beyond them first, so that none is overwritten. */
int beyond(const Program& program) {
  return STDERR_FILENO + 1 + static_cast<int>(program.descriptors.size());
}

Descriptor moved(const Descriptor& from, int least) {
  return Descriptor(check(fcntl(from.get(), F_DUPFD_CLOEXEC, least), "fcntl F_DUPFD_CLOEXEC"));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

/** posix_spawn(3), as the calls that prepare it say what went wrong: by their result. */
class Spawn {
 public:
  Spawn() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  Spawn(const Spawn&) = delete;
  ~Spawn() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }

  /** In a session of its own: it is killed with all that it started, and Ctrl-C does not end it half-way. Signals as in a shell. */
  void prepare() {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    need(posix_spawnattr_setsigmask(&attributes_, &none));
    need(posix_spawnattr_setsigdefault(&attributes_, &all));
    need(posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  void give(const Descriptor& from, int number) { need(posix_spawn_file_actions_adddup2(&actions_, from.get(), number)); }
  void openNull(int number) { need(posix_spawn_file_actions_addopen(&actions_, number, "/dev/null", O_RDONLY, 0)); }

  /** Returns an errno. The calling thread waits until the program has begun; the memory is shared until then, and not copied. */
  int start(pid_t& pid, Program& program) {
    const int error = spawn(pid, program.path, program);
    if (error != ENOEXEC) return error;
    // A script that does not say what runs it: as execvp(3) does.
    const std::string shell = "/bin/sh";
    program.arguments.front() = program.path;
    program.arguments.insert(program.arguments.begin(), shell);
    return spawn(pid, shell, program);
  }

 private:
  int spawn(pid_t& pid, const std::string& path, Program& program) {
    const auto arguments = pointers(program.arguments);
    const auto environment = pointers(program.environment);
    return posix_spawn(&pid, path.c_str(), &actions_, &attributes_, arguments.data(), environment.data());
  }
  static void need(int error) {
    if (error != 0) throw SystemError("posix_spawn", error);
  }
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

/** The program while it runs. */
class Running {
 public:
  Running(Program& program, Ended& ended) : program_(program), ended_(ended) {}
  Running(const Running&) = delete;
  /** When waiting for it failed: nobody else would ever hear of its end. */
  ~Running() {
    if (pid_ < 0) return;
    ::kill(-pid_, SIGKILL);
    retryInterrupted([&] { return waitpid(pid_, nullptr, 0); });
  }

  /** False when it could not be started. */
  bool start() {
    const int least = beyond(program_);
    Pipe in, out = makePipe(), err = makePipe();
    Spawn spawn;
    spawn.prepare();
    std::vector<Descriptor> given;
    const auto give = [&](const Descriptor& from, int number) { spawn.give(given.emplace_back(moved(from, least)), number); };
    if (program_.hasInput) {
      in = makePipe();
      unblock(in.write);
      give(in.read, STDIN_FILENO);
    } else {
      spawn.openNull(STDIN_FILENO);
    }
    give(out.write, STDOUT_FILENO);
    give(err.write, STDERR_FILENO);
    for (size_t i = 0; i < program_.descriptors.size(); ++i) give(program_.descriptors[i], STDERR_FILENO + 1 + static_cast<int>(i));
    unblock(out.read);
    unblock(err.read);

    pid_t pid;
    ended_.error = spawn.start(pid, program_);
    if (ended_.error != 0) return false;
    pid_ = pid;
    in_ = std::move(in.write);
    out_ = std::move(out.read);
    err_ = std::move(err.read);
    return true;
  }

  /** Until it has ended and nobody writes to its pipes any more, or until it was killed and has ended. */
  void finish() {
    // Where there is none, for want of a number or in a sandbox, its end is looked for every few milliseconds.
    const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    bool hasEnded = false;
    for (;;) {
      if (ended_.killed == Killed::no && (!hasEnded || isHeard())) kill();
      if (hasEnded && (ended_.killed != Killed::no || !isHeard())) break;
      pollfd polled[] = {{hasEnded ? -1 : process.get(), POLLIN, 0},
                         {program_.event.get(), POLLIN, 0},
                         {in_.get(), POLLOUT, 0},
                         {out_.get(), POLLIN, 0},
                         {err_.get(), POLLIN, 0}};
      int timeout = timeLeft();
      if (!hasEnded && !process.isOpen()) timeout = timeout < 0 ? kLookAgain : std::min(timeout, kLookAgain);
      if (poll(polled, 5, timeout) < 0 && errno != EINTR) throw SystemError("poll", errno);
      eventfd_t count;
      if (polled[1].revents != 0) eventfd_read(program_.event.get(), &count);
      if (polled[2].revents != 0) write();
      // Before what it wrote is read: then nothing comes after that.
      hasEnded = hasEnded || isOver();
      read(out_, ended_.out);
      if (program_.inParts) program_.output.add(ended_.out);
      read(err_, ended_.err);
    }
    reap();
  }

 private:
  static constexpr int kLookAgain = 5;

  /** Somebody may still write. */
  bool isHeard() const { return out_.isOpen() || err_.isOpen(); }

  /** Whether it has ended. Until it is reaped, its number is nobody else's, and so is that of its group. */
  bool isOver() const {
    siginfo_t info{};
    const int result = retryInterrupted([&] { return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | WNOHANG); });
    return result != 0 || info.si_pid != 0;
  }

  void reap() {
    int status;
    if (retryInterrupted([&] { return waitpid(pid_, &status, 0); }) == pid_) ended_.status = status;
    pid_ = -1;
  }

  /** With all that it started, when its time is over. */
  void kill() {
    if (program_.aborted) ended_.killed = Killed::aborted;
    else if (Clock::now() >= program_.deadline) ended_.killed = Killed::timeout;
    else return;
    ::kill(-pid_, SIGKILL);
  }

  int timeLeft() const {
    if (ended_.killed != Killed::no) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(program_.deadline - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, INT32_MAX));
  }

  void write() {
    while (written_ < program_.input.size()) {
      const ssize_t count = ::write(in_.get(), program_.input.data() + written_, program_.input.size() - written_);
      if (count < 0 && errno == EAGAIN) return;
      if (count < 0 && errno == EINTR) continue;
      // A program that ends without reading its input says why in its status.
      if (count < 0) break;
      written_ += static_cast<size_t>(count);
    }
    in_.reset();
  }

  /** Some of what there is: whether its time is over is to be seen in between. */
  void read(Descriptor& from, std::vector<uint8_t>& into) {
    constexpr size_t kAtOnce = 64 * 1024;
    for (int times = 0; from.isOpen() && times < 16; ++times) {
      const size_t size = into.size();
      into.resize(size + kAtOnce);
      const ssize_t count = ::read(from.get(), into.data() + size, kAtOnce);
      into.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
      if (count > 0 || (count < 0 && errno == EINTR)) continue;
      if (count < 0 && errno == EAGAIN) return;
      from.reset();
    }
  }

  Program& program_;
  Ended& ended_;
  /** -1 when it was not started, or reaped. */
  pid_t pid_ = -1;
  Descriptor in_, out_, err_;
  size_t written_ = 0;
};

Ended run(Program& program) {
  // A pipe that nobody reads must not end the process, and signals are for the other threads.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  enter(program.netns);
  Ended ended;
  Running running(program, ended);
  const bool isStarted = running.start();
  if (isStarted) running.finish();
  return ended;
}

const char* nameOf(Killed killed) {
  return killed == Killed::timeout ? "timeout" : "aborted";
}

Napi::Value endedValue(Napi::Env env, const Ended& ended) {
  auto result = Napi::Object::New(env);
  result.Set("errno", ended.error);
  const auto& status = ended.status;
  result.Set("status", status && WIFEXITED(*status) ? Napi::Number::New(env, WEXITSTATUS(*status)) : env.Null());
  result.Set("signal", status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0);
  result.Set("killed", ended.killed == Killed::no ? env.Null() : Napi::String::New(env, nameOf(ended.killed)));
  result.Set("stdout", bufferOf(env, ended.out));
  result.Set("stderr", bufferOf(env, ended.err));
  return result;
}

/** It would be cut at a NUL. */
std::string word(const Napi::Value& value, const char* name) {
  std::string result = text(value, name);
  if (result.find('\0') != std::string::npos) throw Napi::TypeError::New(value.Env(), std::string(name) + " with a NUL");
  return result;
}

std::vector<std::string> words(const Napi::Value& value, const char* name) {
  if (!value.IsArray()) throw Napi::TypeError::New(value.Env(), std::string(name) + " is no array");
  std::vector<std::string> result;
  const auto list = value.As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); ++i) result.push_back(word(list.Get(i), name));
  return result;
}

std::shared_ptr<Program> programOf(const Napi::Object& options) {
  auto program = std::make_shared<Program>();
  program->path = word(options.Get("path"), "path");
  program->arguments = words(options.Get("args"), "args");
  program->arguments.insert(program->arguments.begin(), program->path);
  program->environment = words(options.Get("env"), "env");
  const Napi::Value input = options.Get("input");
  program->hasInput = !input.IsNull();
  if (program->hasInput) program->input = bytes(input, "input");
  program->netns = duplicate(descriptor(options.Get("netnsFd"), "netnsFd"));
  const Napi::Value descriptors = options.Get("descriptors");
  if (!descriptors.IsArray()) throw Napi::TypeError::New(options.Env(), "descriptors is no array");
  const auto list = descriptors.As<Napi::Array>();
  for (uint32_t i = 0; i < list.Length(); ++i)
    program->descriptors.push_back(duplicate(static_cast<int>(integer(list.Get(i), "descriptor", 0, INT32_MAX))));
  const Napi::Value inParts = options.Get("inParts");
  if (!inParts.IsBoolean()) throw Napi::TypeError::New(options.Env(), "inParts is no boolean");
  program->inParts = inParts.As<Napi::Boolean>();
  program->deadline = deadlineAfter(options.Get("timeoutMs"));
  return program;
}

}  // namespace

Napi::Value startProgram(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!info[0].IsObject()) throw Napi::TypeError::New(env, "program is no object");
  const Promised promised(env);
  auto started = Napi::Object::New(env);
  started.Set("ended", promised.value());
  std::shared_ptr<Program> program;
  try {
    program = programOf(info[0].As<Napi::Object>());
    const auto body = [program, promised] {
      try {
        const auto ended = std::make_shared<Ended>(run(*program));
        // Its descriptors may be locked files: who learns of the end must be able to let go of the lock.
        program->close();
        promised.resolve([ended](Napi::Env env) { return endedValue(env, *ended); });
      } catch (...) {
        program->close();
        promised.reject(std::current_exception());
      }
    };
    Environment::of(env).start(body, [program] { program->abort(); });
  } catch (...) {
    // What is wrong with an argument as well: nothing of it may have begun.
    if (program) program->close();
    promised.reject(std::current_exception());
  }
  started.Set("next", Napi::Function::New(env, [program](const Napi::CallbackInfo& info) {
    const Promised promised(info.Env());
    // Nothing was started.
    if (!program) promised.resolve([](Napi::Env env) { return bufferOf(env, {}); });
    else program->output.next(promised);
    return promised.value();
  }));
  started.Set("kill", Napi::Function::New(env, [program](const Napi::CallbackInfo&) {
    if (program) program->abort();
  }));
  return started;
}

}  // namespace netsweep
