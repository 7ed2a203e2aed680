#include "analyzer/evidence/redact.h"
#include "analyzer/evidence/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <map>

#include "analyzer/engine/facts/activity.h"
#include "analyzer/evidence/process_evidence.h"
#include "tests/support/environment.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

const Redactor kPathsOff(RedactLevel::kPaths, "a key of a site"), kStacksOff(RedactLevel::kStacks, "a key of a site");

TEST(Redact, PathsBecomeHashAndLastPart) {
  const std::string one = kPathsOff.Path("/home/acme/secret/train.py");
  EXPECT_THAT(one, MatchesRegex("[0-9a-f]{8}/train.py"));
  EXPECT_EQ(kPathsOff.Path("/home/acme/secret/train.py"), one);
  EXPECT_NE(kPathsOff.Path("/home/acme/other/train.py"), one);
  EXPECT_NE(Redactor(RedactLevel::kPaths, "another key").Path("/home/acme/secret/train.py"), one);
  EXPECT_EQ(kPathsOff.Path(one), one);
  EXPECT_THAT(kStacksOff.Path("/home/acme/secret/train.py"), MatchesRegex("[0-9a-f]{8}/[0-9a-f]{8}.py"));
  EXPECT_EQ(kStacksOff.Path(kStacksOff.Path("/home/acme/secret/train.py")),
            kStacksOff.Path("/home/acme/secret/train.py"));
  // Texts that were already redacted at a lower level.
  EXPECT_THAT(kStacksOff.Path(one), MatchesRegex("[0-9a-f]{8}/[0-9a-f]{8}.py"));
  EXPECT_EQ(Redactor().Path("/home/acme/secret/train.py"), "/home/acme/secret/train.py");
  EXPECT_EQ(kPathsOff.Path("/proc/sys/kernel/yama/ptrace_scope"), "/proc/sys/kernel/yama/ptrace_scope");
  EXPECT_THAT(kPathsOff.Path("/proc/7/root/home/acme/x"), Not(HasSubstr("acme")));
}

TEST(Redact, PublicNamesStay) {
  EXPECT_THAT(kStacksOff.Path("/opt/acme/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py"),
              MatchesRegex("[0-9a-f]{8}/site-packages/torch/utils/data/dataloader.py"));
  EXPECT_THAT(kStacksOff.Path("/opt/acme/lib/python3.11/threading.py"),
              MatchesRegex("[0-9a-f]{8}/lib/python3.11/threading.py"));
  EXPECT_THAT(kStacksOff.Path("/opt/acme/libnccl.so.2"), MatchesRegex("[0-9a-f]{8}/libnccl.so.2"));
  for (const char* path :
       {"/opt/acme/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", "/opt/acme/libnccl.so.2"}) {
    EXPECT_EQ(kStacksOff.Path(kStacksOff.Path(path)), kStacksOff.Path(path));
  }
  // The module is installed next to public packages, but belongs to the site.
  EXPECT_THAT(kStacksOff.Path("/v/lib/python3.11/site-packages/acme/model.py"),
              MatchesRegex("[0-9a-f]{8}/site-packages/[0-9a-f]{8}.py"));
}

TEST(Redact, PathsInsideATextAreRedacted) {
  EXPECT_EQ(kPathsOff.Text("I/O and/or CPU, tcp://10.0.0.1:9470, 3/4 of it"),
            "I/O and/or CPU, tcp://10.0.0.1:9470, 3/4 of it");
  EXPECT_THAT(kPathsOff.Text("cannot open /home/acme/x.ring: no space (see ~/acme/notes.txt)."),
              MatchesRegex("cannot open [0-9a-f]{8}/x.ring: no space \\(see [0-9a-f]{8}/notes.txt\\)\\."));
  EXPECT_THAT(kPathsOff.Text("task_memcg=/slurm/uid_1/acme,task=x"), Not(HasSubstr("slurm")));
  EXPECT_THAT(kPathsOff.Text("at ipc:///home/acme/socket now"), MatchesRegex("at ipc://[0-9a-f]{8}/socket now"));
  EXPECT_EQ(kPathsOff.Text(kPathsOff.Text("in /a/b/c.py")), kPathsOff.Text("in /a/b/c.py"));
}

