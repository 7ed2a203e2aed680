// What communicators' names show: pipelines, and roles.
#pragma once

#include <cctype>
#include <string>

namespace lockstep {

// Returns whether a word in the name is pp or begins with pipe: "pp_3", "PIPELINE_MODEL_PARALLEL_GROUP", "pipe-0".
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

// Returns "tp_*" for "tp_217", because communicators with the same role differ only in their numbers.
inline std::string NamePattern(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit || pattern.empty() || pattern.back() != '*') pattern += digit ? '*' : c;
  }
  return pattern;
}

}  // namespace lockstep
