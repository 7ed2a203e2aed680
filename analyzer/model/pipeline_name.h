// Recognizes pipelines by their communicators' names.
#pragma once

#include <cctype>
#include <string>

namespace lockstep {

// "pp", "pp_3", "PIPELINE_MODEL_PARALLEL_GROUP", "pipe-0": a word in the name is pp or begins with pipe.
inline bool NamesPipeline(const std::string& name) {
  std::string word;
  for (size_t i = 0; i <= name.size(); ++i) {
    const unsigned char c = i < name.size() ? static_cast<unsigned char>(name[i]) : ' ';
    if (std::isalpha(c)) {
      word += static_cast<char>(std::tolower(c));
      continue;
    }
    if (word == "pp" || word.rfind("pipe", 0) == 0) return true;
    word.clear();
  }
  return false;
}

}  // namespace lockstep
