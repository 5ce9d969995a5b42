// Named network namespaces, as ip-netns(8) keeps them: files below /run/netns on which a namespace is mounted.
// Every function here changes the calling thread for good: it must end soon after.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "descriptor.h"

namespace netsweep {

/** Throws std::invalid_argument for a name that is no file name. */
void checkName(const std::string& name);

/** Opens what is at `path`. Throws when that is no network namespace. */
Descriptor openNetwork(const std::string& path);
/** Opens /run/netns/<name>. ENOENT for a placeholder too: an empty file that nothing is mounted on. */
Descriptor openNamed(const std::string& name);
/** Takes over a placeholder. Waits some seconds while somebody else holds the folder, or until it is stopped. */
void createNamed(const std::string& name, const std::atomic<bool>& stopped);
void deleteNamed(const std::string& name);
/** Whether there was one. */
bool deletePlaceholder(const std::string& name);
/** Sorted; empty when the folder is not there. */
std::vector<std::string> listNamed();

}  // namespace netsweep
