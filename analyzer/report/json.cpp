// The JSON of a verdict and its schema. Both follow the messages of proto/verdict.proto field by field.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/recommended.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words/verdict.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kSchemaVersion = 6;

// The first word of each enum's name prefixes its values to make them unique in the package. The JSON omits this
// prefix.
std::string EnumName(const EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  const std::string& name = (value == nullptr ? type.value(0) : value)->name();
  const auto second = std::find_if(type.name().begin() + 1, type.name().end(), absl::ascii_isupper);
  const std::string prefix = absl::StrCat(absl::AsciiStrToUpper(std::string(type.name().begin(), second)), "_");
  return absl::StartsWith(name, prefix) ? name.substr(prefix.size()) : name;
}

Json MessageJson(const Message& message);

// Element `i` of a repeated field; a singular field has i = -1.
Json ValueJson(const Message& message, const FieldDescriptor& field, int i) {
  const Reflection& of = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return i < 0 ? of.GetInt32(message, &field) : of.GetRepeatedInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_INT64:
      return i < 0 ? of.GetInt64(message, &field) : of.GetRepeatedInt64(message, &field, i);
    case FieldDescriptor::CPPTYPE_UINT32:
      return i < 0 ? of.GetUInt32(message, &field) : of.GetRepeatedUInt32(message, &field, i);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return i < 0 ? of.GetDouble(message, &field) : of.GetRepeatedDouble(message, &field, i);
    case FieldDescriptor::CPPTYPE_BOOL:
      return i < 0 ? of.GetBool(message, &field) : of.GetRepeatedBool(message, &field, i);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(*field.enum_type(),
                      i < 0 ? of.GetEnumValue(message, &field) : of.GetRepeatedEnumValue(message, &field, i));
    case FieldDescriptor::CPPTYPE_STRING:
      return i < 0 ? of.GetString(message, &field) : of.GetRepeatedString(message, &field, i);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageJson(i < 0 ? of.GetMessage(message, &field) : of.GetRepeatedMessage(message, &field, i));
    default: return nullptr;  // no message has a field of these types
  }
}

Json MessageJson(const Message& message) {
  const Descriptor& type = *message.GetDescriptor();
  Json json = Json::object();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    if (field.has_optional_keyword() && !message.GetReflection()->HasField(message, &field)) continue;
    Json& value = json[field.name()];
    if (!field.is_repeated()) {
      value = ValueJson(message, field, -1);
      continue;
    }
    value = Json::array();
    for (int i = 0; i < message.GetReflection()->FieldSize(message, &field); ++i)
      value.push_back(ValueJson(message, field, i));
  }
  return json;
}

Json TypeSchema(const FieldDescriptor& field, Json* definitions);

Json MessageSchema(const Descriptor& type, Json* definitions) {
  Json properties = Json::object(), required = Json::array();
  for (int f = 0; f < type.field_count(); ++f) {
    const FieldDescriptor& field = *type.field(f);
    const Json one = TypeSchema(field, definitions);
    properties[field.name()] = field.is_repeated() ? Json{{"type", "array"}, {"items", one}} : one;
    if (!field.has_optional_keyword()) required.push_back(field.name());
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
}

Json TypeSchema(const FieldDescriptor& field, Json* definitions) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_DOUBLE: return {{"type", "number"}};
    case FieldDescriptor::CPPTYPE_BOOL: return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_STRING: return {{"type", "string"}};
    case FieldDescriptor::CPPTYPE_ENUM: {
      Json names = Json::array();
      for (int i = 0; i < field.enum_type()->value_count(); ++i)
        names.push_back(EnumName(*field.enum_type(), field.enum_type()->value(i)->number()));
      return {{"enum", names}};
    }
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const std::string& name = field.message_type()->name();
      if (!definitions->contains(name)) (*definitions)[name] = MessageSchema(*field.message_type(), definitions);
      return {{"$ref", absl::StrCat("#/definitions/", name)}};
    }
    default: return {{"type", "integer"}};
  }
}

