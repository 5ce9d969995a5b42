#include "named.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>

#include "deadline.h"
#include "system_error.h"

namespace netsweep {
namespace {

const std::string kFolder = "/run/netns";
const char kOwnNetwork[] = "/proc/thread-self/ns/net";

/** Without the privilege, or where PID 1 cannot be seen, the caller's own mount namespace has to do. */
bool isRefusal(int error) {
  return error == EPERM || error == EACCES || error == ENOENT;
}

/** Names belong to the machine: a service with a mount namespace of its own would make them for itself alone. */
void enterMountsOfInit() {
  struct stat own;
  struct stat init;
  check(stat("/proc/thread-self/ns/mnt", &own), "stat /proc/thread-self/ns/mnt");
  if (stat("/proc/1/ns/mnt", &init) != 0) {
    if (isRefusal(errno)) return;
    throw SystemError("stat /proc/1/ns/mnt", errno);
  }
  if (own.st_dev == init.st_dev && own.st_ino == init.st_ino) return;

  const Descriptor mounts(open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC));
  if (!mounts.isOpen()) {
    if (isRefusal(errno)) return;
    throw SystemError("open /proc/1/ns/mnt", errno);
  }
  // Threads share root and working directory, which entering would change for all of them.
  check(unshare(CLONE_FS), "unshare CLONE_FS");
  if (setns(mounts.get(), CLONE_NEWNS) != 0 && !isRefusal(errno)) throw SystemError("setns /proc/1/ns/mnt", errno);
}

std::string pathOf(const std::string& name) {
  return kFolder + "/" + name;
}

/** Anybody may hold it, for as long as he likes; ip-netns(8) does for a moment. As long as iptables waits for its own (`-w 5`). */
void lockFolder(const Descriptor& folder, const std::atomic<bool>& stopped) {
  constexpr std::chrono::seconds kLimit(5);
  constexpr std::chrono::milliseconds kPause(5);
  const auto deadline = Clock::now() + kLimit;
  while (retryInterrupted([&] { return flock(folder.get(), LOCK_EX | LOCK_NB); }) != 0) {
    if (errno != EWOULDBLOCK) throw SystemError("flock " + kFolder, errno);
    if (stopped) throw SystemError("flock " + kFolder, ECANCELED);
    if (Clock::now() >= deadline) {
      throw SystemError("flock " + kFolder + ", which another program has kept locked for 5 s", EWOULDBLOCK);
    }
    std::this_thread::sleep_for(kPause);
  }
}

/** Makes the folder a shared mount, so that a namespace which is deleted here goes from every mount namespace. */
void shareFolder(const std::atomic<bool>& stopped) {
  if (mkdir(kFolder.c_str(), 0755) != 0 && errno != EEXIST) throw SystemError("mkdir " + kFolder, errno);
  // ip-netns(8) holds the same lock: two that both see no mount would stack two of them.
  const Descriptor folder(check(open(kFolder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " + kFolder));
  lockFolder(folder, stopped);

  if (mount("", kFolder.c_str(), "none", MS_SHARED | MS_REC, nullptr) == 0) return;
  // EINVAL: it is no mount point yet.
  if (errno != EINVAL) throw SystemError("mount --make-rshared " + kFolder, errno);
  check(mount(kFolder.c_str(), kFolder.c_str(), "none", MS_BIND | MS_REC, nullptr), "mount --bind " + kFolder);
  check(mount("", kFolder.c_str(), "none", MS_SHARED | MS_REC, nullptr), "mount --make-rshared " + kFolder);
}

/** What a process that was killed while it made a namespace leaves: an empty file that nothing is mounted on. Its inode, or 0. */
uint64_t placeholderAt(const std::string& path) {
  struct statx file;
  const unsigned wanted = STATX_TYPE | STATX_SIZE | STATX_INO;
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, wanted, &file) != 0) {
    if (errno == ENOENT) return 0;
    throw SystemError("statx " + path, errno);
  }
  const bool tellsMounts = (file.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  const bool isMount = !tellsMounts || (file.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  return S_ISREG(file.stx_mode) && file.stx_size == 0 && !isMount ? file.stx_ino : 0;
}

/** Opens and locks a placeholder: one that somebody else has locked is no leftover, he is at work. None: not open. */
Descriptor claimPlaceholder(const std::string& path, int flags) {
  Descriptor file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0));
  if (!file.isOpen()) {
    if (errno == ENOENT && flags == 0) return file;
    throw SystemError("open " + path, errno);
  }
  struct stat opened;
  check(fstat(file.get(), &opened), "fstat " + path);
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 || placeholderAt(path) != opened.st_ino) file.reset();
  return file;
}

}  // namespace

void checkName(const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.size() > 255 || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    throw std::invalid_argument("no name for a network namespace: '" + name + "'");
  }
}

Descriptor openNetwork(const std::string& path) {
  // O_NONBLOCK: opening a pipe that lies there would wait for its writer.
  Descriptor network(check(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), "open " + path));
  struct statfs system;
  check(fstatfs(network.get(), &system), "fstatfs " + path);
  if (system.f_type != NSFS_MAGIC || ioctl(network.get(), NS_GET_NSTYPE) != CLONE_NEWNET) {
    throw std::invalid_argument(path + " is no network namespace");
  }
  return network;
}

Descriptor openNamed(const std::string& name) {
  enterMountsOfInit();
  const std::string path = pathOf(name);
  if (placeholderAt(path) != 0) throw SystemError("open " + path + ", an empty file", ENOENT);
  return openNetwork(path);
}

void createNamed(const std::string& name, const std::atomic<bool>& stopped) {
  enterMountsOfInit();
  shareFolder(stopped);
  const std::string path = pathOf(name);
  const Descriptor file = claimPlaceholder(path, O_CREAT);
  if (!file.isOpen()) throw SystemError("open " + path, EEXIST);
  try {
    check(unshare(CLONE_NEWNET), "unshare CLONE_NEWNET");
    check(mount(kOwnNetwork, path.c_str(), "none", MS_BIND, nullptr), "mount --bind " + path);
  } catch (const SystemError&) {
    unlink(path.c_str());
    throw;
  }
}

void deleteNamed(const std::string& name) {
  enterMountsOfInit();
  const std::string path = pathOf(name);
  // Whatever else bears the name is somebody's.
  openNetwork(path).reset();
  // Not to be left with the name alone.
  check(faccessat(AT_FDCWD, kFolder.c_str(), W_OK, AT_EACCESS), "write to " + kFolder);
  check(umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW), "umount " + path);
  check(unlink(path.c_str()), "unlink " + path);
}

bool deletePlaceholder(const std::string& name) {
  enterMountsOfInit();
  const std::string path = pathOf(name);
  const Descriptor file = claimPlaceholder(path, 0);
  if (file.isOpen()) check(unlink(path.c_str()), "unlink " + path);
  return file.isOpen();
}

std::vector<std::string> listNamed() {
  enterMountsOfInit();
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kFolder.c_str()), closedir);
  if (folder == nullptr) {
    if (errno == ENOENT) return names;
    throw SystemError("opendir " + kFolder, errno);
  }
  errno = 0;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) throw SystemError("readdir " + kFolder, errno);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace netsweep
