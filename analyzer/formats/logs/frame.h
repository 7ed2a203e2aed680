// Removes what people and tools put around every line of a text: quotation marks, indentation, line numbers, blank
// lines, and the line breaks of a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::logs {

struct TextFrame {
  std::string prefix;     // at the beginning of each line: "> ", "    "
  bool numbered = false;  // each line begins with its number and blanks
  bool doubled = false;   // each line is followed by a blank one
  size_t columns = 0;     // a terminal cut longer lines at this width; 0 if not
};

// Finds the frame of a text from its beginning.
TextFrame FrameOf(std::string_view beginning);

// Removes the frame, and joins lines that a terminal cut.
class Unframer {
 public:
  using Take = std::function<void(std::string_view line, int64_t number)>;
  Unframer(TextFrame frame, Take take) : frame_(std::move(frame)), take_(std::move(take)) {}
  void Add(std::string_view line, int64_t number);
  void Finish();

 private:
  TextFrame frame_;
  Take take_;
  std::string held_;
  int64_t number_ = 0;  // number of the first part; 0 if no line is held
};

}  // namespace lockstep::logs