template <typename Ranks>
void Sort(Ranks* ranks) {
  std::sort(ranks->begin(), ranks->end());
}

// Completes the verdict for the JSON: adds sentences, and sorts lists that depend on the order of files.
Verdict Finished(const Verdict& verdict, const Before& before) {
  Verdict out = verdict;
  out.set_schema_version(kSchemaVersion);
  for (Finding& finding : *out.mutable_findings()) {
    Sort(finding.mutable_culprit_ranks());
    std::stable_sort(finding.mutable_culprits()->begin(), finding.mutable_culprits()->end(),
                     [](const Culprit& a, const Culprit& b) { return a.rank() < b.rank(); });
    for (ChainLink& link : *finding.mutable_chain()) {
      Sort(link.mutable_ranks());
      Sort(link.mutable_waits_for());
    }
    for (Evidence& item : *finding.mutable_evidence()) Sort(item.mutable_ranks());
    finding.set_headline(Headline(finding));
  }
  for (DataProblem& problem : *out.mutable_problems()) problem.clear_like();
  std::stable_sort(out.mutable_problems()->begin(), out.mutable_problems()->end(),
                   [](const DataProblem& a, const DataProblem& b) {
                     return std::forward_as_tuple(a.rank(), a.path(), a.offset(), a.text()) <
                            std::forward_as_tuple(b.rank(), b.path(), b.offset(), b.text());
                   });
  for (const NotTheCause& ruled_out : out.ruled_out()) out.add_not_the_cause(NotTheCauseText(ruled_out));
  for (const Before::Item& item : before.items) {
    EarlierIncidents* earlier = out.add_before();
    earlier->set_what(item.what);
    earlier->set_name(item.name);
    earlier->set_culprit_of(item.culprit_of);
    earlier->set_incidents(item.incidents);
    earlier->set_last_real_ns(item.last_real_ns);
    earlier->set_last_kind(item.last_kind);
    earlier->set_text(item.text);
  }
  out.set_before_unknown(before.unknown);
  return out;
}

Json RecommendedJson(const Recommended& recommended) {
  return {{"action", ActionName(recommended.action)},
          {"hosts", recommended.hosts},
          {"ranks", recommended.ranks},
          {"why", recommended.why},
          {"confidence", recommended.confidence}};
}

Json RecommendedSchema() {
  const auto array = [](const char* of) { return Json{{"type", "array"}, {"items", {{"type", of}}}}; };
  const Json text = {{"type", "string"}};
  Json actions = Json::array();
  for (const Action action : {Action::kWait, Action::kAsk, Action::kRequeue, Action::kExclude})
    actions.push_back(ActionName(action));
  return {{"type", "object"},
          {"properties",
           {{"action", {{"enum", actions}}},
            {"hosts", array("string")},
            {"ranks", array("integer")},
            {"why", text},
            {"confidence", {{"type", "number"}}}}},
          {"required", {"action", "hosts", "ranks", "why", "confidence"}},
          {"additionalProperties", false}};
}

// Names from files may not be valid UTF-8; ASCII output also keeps terminals safe.
std::string Dump(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string VerdictName(VerdictKind kind) { return EnumName(*VerdictKind_descriptor(), kind); }

std::string FindingName(FindingKind kind) { return EnumName(*FindingKind_descriptor(), kind); }

std::string ReportJson(const Verdict& verdict, const Before& before) {
  Json json = MessageJson(Finished(verdict, before));
  json["recommended"] = RecommendedJson(RecommendedFor(verdict));
  return Dump(json);
}

std::string JsonSchema() {
  Json definitions = Json::object();
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "Lockstep verdict"}};
  schema.update(MessageSchema(*Verdict::descriptor(), &definitions));
  schema["properties"]["schema_version"]["const"] = kSchemaVersion;
  schema["properties"]["recommended"] = RecommendedSchema();
  schema["required"].push_back("recommended");
  schema["definitions"] = definitions;
  return Dump(schema);
}

}  // namespace lockstep
