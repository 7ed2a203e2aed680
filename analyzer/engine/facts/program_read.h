// The calls of each rank's threads in the order of the program, and which ranks run the same one.
#ifndef LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_READ_H_
#define LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_READ_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyzer/engine/facts/model.h"

namespace lockstep {

struct Token {
  const Op* op = nullptr;
  uint32_t klass : 31 = 0;    // interned class of the communicator
  uint32_t exchange : 1 = 0;  // stands for all sends and receives of its group on that communicator
  int32_t peer = 0;           // of send and receive, relative to the rank
};
static_assert(sizeof(Token) <= 16);  // one for every operation of the job

// Calls in a row. A record has several where some were overwritten in between.
using Segment = std::vector<Token>;

struct Program {
  int32_t rank = -1;
  std::string role;  // same kinds of communicators, same place in the pipeline
  std::vector<Segment> segments;
  size_t calls = 0;
};

// By role: same kinds of communicators, same place in the pipeline, a thread that makes the same calls. A rank has one
// program for each thread that issues operations; which thread is which shows in what it calls, not in its number.
std::map<std::string, std::vector<Program>> ReadPrograms(const Model& model);

// By communicator: whether a rank aborted it before it made others. It is of an earlier life of the job inside the same
// processes, and where each rank was cut short in that is no difference of programs.
std::vector<bool> FindGivenUp(const Model& model);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_ENGINE_FACTS_PROGRAM_READ_H_
