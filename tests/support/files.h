// Temporary folders and small files for tests. Needs only GoogleTest, so that tests of every folder may use it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace lockstep::support {

// A new folder. The destructor removes it with its content.
class TempFolder {
 public:
  explicit TempFolder(const std::string& parent = std::filesystem::temp_directory_path(),
                      const std::string& prefix = "lockstep_test_")
      : path_(parent + "/" + prefix + "XXXXXX") {
    if (mkdtemp(path_.data()) != nullptr) return;
    std::perror(path_.c_str());
    std::abort();
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A test with its own folder.
class FolderTest : public ::testing::Test {
 private:
  const TempFolder temp_;

 protected:
  const std::string folder_ = temp_.path();
};

// Returns an empty string if the file cannot be read.
inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace lockstep::support
