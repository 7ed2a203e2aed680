#include "collector/host/owner_rights.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analyzer/util/proc_stat.h"
#include "analyzer/util/small_file.h"

namespace lockstep {

std::string TakeOwnersRights(pid_t pid) {
  const struct {
    int what;
    rlim_t limit;
  } limits[] = {{RLIMIT_CORE, 0}, {RLIMIT_AS, rlim_t{32} << 30}, {RLIMIT_FSIZE, 0}};
  for (const auto& limit : limits) {
    const rlimit value{limit.limit, limit.limit};
    setrlimit(static_cast<decltype(RLIMIT_CORE)>(limit.what), &value);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const std::string status = ReadSmallFile(absl::StrCat("/proc/", pid, "/status"));
  const std::vector<int64_t> uids = ProcNumbers(status, "Uid"), gids = ProcNumbers(status, "Gid");
  const bool known = uids.size() > 1 && gids.size() > 1;  // real, effective
  const uid_t uid = known ? static_cast<uid_t>(uids[1]) : 0;
  const gid_t gid = known ? static_cast<gid_t>(gids[1]) : 0;
  std::string why;
  if (!known && geteuid() == 0) {
    why = "the owner of the process could not be read";
  } else if (geteuid() == 0 && uid != 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0 ||
        geteuid() != uid)
      why = absl::StrCat("root cannot become user ", uid, " here (", strerror(errno),
                         "; grant CAP_SETUID and CAP_SETGID)");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0 && why.empty())
    why = absl::StrCat("capabilities could not be dropped (", strerror(errno), ")");
  return why;
}

}  // namespace lockstep
