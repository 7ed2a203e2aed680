// The part of the Model Context Protocol that a server of read-only tools needs: JSON-RPC 2.0, one message per line.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

struct McpTool {
  std::string name, description;
  nlohmann::ordered_json input;  // JSON Schema of the arguments: an object whose `properties` each have a `type`
  std::function<absl::StatusOr<std::string>(const nlohmann::ordered_json& arguments)> call;
};

class McpServer {
 public:
  static constexpr size_t kLongestLine = 1 << 20;

  // `fence` is a word that encloses returned texts. The authors of these texts cannot know it.
  McpServer(std::vector<McpTool> tools, std::string fence);
  // Returns the response line without the line feed; empty if there is no response.
  std::string Answer(std::string_view line) const;
  // Returns the response to a line longer than kLongestLine.
  static std::string TooLong();

 private:
  nlohmann::ordered_json Initialize(const nlohmann::ordered_json& params) const;
  nlohmann::ordered_json List() const;
  nlohmann::ordered_json Call(const McpTool& tool, const nlohmann::ordered_json& arguments) const;

  const std::vector<McpTool> tools_;
  const std::string fence_;
};

}  // namespace lockstep
