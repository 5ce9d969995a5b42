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
#include <memory>
#include <stdexcept>

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

/** Makes the folder a shared mount, so that a namespace which is deleted here goes from every mount namespace. */
void shareFolder() {
  if (mkdir(kFolder.c_str(), 0755) != 0 && errno != EEXIST) throw SystemError("mkdir " + kFolder, errno);
  // ip-netns(8) holds the same lock: two that both see no mount would stack two of them.
  const Descriptor folder(check(open(kFolder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " + kFolder));
  check(retryInterrupted([&] { return flock(folder.get(), LOCK_EX); }), "flock " + kFolder);

  if (mount("", kFolder.c_str(), "none", MS_SHARED | MS_REC, nullptr) == 0) return;
  // EINVAL: it is no mount point yet.
  if (errno != EINVAL) throw SystemError("mount --make-rshared " + kFolder, errno);
  check(mount(kFolder.c_str(), kFolder.c_str(), "none", MS_BIND | MS_REC, nullptr), "mount --bind " + kFolder);
  check(mount("", kFolder.c_str(), "none", MS_SHARED | MS_REC, nullptr), "mount --make-rshared " + kFolder);
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
  return openNetwork(pathOf(name));
}

void createNamed(const std::string& name) {
  enterMountsOfInit();
  shareFolder();
  const std::string path = pathOf(name);
  Descriptor(check(open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0), "open " + path)).reset();
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
  // EINVAL: nothing is mounted there, a file that was left behind.
  if (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0 && errno != EINVAL) {
    throw SystemError("umount " + path, errno);
  }
  check(unlink(path.c_str()), "unlink " + path);
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
