// Text of unknown origin, made fit for messages and reports.
#ifndef LOCKSTEP_ANALYZER_UTIL_CLEAN_UTF8_H_
#define LOCKSTEP_ANALYZER_UTIL_CLEAN_UTF8_H_

#include <string>
#include <string_view>

namespace lockstep {

// Valid UTF-8 without NUL of at most `limit` bytes: what Protobuf accepts as a string, whatever a file held.
std::string CleanUtf8(std::string_view text, size_t limit = 4096);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_CLEAN_UTF8_H_
