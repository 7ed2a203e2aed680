#include "analyzer/evidence/process_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analyzer/formats/lsd/convert.h"
#include "analyzer/report/report.h"
#include "analyzer/testing/report_samples.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ProcessEvidence Sample() {
  ProcessEvidence evidence;
  StackModule* module = evidence.add_modules();
  module->set_path("/opt/lib/libfoo.so");
  module->set_build_id("abcd");
  ThreadStack* thread = evidence.add_threads();
  thread->set_tid(7);
  StackFrame* frame = thread->add_frames();
  frame->set_kind(StackFrame::KERNEL);
  frame->set_function("folio_wait_bit+0x13d/0x350");
  frame = thread->add_frames();
  frame->set_module(1);
  frame->set_offset(0x1a2b);
  frame = thread->add_frames();
  frame->set_module(1);
  frame->set_function("save");
  frame->set_file("/src/deep/save.cpp");
  frame->set_line(9);
  frame = thread->add_frames();
  frame->set_kind(StackFrame::PYTHON);
  frame->set_function("Trainer.step");
  frame->set_file("pkg/train.py");
  frame->set_line(12);
  return evidence;
}

TEST(ProcessEvidence, SameStacksReadTheSameOnAllRanks) {
  const ProcessEvidence evidence = Sample();
  EXPECT_THAT(StackTexts(evidence.threads(0), evidence),
              ElementsAre("[kernel] folio_wait_bit+0x13d/0x350", "libfoo.so at 0x1a2b", "save (save.cpp:9)",
                          "Trainer.step (pkg/train.py:12)"));
  EXPECT_THAT(StackTexts(evidence.threads(0), evidence, true), ElementsAre("Trainer.step (pkg/train.py:12)"));
}

TEST(ProcessEvidence, HostileSizesAreTruncated) {
  ProcessEvidence evidence = Sample();
  evidence.mutable_threads(0)->mutable_frames(1)->set_module(99);
  for (int i = 0; i < 3000; ++i) evidence.add_threads();
  for (int i = 0; i < 3000; ++i) evidence.mutable_threads(0)->add_frames()->set_function("f");
  for (int i = 0; i < 1000; ++i) evidence.add_hardware()->set_code(static_cast<uint32_t>(i));
  evidence.set_stacks_refused(std::string(5000, 'x') + "\xc3\xa4");
  evidence.mutable_threads(0)->mutable_frames(2)->set_function(std::string(1023, 'y') + "\xc3\xa4");
  BoundEvidence(&evidence);
  EXPECT_EQ(evidence.threads_size(), 2048);
  EXPECT_EQ(evidence.threads(0).frames_size(), 512);
  EXPECT_TRUE(evidence.threads(0).truncated());
  EXPECT_EQ(evidence.hardware_size(), 256);
  EXPECT_EQ(evidence.hardware(255).code(), 999u) << "the newest events are kept";
  EXPECT_EQ(evidence.stacks_refused().size(), 1024u);
  EXPECT_EQ(evidence.threads(0).frames(2).function(), std::string(1023, 'y')) << "characters are not split";
  EXPECT_EQ(FrameText(evidence.threads(0).frames(1), evidence), "code outside of any file");
}

TEST(ProcessEvidence, IsStoredInDumps) {
  Rank rank;
  rank.rank = 3;
  rank.process.evidence = std::make_shared<ProcessEvidence>(Sample());
  RankHeader header;
  ASSERT_TRUE(header.ParseFromString(EncodeRank(rank).SerializeAsString()));
  const Rank read = DecodeRank(header);
  ASSERT_NE(read.process.evidence, nullptr);
  EXPECT_EQ(read.process.evidence->SerializeAsString(), rank.process.evidence->SerializeAsString());
  EXPECT_EQ(DecodeRank(EncodeRank(Rank())).process.evidence, nullptr);
}

TEST(ProcessEvidence, ErrorsAreReportedAndTheirAbsenceToo) {
  ProcessEvidence evidence;
  EXPECT_TRUE(HardwareTrouble(evidence, 5).empty());
  EXPECT_EQ(HardwareSeen(evidence), "no errors in the last hour of the kernel log; 0 GPUs read");
  EXPECT_EQ(MemoryTrouble(evidence), "");
  HardwareEvent* event = evidence.add_hardware();
  event->set_kind(HardwareEvent::XID);
  event->set_code(79);
  event->set_gpu(4);
  event->set_age_ns(12'000'000'000);
  event->set_text("NVRM: Xid (PCI:0000:1b:00): 79");
  evidence.add_hardware()->set_kind(HardwareEvent::CRASH);
  GpuState* gpu = evidence.add_gpus();
  gpu->set_index(3);
  gpu->set_pci("0000:1b:00.0");
  gpu->set_lost("GPU is lost");
  evidence.set_hardware_unread("/dev/kmsg: Operation not permitted");
  EXPECT_THAT(HardwareTrouble(evidence, 5),
              ElementsAre("GPU 3 (0000:1b:00.0) does not answer its driver: GPU is lost",
                          "Xid 79 on GPU 3, 12 s before: NVRM: Xid (PCI:0000:1b:00): 79"));
  EXPECT_EQ(HardwareSeen(evidence), "errors were not read: /dev/kmsg: Operation not permitted; 1 GPU read");
  EXPECT_THAT(HardwareTrouble(evidence, 1)[1], "and 1 more");
  MemoryState* memory = evidence.mutable_memory();
  memory->set_cgroup_bytes(62'000'000'000);
  memory->set_cgroup_limit_bytes(64'000'000'000);
  memory->set_cgroup_oom_kills(2);
  EXPECT_EQ(MemoryTrouble(evidence),
            "62.0 GB of the 64.0 GB that its cgroup may use, processes of its cgroup that were killed for memory: 2");
}

TEST(ProcessEvidence, AppearsInReports) {
  Bundle bundle = MakeBundle(8);
  auto evidence = std::make_shared<ProcessEvidence>(Sample());
  HardwareEvent* event = evidence->add_hardware();
  event->set_kind(HardwareEvent::XID);
  event->set_code(79);
  event->set_text("NVRM: Xid <b>");
  bundle.ranks[5].process.stack = StackTexts(evidence->threads(0), *evidence);
  bundle.ranks[5].process.evidence = evidence;
  const std::string text = ReportText(MakeHung(), bundle);
  EXPECT_THAT(
      text, HasSubstr("  stack    [kernel] folio_wait_bit < libfoo.so at 0x1a2b < save (save.cpp:9) < Trainer.step\n"));
  EXPECT_THAT(text, HasSubstr("  hardware Xid 79, 0 s before: NVRM: Xid <b>\n"));
  const std::string html = ReportHtml(MakeHung(), bundle);
  EXPECT_THAT(html, HasSubstr("<h3>All threads</h3>"));
  EXPECT_THAT(html, Not(HasSubstr("Xid <b>")));

  bundle.ranks[5].process.stack = {"[kernel] futex_wait"};
  bundle.ranks[5].process.stack_refused = "ptrace refused: grant it";
  EXPECT_THAT(ReportText(MakeHung(), bundle), HasSubstr("kernel stack only: ptrace refused: grant it"));
  EXPECT_THAT(ReportHtml(MakeHung(), bundle), HasSubstr("ptrace refused: grant it"));
}

}  // namespace
}  // namespace lockstep
