#include "analyzer/util/system.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>

#include "analyzer/util/clock.h"
#include "analyzer/util/small_file.h"

namespace lockstep {

std::string EnvironmentValue(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string OwnPath() { return LinkTarget("/proc/self/exe"); }

std::string OwnFolder() {
  const std::string path = OwnPath();
  return path.substr(0, path.rfind('/') + 1);
}

std::vector<std::string> KeyFolders() {
  std::vector<std::string> folders;
  if (const std::string keys = EnvironmentValue("LOCKSTEP_KEYS"); !keys.empty()) folders.push_back(keys);
  if (const std::string home = EnvironmentValue("HOME"); !home.empty())
    folders.push_back(home + "/.config/lockstep/keys");
  folders.push_back("/etc/lockstep/keys");
  return folders;
}

std::string TemporaryFolder() {
  const std::string given = EnvironmentValue("TMPDIR");
  return given.empty() ? "/tmp" : given;
}

uint64_t RandomInstance() {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<uint64_t>(RealtimeNs());
  return number | 1;
}

}  // namespace lockstep
