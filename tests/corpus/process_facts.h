// What an outside observer finds in processes in various states: /proc, native and Python stacks.
#pragma once

#include "tests/corpus/capture.h"

namespace lockstep::corpus {

ProcessFacts WaitingFacts();  // the process waits on its CPU thread for its GPU
ProcessFacts StoppedFacts();  // a signal stopped the process in the same wait; it uses no CPU
ProcessFacts DataLoaderFacts();
ProcessFacts CheckpointFacts(int32_t rank, bool writes);
ProcessFacts GarbageFacts();
ProcessFacts InterpreterLockFacts();
ProcessFacts CompilerFacts();
ProcessFacts TeardownFacts();
ProcessFacts ExceptionFacts();
ProcessFacts ElsewhereFacts();  // the process is stuck in code that reveals nothing
ProcessFacts InitFacts();
ProcessFacts StoreFacts();  // the process asks the store for a unique ID that no rank sets

}  // namespace lockstep::corpus