TEST(Redact, ProgramNamesInKernelLinesAreRedacted) {
  for (const char* line : {"Out of memory: Killed process 123 (acme) total-vm:1kB",
                           "NVRM: Xid (PCI:0000:1b:00): 31, pid=12, name=acme, Ch 1",
                           "INFO: task acme:123 blocked for more than 120 seconds", "acme[12]: segfault at 0 ip 1 sp 2",
                           "CPU: 1 PID: 2 Comm: acme Not tainted",
                           "EXT4-fs error (device sda1): inode 3: comm acme: iget", "oom-kill:task=acme,pid=1"}) {
    const std::string redacted = kStacksOff.KernelLine(line);
    EXPECT_THAT(redacted, Not(HasSubstr("acme")));
    EXPECT_EQ(kStacksOff.KernelLine(redacted), redacted);
    EXPECT_EQ(kPathsOff.KernelLine(line), line);
  }
}

TEST(Redact, FramesInTextFormAreRedacted) {
  EXPECT_EQ(kPathsOff.Frame("[kernel] futex_wait+0x1"), "[kernel] futex_wait+0x1");
  EXPECT_THAT(kPathsOff.Frame("step (/home/acme/train.py:12)"), MatchesRegex("step \\([0-9a-f]{8}/train.py:12\\)"));
  EXPECT_THAT(kStacksOff.Frame("step (/home/acme/train.py:12)"),
              MatchesRegex("fn_[0-9a-f]{8} \\([0-9a-f]{8}/[0-9a-f]{8}.py:12\\)"));
  EXPECT_EQ(kPathsOff.Frame("libacme.so at 0x12"), "libacme.so at 0x12");
  EXPECT_THAT(kStacksOff.Frame("libacme.so at 0x12"), MatchesRegex("[0-9a-f]{8}.so at 0x12"));
  EXPECT_THAT(kStacksOff.CallSite("train.py:812 forward"), MatchesRegex("[0-9a-f]{8}.py:812 fn_[0-9a-f]{8}"));
  EXPECT_EQ(kPathsOff.CallSite("train.py:812 forward"), "train.py:812 forward");
  EXPECT_THAT(kStacksOff.Command({"/opt/acme/run.sh", "--secret", "x"}),
              ElementsAre(MatchesRegex("[0-9a-f]{8}/[0-9a-f]{8}"), "(2 arguments)"));
}

// Fills every text field of the process facts with the same secret path. Add new fields to the table.
TEST(Redact, EveryFieldIsClassified) {
  enum Tells { kNever, kPath, kName };  // kNever: nothing private; kPath: a path; kName: a name that only kStacks hides
  const std::map<std::string, Tells> fields = {
      {"lockstep.ProcessState.state", kNever},
      {"lockstep.ProcessState.wchan", kNever},
      {"lockstep.ProcessState.stack", kName},
      {"lockstep.ProcessState.stack_refused", kPath},
      {"lockstep.ProcessState.python_stack", kName},
      {"lockstep.ProcessState.stack_later", kName},
      {"lockstep.ProcessState.written_files", kPath},
      {"lockstep.ProcessState.written_mounts", kPath},
      {"lockstep.StackModule.path", kPath},
      {"lockstep.StackModule.build_id", kNever},
      {"lockstep.StackFrame.function", kName},
      {"lockstep.StackFrame.file", kPath},
      {"lockstep.ThreadStack.name", kName},
      {"lockstep.ThreadStack.state", kNever},
      {"lockstep.ThreadStack.wchan", kNever},
      {"lockstep.ThreadStack.refused", kPath},
      {"lockstep.MemoryState.cgroup", kPath},
      {"lockstep.GpuState.pci", kNever},
      {"lockstep.GpuState.uuid", kNever},
      {"lockstep.GpuState.name", kNever},
      {"lockstep.GpuState.lost", kPath},
      {"lockstep.GpuState.unread", kPath},
      {"lockstep.HardwareEvent.pci", kNever},
      {"lockstep.HardwareEvent.text", kPath},
      {"lockstep.ProcessEvidence.stacks_refused", kPath},
      {"lockstep.ProcessEvidence.python_refused", kPath},
      {"lockstep.ProcessEvidence.python_version", kNever},
      {"lockstep.ProcessEvidence.gpus_unread", kPath},
      {"lockstep.ProcessEvidence.hardware_unread", kPath},
  };
  const std::string secret = "/Qfolder/Qfile.py";
  size_t seen = 0;
  // Calls `each` with every text of the message, one element in every repeated field.
  std::function<void(google::protobuf::Message*, bool,
                     const std::function<void(const std::string&, const std::string&)>&)>
      walk = [&](google::protobuf::Message* message, bool fill, const auto& each) {
        const google::protobuf::Reflection* reflection = message->GetReflection();
        const google::protobuf::Descriptor* descriptor = message->GetDescriptor();
        for (int i = 0; i < descriptor->field_count(); ++i) {
          const google::protobuf::FieldDescriptor* field = descriptor->field(i);
          if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) {
            if (fill && field->is_repeated()) reflection->AddMessage(message, field);
            walk(field->is_repeated() ? reflection->MutableRepeatedMessage(message, field, 0)
                                      : reflection->MutableMessage(message, field),
                 fill, each);
          } else if (field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING) {
            if (fill) {
              field->is_repeated() ? reflection->AddString(message, field, secret)
                                   : reflection->SetString(message, field, secret);
            }
            each(field->full_name(), field->is_repeated() ? reflection->GetRepeatedString(*message, field, 0)
                                                          : reflection->GetString(*message, field));
          }
        }
      };
  for (const Redactor* redactor : {&kPathsOff, &kStacksOff}) {
    ProcessState process;
    walk(&process, true, [&](const std::string& name, const std::string&) {
      ++seen;
      EXPECT_TRUE(fields.contains(name)) << name << " is new: add it to this table and to Redactor";
    });
    redactor->Redact(&process);
    walk(&process, false, [&](const std::string& name, const std::string& value) {
      const auto field = fields.find(name);
      if (field == fields.end()) return;
      const bool stacks = redactor == &kStacksOff;
      if (field->second == kNever || (field->second == kName && !stacks)) {
        EXPECT_EQ(value, secret) << name;
      } else {
        EXPECT_THAT(value, Not(HasSubstr("Qfolder"))) << name;
        if (stacks) {
          EXPECT_THAT(value, Not(HasSubstr("Qfile"))) << name;
        }
      }
    });
    Bundle bundle;
    bundle.ranks.resize(1);
    bundle.ranks[0].process.evidence = std::make_shared<ProcessEvidence>(process.evidence());
    EXPECT_EQ(RedactionOf(bundle), RedactLevelName(redactor->level()));
    const std::string once = process.SerializeAsString();
    redactor->Redact(&process);
    EXPECT_EQ(process.SerializeAsString(), once);
  }
  EXPECT_EQ(seen, 2 * fields.size());
}

