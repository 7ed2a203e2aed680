#include "analyzer/util/clean_utf8.h"

#include <algorithm>

namespace lockstep {

std::string CleanUtf8(std::string_view text, size_t limit) {
  std::string out;
  out.reserve(std::min(text.size(), limit));
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xc2 && lead < 0xe0 ? 2
                    : lead >= 0xe0 && lead < 0xf0 ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4
                                                  : 0;
    bool good = length != 0 && lead != 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; ++k) good = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
    if (good && length > 2) {  // overlong forms, surrogates, beyond U+10FFFF
      const auto second = static_cast<unsigned char>(text[i + 1]);
      good = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second > 0x9f) && !(lead == 0xf0 && second < 0x90) &&
             !(lead == 0xf4 && second > 0x8f);
    }
    if (!good) length = 1;
    if (out.size() + length > limit) break;
    if (good) {
      out.append(text.substr(i, length));
    } else {
      out.push_back('?');
    }
    i += length;
  }
  return out;
}

}  // namespace lockstep
