#include "collector/evidence/stacks/ptrace_permission.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

PtraceFacts Refused() {
  PtraceFacts facts;
  facts.error = EPERM;
  facts.own_uid = facts.uid = 1000;
  return facts;
}

TEST(PtracePermission, EveryRefusalNamesTheCauseAndHowToAllow) {
  PtraceFacts f = Refused();
  f.uid = 1001;
  EXPECT_THAT(ExplainPtraceRefusal(f), AllOf(HasSubstr("the process runs as user 1001, Lockstep as user 1000"),
                                             HasSubstr("--cap-add SYS_PTRACE")));
  f = Refused();
  f.yama_scope = 1;
  EXPECT_THAT(ExplainPtraceRefusal(f),
              AllOf(HasSubstr("ptrace_scope is 1"), HasSubstr("sysctl kernel.yama.ptrace_scope=0"),
                    HasSubstr("CAP_SYS_PTRACE")));
  f.yama_scope = 2;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("only to administrators"));
  f.yama_scope = 3;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("until the host is rebooted"));
  f = Refused();
  f.undumpable = true;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("undumpable"));
  f = Refused();
  f.more_capabilities = true;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("more capabilities than Lockstep"));
  f = Refused();
  f.tracer = 77;
  f.tracer_name = "gdb";
  EXPECT_THAT(ExplainPtraceRefusal(f), AllOf(HasSubstr("process 77 (gdb) already traces it"), HasSubstr("detach")));
  f = Refused();
  f.own_ptrace_capability = f.other_user_namespace = true;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("another user namespace"));
  f = Refused();
  f.own_profile = "docker-default (enforce)";
  EXPECT_THAT(ExplainPtraceRefusal(f), AllOf(HasSubstr("docker-default"), HasSubstr("apparmor=unconfined")));
  f = Refused();
  f.own_seccomp = true;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("seccomp"));
  f = Refused();
  f.error = ENOSYS;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("seccomp"));
  f = Refused();
  f.error = ESRCH;
  EXPECT_THAT(ExplainPtraceRefusal(f), HasSubstr("gone"));
  EXPECT_THAT(ExplainPtraceRefusal(Refused()), Not(HasSubstr("\n")));
}

TEST(PtracePermission, FactsOfAnExistingAndAMissingProcessAreRead) {
  const PtraceFacts own = ReadPtraceFacts(getpid(), EPERM);
  EXPECT_EQ(own.uid, geteuid());
  EXPECT_FALSE(own.other_user_namespace);
  EXPECT_FALSE(own.more_capabilities);
  EXPECT_FALSE(own.undumpable);
  ExplainPtraceRefusal(ReadPtraceFacts(INT32_MAX, ESRCH));
}

}  // namespace
}  // namespace lockstep