TEST(Redact, TheSameActivityIsFound) {
  const std::vector<std::pair<std::string, Stall>> python = {
      {"fetch (/v/site-packages/torch/utils/data/_utils/fetch.py:52)", Stall::kDataLoading},
      {"load (/home/acme/fork/torch/utils/data/acme.py:52)", Stall::kDataLoading},
      {"acme_save_checkpoint_v2 (/home/acme/train.py:1)", Stall::kCheckpoint},
      {"write (/home/acme/megatron/training/checkpointing.py:1)", Stall::kCheckpoint},
      {"put (/home/acme/acme_checkpoint_io.py:1)", Stall::kCheckpoint},
  };
  for (const Redactor* redactor : {&kPathsOff, &kStacksOff}) {
    for (const auto& [frame, stall] : python) {
      Process process;
      process.python_stack = {frame};
      ASSERT_EQ(ClassifyActivity(process).stall, stall) << frame;
      redactor->Redact(&process);
      EXPECT_EQ(ClassifyActivity(process).stall, stall) << process.python_stack[0];
      EXPECT_THAT(process.python_stack[0], Not(HasSubstr("home")));
      if (redactor == &kStacksOff) {
        EXPECT_THAT(process.python_stack[0], Not(HasSubstr("acme")));
      }
    }
    Process process;
    process.written_files = {"/lustre/acme/CKPT-7/shard_0"};
    process.written_mounts = {"/lustre/acme (lustre)"};
    process.state = "D";
    ASSERT_EQ(ClassifyActivity(process).stall, Stall::kCheckpoint);
    redactor->Redact(&process);
    EXPECT_EQ(ClassifyActivity(process).stall, Stall::kCheckpoint) << process.written_files[0];
    EXPECT_THAT(process.written_files[0], Not(HasSubstr("lustre")));
    EXPECT_THAT(process.written_mounts[0], MatchesRegex("[0-9a-f]+ .lustre."));
    Process native;
    native.stack = {"llvm::acme::Pass (acme.cpp:3)", "main (main.cpp:1)"};
    redactor->Redact(&native);
    EXPECT_EQ(ClassifyActivity(native).stall, Stall::kCompilation) << native.stack[0];
  }
}

TEST(Redact, TheSamePlaceIsFoundForACulprit) {
  const std::string library = "recv (/v/lib/python3.11/site-packages/acme_lib/x.py:3)",
                    own = "step (/home/acme/train.py:12)";
  for (const Redactor* redactor : {&kPathsOff, &kStacksOff}) {
    google::protobuf::RepeatedPtrField<Frame> stack;
    for (const std::string& frame : {library, own}) *stack.Add() = ParseFrame(redactor->Frame(frame));
    EXPECT_EQ(CodePlace(stack), redactor->Frame(own));
  }
}

