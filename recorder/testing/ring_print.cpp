// Prints what tests in other languages must know about a ring file, as one `key value` pair per line.
#include <cstdio>
#include <map>

#include "recorder/ring/layout.h"
#include "recorder/ring/reader.h"

int main(int argc, char** argv) {
  using namespace lockstep::ring;
  if (argc != 2) return 2;
  Snapshot snapshot;
  std::string error;
  if (!ReadRingFile(argv[1], {}, &snapshot, &error)) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 1;
  }
  Header header{};
  FILE* file = std::fopen(argv[1], "rb");
  if (file == nullptr || std::fread(&header, sizeof(header), 1, file) != 1) return 1;
  std::fclose(file);
  std::printf("ticks %u\nhz %llu\nstate %u\nlost %llu\nproblems %zu\nthreads %zu\ncomms %zu\n",
              static_cast<unsigned>(header.tick_kind), static_cast<unsigned long long>(header.tick_hz),
              static_cast<unsigned>(snapshot.process.state), static_cast<unsigned long long>(snapshot.records_lost),
              snapshot.problems.size(), snapshot.threads.size(), snapshot.comms.size());
  for (const CommSnapshot& comm : snapshot.comms) {
    std::printf("comm%u.issued %llu\ncomm%u.rank %d\ncomm%u.size %d\ncomm%u.id %llx\n", comm.index,
                static_cast<unsigned long long>(comm.issued_seq), comm.index, comm.member_rank, comm.index, comm.size,
                comm.index, static_cast<unsigned long long>(comm.id));
  }
  std::map<std::string, int> kinds;
  int without_site = 0, wrong_seq = 0, unfinished = 0, backwards = 0;
  for (const OpSnapshot& op : snapshot.ops) {
    ++kinds[CallName(op.kind)];
    if ((IsCollective(op.kind) || IsPointToPoint(op.kind)) && (op.caller == 0 || op.caller_object == 0)) ++without_site;
    if (IsCollective(op.kind) && op.seq != op.count) ++wrong_seq;  // these test programs pass the number as the count
    if (op.return_ns == 0) ++unfinished;
    if (op.return_ns != 0 && (op.enter_ns <= 0 || op.return_ns < op.enter_ns)) ++backwards;
  }
  for (const auto& [kind, count] : kinds) std::printf("%s %d\n", kind.c_str(), count);
  std::printf("without_site %d\nwrong_seq %d\nunfinished %d\nbackwards %d\n", without_site, wrong_seq, unfinished,
              backwards);
  return 0;
}
