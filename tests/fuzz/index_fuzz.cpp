// Reads the viewer's index file. Repairs its checksums first: they are valid in a hostile file, but not in random
// bytes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "analyzer/formats/lsd/format.h"
#include "analyzer/formats/lsi/format.h"
#include "analyzer/formats/lsi/reader.h"
#include "analyzer/viewdata/facts.h"
#include "tests/fuzz/accepted.h"

namespace {

void RepairChecksums(std::string* file) {
  using namespace lockstep;
  if (file->size() < sizeof(IndexHeader)) return;
  IndexHeader header;
  std::memcpy(&header, file->data(), sizeof(header));
  header.file_bytes = file->size();
  for (int s = 0; s < static_cast<int>(IndexSection::kKind); ++s) {
    IndexSectionEntry& entry = header.sections[s];
    if (entry.offset > file->size() || entry.element_bytes == 0) continue;
    if (entry.count > (file->size() - entry.offset) / entry.element_bytes) continue;
    entry.crc = Crc32c({file->data() + entry.offset, static_cast<size_t>(entry.count) * entry.element_bytes});
  }
  header.crc = 0;
  header.crc = Crc32c({reinterpret_cast<const char*>(&header), sizeof(header)});
  std::memcpy(file->data(), &header, sizeof(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string file(reinterpret_cast<const char*>(data), size);
  RepairChecksums(&file);
  const int fd = memfd_create("index.lsi", MFD_CLOEXEC);
  if (fd < 0) return 0;
  if (write(fd, file.data(), file.size()) != static_cast<ssize_t>(file.size())) std::abort();
  const auto opened = lockstep::IndexReader::Open("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!opened.ok()) return 0;
  lockstep::fuzz_accepted++;
  const lockstep::IndexReader& index = **opened;
  uint64_t sum = 0;
  // The file limits its sizes, but a few bytes can refer to the same operations many times.
  int64_t budget = 1 << 20;
  for (size_t r = 0; r < index.ranks().size(); ++r) {
    const lockstep::IndexRank& rank = index.ranks()[r];
    sum += index.text(rank.host).size() + index.columns(r).peer.size();
    for (uint64_t i = 0; i < rank.ops && --budget > 0; ++i) {
      const lockstep::IndexOp op = index.op(r, rank.first_op + i);
      if (op.membership && *op.membership >= index.memberships().size()) std::abort();
      sum += static_cast<uint64_t>(op.seq) + static_cast<uint64_t>(op.return_ns) + op.stream +
             static_cast<uint64_t>(op.peer);
    }
  }
  for (const lockstep::IndexMembership& m : index.memberships()) {
    const lockstep::IndexComm& comm = index.comms()[m.comm];
    sum += index.text(comm.name).size() + index.text(comm.id).size();
    for (const int32_t rank : index.members(comm)) sum += --budget > 0 ? static_cast<uint64_t>(rank) : 0;
    for (int64_t seq = comm.first_seq - 2; seq < comm.first_seq + 20; ++seq) {
      sum += static_cast<uint64_t>(index.CellAt(comm, m.member_rank, seq, &m));
    }
    for (const uint8_t cell : index.cells(comm, m.member_rank)) sum += cell;
    if (--budget < 0) break;
  }
  if (const auto facts = lockstep::ReadViewFacts(index); facts.ok()) {
    for (const lockstep::RankFacts& rank : facts->ranks())
      sum += rank.wait_class() < 0 ? 0 : facts->classes(rank.wait_class()).label().size();
    for (const lockstep::WaitEdge& edge : facts->edges()) {
      sum += facts->classes(static_cast<int>(edge.from())).label().size() +
             facts->classes(static_cast<int>(edge.to())).label().size();
    }
    for (const lockstep::StackNode& node : facts->stacks())
      sum += node.parent() < 0 ? 0 : facts->stacks(node.parent()).frame().size();
  }
  volatile uint64_t used = sum;
  static_cast<void>(used);
  return 0;
}
