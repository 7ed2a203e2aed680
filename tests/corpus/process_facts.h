// What an observer outside finds in processes that do various things: /proc, native and Python stacks.
#ifndef LOCKSTEP_TESTS_CORPUS_PROCESS_FACTS_H_
#define LOCKSTEP_TESTS_CORPUS_PROCESS_FACTS_H_

#include "tests/corpus/capture.h"

namespace lockstep::corpus {

ProcessFacts WaitingFacts();   // in a host wait for its GPU
ProcessFacts StoppedFacts();   // by a signal, in the same wait: it burns no CPU
ProcessFacts TrainingFacts();  // on its way
ProcessFacts DataLoaderFacts();
ProcessFacts CheckpointFacts(int32_t rank, bool writes);
ProcessFacts GarbageFacts();
ProcessFacts InterpreterLockFacts();
ProcessFacts CompilerFacts();
ProcessFacts TeardownFacts();
ProcessFacts ExceptionFacts();
ProcessFacts ElsewhereFacts();  // stuck in code that reveals nothing
ProcessFacts InitFacts();
ProcessFacts StoreFacts();  // asks the store for a unique id that nobody sets

}  // namespace lockstep::corpus

#endif  // LOCKSTEP_TESTS_CORPUS_PROCESS_FACTS_H_