TEST(Redact, BundlesAreRedactedAndTheReportSaysSo) {
  Bundle bundle;
  bundle.strings = {"all_reduce", "acme.py:12 acme_forward"};
  bundle.ranks.resize(1);
  Rank& rank = bundle.ranks[0];
  rank.path = "/data/acme/host.lsd";
  rank.threads.resize(1);
  rank.threads[0].name = "acme-loader";
  rank.ops.resize(1);
  rank.ops[0].name = 0;
  rank.ops[0].call_site = 1;
  ProcessEvidence evidence;
  evidence.add_modules()->set_path("/opt/libacme.so");
  evidence.add_modules()->set_path("/opt/libc.so.6");
  ThreadStack* thread = evidence.add_threads();
  thread->set_name("acme-main");
  for (const auto& [function, module] : {std::pair("read", 2), std::pair("acme_read", 1)}) {
    StackFrame* frame = thread->add_frames();
    frame->set_function(function);
    frame->set_module(static_cast<uint32_t>(module));
  }
  rank.process.stack = StackTexts(*thread, evidence);
  rank.process.evidence = std::make_shared<ProcessEvidence>(evidence);
  bundle.problems.push_back({"/data/acme/other.lsd", -1, "cannot read /data/acme/other.lsd", -1});
  EXPECT_THAT(RedactionLine(bundle), IsEmpty());
  kStacksOff.Redact(&bundle);
  EXPECT_THAT(rank.path, MatchesRegex("[0-9a-f]{8}/host.lsd"));
  EXPECT_EQ(rank.threads[0].name, "");
  EXPECT_EQ(bundle.strings[0], "all_reduce");
  EXPECT_THAT(bundle.strings[1], MatchesRegex("[0-9a-f]{8}.py:12 fn_[0-9a-f]{8}"));
  EXPECT_THAT(rank.process.stack, ElementsAre("read", MatchesRegex("fn_[0-9a-f]{8}")));
  EXPECT_THAT(bundle.problems[0].text, Not(HasSubstr("acme")));
  EXPECT_EQ(RedactionOf(bundle), "stacks");
  EXPECT_THAT(RedactionLine(bundle), HasSubstr("--redact stacks"));
  const std::vector<std::string> once = rank.process.stack;
  kStacksOff.Redact(&bundle);
  EXPECT_EQ(rank.process.stack, once);
  MergedStacks merged;
  merged.stacks.push_back({.frames = {"acme_read"}, .ranks = {0}});
  merged.refused = {"no /data/acme/ring"};
  kStacksOff.Redact(&merged);
  EXPECT_THAT(merged.stacks[0].frames, ElementsAre(MatchesRegex("fn_[0-9a-f]{8}")));
  EXPECT_THAT(merged.refused[0], Not(HasSubstr("acme")));
}

TEST(Redact, TheSitesKeyIsUsedOrARandomOne) {
  const support::TempFolder folder;
  const support::EnvironmentVariable keys("LOCKSTEP_KEYS", folder.path()), home("HOME", folder.path());
  std::string from;
  absl::StatusOr<Redactor> one = MakeRedactor(RedactLevel::kPaths, "", &from),
                           other = MakeRedactor(RedactLevel::kPaths, "", &from);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_THAT(from, HasSubstr("random for this run"));
  EXPECT_NE(one->Path("/a/b"), other->Path("/a/b"));
  const std::string file = folder.path() + "/redact.key";
  std::ofstream(file) << "short";
  chmod(file.c_str(), 0600);
  EXPECT_FALSE(MakeRedactor(RedactLevel::kPaths).ok());
  std::ofstream(file) << "0123456789abcdef";
  one = MakeRedactor(RedactLevel::kPaths, "", &from), other = MakeRedactor(RedactLevel::kPaths, "", &from);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(from, file);
  EXPECT_EQ(one->Path("/a/b"), other->Path("/a/b"));
  chmod(file.c_str(), 0644);
  EXPECT_EQ(MakeRedactor(RedactLevel::kPaths).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(MakeRedactor(RedactLevel::kNo).ok());
}

TEST(Redact, AKeyThatCannotBeReadIsNotReplacedByARandomOne) {
  const support::TempFolder folder;
  const support::EnvironmentVariable keys("LOCKSTEP_KEYS", folder.path()), home("HOME", folder.path());
  const std::string other = folder.path() + "/agent.key";
  EXPECT_TRUE(MakeRedactor(RedactLevel::kPaths, other).ok()) << "a missing file";
  ASSERT_EQ(symlink("agent.key", other.c_str()), 0);  // a link to itself
  const absl::Status status = MakeRedactor(RedactLevel::kPaths, other).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot read " + other));
}

}  // namespace
}  // namespace lockstep
