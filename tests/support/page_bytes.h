// Reads the worked examples in the pages that describe file formats.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <regex>
#include <string>

namespace lockstep {

// Reads the page's lines of the form "1e000  01 00 ff  meaning". Returns the bytes by offset; both are hexadecimal.
inline std::map<uint64_t, std::string> BytesInPage(const std::string& path) {
  static const std::regex kLine("([0-9a-f]+)  ([0-9a-f]{2}(?: [0-9a-f]{2})*)(?:  .*)?");
  std::map<uint64_t, std::string> found;
  std::ifstream file(path);
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (!std::regex_match(line, match, kLine)) continue;
    std::string& bytes = found[std::stoull(match[1], nullptr, 16)];
    const std::string text = match[2];
    for (size_t i = 0; i < text.size(); i += 3)
      bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return found;
}

}  // namespace lockstep
