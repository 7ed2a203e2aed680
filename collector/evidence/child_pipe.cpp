#include "collector/evidence/child_pipe.h"

#include <cstring>
#include <map>

#include "analyzer/evidence/process_evidence.h"
#include "analyzer/util/atomic_file.h"

namespace lockstep {

bool WriteEvidence(int fd, const ProcessEvidence& evidence) {
  const std::string body = evidence.SerializeAsString();
  const uint32_t size = static_cast<uint32_t>(body.size());
  if (body.size() > kMostChildMessage) return false;
  std::string message(reinterpret_cast<const char*>(&size), sizeof size);
  message += body;
  return WriteAll(fd, message, "").ok();
}

bool TakeMessages(std::string* buffer, ProcessEvidence* evidence) {
  size_t at = 0;
  bool fine = true;
  while (fine && buffer->size() - at >= sizeof(uint32_t)) {
    uint32_t size = 0;
    memcpy(&size, buffer->data() + at, sizeof size);
    if (size > kMostChildMessage) {
      fine = false;
      break;
    }
    if (buffer->size() - at - sizeof size < size) break;
    ProcessEvidence part;
    fine = part.ParseFromArray(buffer->data() + at + sizeof size, static_cast<int>(size));
    at += sizeof size + size;
    if (!fine) break;
    BoundEvidence(&part);
    if (part.modules_size() > 0) evidence->mutable_modules()->Swap(part.mutable_modules());
    if (part.gpus_size() > 0) evidence->mutable_gpus()->Swap(part.mutable_gpus());
    std::map<int32_t, int> known;
    for (int i = 0; i < evidence->threads_size(); ++i) known[evidence->threads(i).tid()] = i;
    for (ThreadStack& thread : *part.mutable_threads()) {
      const auto found = known.find(thread.tid());
      ThreadStack* target = found != known.end() ? evidence->mutable_threads(found->second) : evidence->add_threads();
      target->Swap(&thread);
    }
    part.clear_modules();
    part.clear_gpus();
    part.clear_threads();
    evidence->MergeFrom(part);
    BoundEvidence(evidence);
  }
  buffer->erase(0, at);
  return fine;
}

}  // namespace lockstep
