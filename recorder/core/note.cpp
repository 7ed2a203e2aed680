#include "recorder/core/note.h"

#include "recorder/core/process.h"

namespace lockstep::recorder {

LOCKSTEP_COLD void AddNote(const char* text) noexcept {
  static uint32_t writing;
  ErrnoKeeper keep;
  ring::Header* header = g.map.header;
  if (header == nullptr || !Swap<uint32_t>(&writing, 0, 1)) return;
  char* note = header->note;
  const size_t used = strnlen(note, sizeof(header->note) - 1);
  if (strstr(note, text) == nullptr && used + 3 < sizeof(header->note)) {
    // The old terminator stays zero until the new text is complete.
    char* at = note + used;
    const size_t room = sizeof(header->note) - used;
    if (used != 0) {
      CopyText(at + 1, room - 1, " ");
      CopyText(at + 2, room - 2, text);
      StoreRelease(at, ';');
    } else {
      CopyText(at + 1, room - 1, text + 1);
      StoreRelease(at, text[0]);
    }
  }
  StoreRelease(&writing, 0u);
}

}  // namespace lockstep::recorder
