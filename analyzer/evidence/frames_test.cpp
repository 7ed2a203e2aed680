#include "analyzer/evidence/frames.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

std::string PlaceIn(const std::vector<std::string>& stack) {
  google::protobuf::RepeatedPtrField<Frame> frames;
  for (const std::string& frame : stack) *frames.Add() = ParseFrame(frame);
  return CodePlace(frames);
}

void Expect(const std::string& text, StackFrame::Kind kind, const std::string& function, const std::string& file,
            uint32_t line) {
  const Frame frame = ParseFrame(text);
  EXPECT_EQ(frame.text(), text);
  EXPECT_EQ(frame.kind(), kind) << text;
  EXPECT_EQ(frame.function(), function) << text;
  EXPECT_EQ(frame.file(), file) << text;
  EXPECT_EQ(frame.line(), line) << text;
}

TEST(Frames, AreParsedInEveryForm) {
  Expect("[kernel] pipe_read+0x2a/0x50", StackFrame::KERNEL, "pipe_read", "", 0);
  Expect("save (/home/x/train.py:88)", StackFrame::PYTHON, "save", "/home/x/train.py", 88);
  Expect("<module> (<string>:1)", StackFrame::PYTHON, "<module>", "<string>", 1);
  Expect("train.py:88 save", StackFrame::PYTHON, "save", "train.py", 88);
  Expect("futex_wait (futex-internal.h:146)", StackFrame::NATIVE, "futex_wait", "futex-internal.h", 146);
  Expect("stall(int)+0x10", StackFrame::NATIVE, "stall(int)", "", 0);
  Expect("libfoo.so at 0x1a2b", StackFrame::NATIVE, "libfoo.so at 0x1a2b", "", 0);
  Expect("", StackFrame::NATIVE, "", "", 0);
}

TEST(Frames, TheFrameOfTheUsersCodeIsFound) {
  EXPECT_EQ(PlaceIn({"read", "wait (/usr/lib/python3.11/threading.py:320)", "save (train.py:88)", "main (train.py:9)"}),
            "save (train.py:88)");
  EXPECT_EQ(PlaceIn({"__poll", "_recv (/opt/lib/python3.11/socket.py:8)"}), "_recv (/opt/lib/python3.11/socket.py:8)");
  EXPECT_EQ(PlaceIn({"clock_nanosleep+0x2a/0x50", "stall_host(int)+0x10", "main"}), "stall_host(int)");
  EXPECT_EQ(PlaceIn({"__futex_wait", "pthread_cond_wait"}), "");
  // The collector's frames, and a user's file whose name ends like a library's.
  EXPECT_EQ(PlaceIn({"match (python3.11/re/__init__.py:166)", "clean (/home/x/regex.py:3)"}),
            "clean (/home/x/regex.py:3)");
  EXPECT_EQ(PlaceIn({"get (queue.py:171)", "main (/home/x/my_queue.py:13)", "<module> (/home/x/run.py:15)"}),
            "main (/home/x/my_queue.py:13)");
  EXPECT_EQ(PlaceIn({"step (accelerate/optimizer.py:9)", "train (/home/x/run.py:15)"}), "train (/home/x/run.py:15)");
  EXPECT_EQ(PlaceIn({}), "");
  EXPECT_LE(PlaceIn({std::string(100'000, 'f') + ".py:1"}).size(), 200u);
}

}  // namespace
}  // namespace lockstep
