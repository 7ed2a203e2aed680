#include "analyzer/formats/fr/json.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBuilder(std::string_view bytes, Document* document) : bytes_(bytes), document_(*document) {}

  ParseError Run() {
    bool whole = nlohmann::json::sax_parse(bytes_.begin(), bytes_.end(), this);
    if (!whole && error_.text.empty()) error_.text = "not JSON";
    if (!error_.text.empty() && !error_.refused) {
      for (const Level& level : levels_) document_.SetPartial(level.container.index);
      // Closes the innermost container first, so that each container is complete in its parent.
      while (!levels_.empty()) Close();
    }
    return error_;
  }

  bool null() override { return Add(Simple(Type::kNone, 0)); }
  bool boolean(bool value) override { return Add(Simple(Type::kBool, value)); }
  bool number_integer(int64_t value) override { return Add(Simple(Type::kInt, value)); }
  bool number_unsigned(uint64_t value) override {
    return Add(value > INT64_MAX ? Simple(Type::kBigInt, 0) : Simple(Type::kInt, static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string&) override {
    Value item;
    item.type = Type::kDouble;
    item.real = value;
    return Add(item);
  }
  bool string(std::string& value) override { return Add(Text(value)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(size_t) override { return Open(Type::kDict); }
  bool start_array(size_t) override { return Open(Type::kList); }
  bool key(std::string& value) override {
    levels_.back().items.push_back(Text(value));
    return Room();
  }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& exception) override {
    bool at_end = position >= bytes_.size();
    std::string what = at_end ? "the file ends before the JSON document does" : exception.what();
    // The library prepends its own tag and the position.
    if (size_t colon = what.find("column"); !at_end && colon != std::string::npos) {
      if (size_t text = what.find(": ", colon); text != std::string::npos) what = what.substr(text + 2);
    }
    error_.text = Printable(what, 200);
    error_.offset = static_cast<int64_t>(position > 0 ? position - 1 : 0);
    return false;
  }

 private:
  struct Level {
    Value container;
    std::vector<Value> items;  // for a dictionary: key, value, key, ...
  };

  static Value Simple(Type type, int64_t integer) {
    Value value;
    value.type = type;
    value.integer = integer;
    return value;
  }

  // Equal strings are stored once, as with the pickle's memo.
  Value Text(std::string& text) {
    auto found = texts_.find(text);
    if (found != texts_.end()) return found->second;
    Value value = document_.OwnString(std::move(text));
    texts_.emplace(document_.Text(value), value);
    return value;
  }

  bool Room() {
    if (++values_ <= kMaxValues && !document_.full()) return true;
    error_.text = absl::StrCat("more than ", kMaxValues, " values in one file");
    error_.refused = true;
    return false;
  }
  bool Add(const Value& value) {
    if (levels_.empty()) {
      document_.root = value;
    } else {
      levels_.back().items.push_back(value);
    }
    return Room();
  }
  bool Open(Type type) {
    if (levels_.size() >= kMaxJsonDepth) {
      error_.text = absl::StrCat("nested deeper than ", kMaxJsonDepth, " levels");
      return false;
    }
    levels_.push_back({document_.NewContainer(type), {}});
    return Room();
  }
  bool Close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.container.type == Type::kDict && level.items.size() % 2 != 0) level.items.pop_back();
    bool stored = document_.Append(level.container.index, level.items.data(), level.items.size());
    return Add(level.container) && stored;
  }

  std::string_view bytes_;
  Document& document_;
  std::vector<Level> levels_;
  absl::flat_hash_map<std::string_view, Value> texts_;
  uint64_t values_ = 0;
  ParseError error_;
};

}  // namespace

ParseError ParseJson(std::string_view bytes, Document* document) {
  document->Clear();
  return JsonBuilder(bytes, document).Run();
}

}  // namespace lockstep::fr
