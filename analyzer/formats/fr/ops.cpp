#include "analyzer/formats/fr/ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

using ring::CallKind;

constexpr uint32_t kTooManyGroups = kNoIndex - 1, kGarbledGroup = kNoIndex - 2, kGarbledTypes = kNoIndex - 1;

RawState ParseState(std::string_view text) {
  if (text == "completed") return RawState::kCompleted;
  if (text == "started") return RawState::kStarted;
  if (text == "scheduled") return RawState::kScheduled;
  return RawState::kUnknown;
}

bool Truth(const Value& value) { return (value.type == Type::kBool || value.type == Type::kInt) && value.integer != 0; }

}  // namespace

bool ToInteger(const Document& document, const Value& value, int64_t* out) {
  switch (value.type) {
    case Type::kInt:
    case Type::kBool: *out = value.integer; return true;
    case Type::kDouble:
      if (!(std::fabs(value.real) < 9e18) || value.real != std::floor(value.real)) return false;
      *out = static_cast<int64_t>(value.real);
      return true;
    case Type::kString: {
      std::string_view text = document.Text(value);
      return text.size() <= 20 && ParseNumber(text, out);
    }
    default: return false;
  }
}

EntryReader::EntryReader(const Document& document, FileData* file)
    : document_(document),
      file_(*file),
      // Shared structures may be visited again for every entry that refers to them. The limit avoids quadratic time in
      // a file that consists only of references.
      work_left_(4'000'000 + 16 * static_cast<uint64_t>(document.string_count() + document.container_count())) {}

bool EntryReader::Spend(uint64_t work) {
  if (work > work_left_) {
    work_left_ = 0;
    return false;
  }
  work_left_ -= work;
  return true;
}

uint32_t EntryReader::Intern(std::string_view text) {
  auto [found, added] =
      strings_.try_emplace(absl::string_view(text.data(), text.size()), static_cast<uint32_t>(file_.strings.size()));
  if (added) file_.strings.emplace_back(text);
  return found->second;
}

uint32_t EntryReader::InternValue(const Value& value) {
  uint32_t& known = string_of_value_[value.index];
  if (known == 0) known = Intern(document_.Text(value)) + 1;
  return known - 1;
}

void EntryReader::ReadEntries(const Value& entries) {
  if (!Document::IsSequence(entries)) {
    if (entries.type != Type::kMissing && entries.type != Type::kNone) {
      file_.problems.push_back({file_.rank.path, -1, "'entries' is not a list: ignored", file_.rank.rank});
    }
    return;
  }
  seen_.resize(document_.container_count());
  frame_of_container_.resize(document_.container_count());
  string_of_value_.resize(document_.string_count());
  name_of_value_.resize(document_.string_count());
  state_of_value_.resize(document_.string_count());
  uint32_t size = document_.Size(entries);
  file_.rank.ops.reserve(std::min<uint64_t>(size, 65536));
  raw_.reserve(std::min<uint64_t>(size, 65536));
  document_.ForEach(entries, [&](const Value& entry) {
    detail_.clear();
    std::string_view reason;
    if (document_.IsPartial(entry)) {
      reason = "";  // the damage itself is already reported
    } else if (full()) {
      file_.problems.push_back({file_.rank.path, -1,
                                absl::StrCat("more than ", kMaxEntries, " entries: the rest is ignored"),
                                file_.rank.rank});
      return false;
    } else if (work_left_ == 0) {
      file_.problems.push_back(
          {.path = file_.rank.path,
           .text = absl::StrCat("ignored entry ", entry_, " and all later ones: they repeat shared objects too often"),
           .rank = file_.rank.rank,
           .like = "shared structures"});
      file_.rank.damaged = true;
      return false;
    } else {
      reason = ReadEntry(entry);
    }
    if (!reason.empty()) Skip(reason);
    entry_++;
    return true;
  });
  Finish();
}

void EntryReader::Finish() {
  for (const auto& [reason, skipped] : skipped_) {
    std::string more = skipped.count > 1 ? absl::StrCat(" (and ", skipped.count - 1, " more such entries)") : "";
    file_.problems.push_back({.path = file_.rank.path,
                              .text = absl::StrCat("entry ", skipped.first, " skipped: ", reason, more),
                              .rank = file_.rank.rank,
                              .like = "entries skipped"});
  }
  if (!skipped_.empty()) file_.rank.damaged = true;
  SortByRecord();
}

void EntryReader::Skip(std::string_view reason) {
  std::string key = std::string(reason) + detail_;
  // A hostile file may have any number of different texts, so only the first few kinds are counted separately.
  if (skipped_.size() >= 8 && !skipped_.contains(key)) key = "further entries of other kinds";
  auto [at, added] = skipped_.try_emplace(key);
  if (added) at->second.first = entry_;
  at->second.count++;
}

std::string_view EntryReader::ReadEntry(const Value& entry) {
  if (entry.type != Type::kDict) return "not a dictionary";
  // The writer never shares entries. Several references to one dictionary would multiply it.
  if (seen_[entry.index]) return "the same object as an earlier entry";
  seen_[entry.index] = true;
  Value fields[static_cast<size_t>(Key::kCount)];
  document_.ForEachPair(entry, [&](const Value& key, const Value& value) {
    fields[static_cast<size_t>(key.key)] = value;
    return true;
  });
  const auto field = [&](Key key) -> const Value& { return fields[static_cast<size_t>(key)]; };
  Value group_name, group_desc;
  uint32_t position = 0;
  document_.ForEach(field(Key::kProcessGroup), [&](const Value& item) {
    (position++ == 0 ? group_name : group_desc) = item;
    return position < 2;
  });
  const Shape input = ReadShape(field(Key::kInputSizes)), output = ReadShape(field(Key::kOutputSizes));
  ReadTypes(field(Key::kInputDtypes), &types_[0]);
  ReadTypes(field(Key::kOutputDtypes), &types_[1]);
  Op op;
  op.call_site = ReadCallSite(field(Key::kFrames));
  const Value& name = field(Key::kProfilingName);
  if (name.type != Type::kString) return "no profiling_name";
  const OpNameInfo& info = FindOpName(name);
  // A damaged text may still be parsable, but must not count as a different kind of call.
  static constexpr std::string_view kDamagedText = "the text of its operation, group or types is damaged";
  if (info.garbled) return kDamagedText;
  if (info.name.kind == CallKind::kNone) {
    detail_ = absl::StrCat("'", Printable(document_.Text(name), kMostNameColumns), "'");
    return "the backend is unknown, in profiling_name ";
  }
  op.membership = FindGroup(group_name, group_desc, field(Key::kPgId));
  if (op.membership == kNoIndex) return "neither process_group nor pg_id names its group";
  if (op.membership == kGarbledGroup) return kDamagedText;
  if (op.membership == kTooManyGroups) return "its group is beyond the maximum number of groups in a file";

  RawOp raw;
  op.kind = info.name.kind;
  op.name = info.text;
  op.root_or_peer = info.name.peer;
  op.batch_end = info.name.batch_end;
  raw.p2p = Truth(field(Key::kIsP2p)) || ring::IsPointToPoint(op.kind);
  // The end of a batch of sends and receives is a group, which has no number among the collectives.
  if (raw.p2p && op.batch_end) op.kind = CallKind::kGroup;
  op.retired = Truth(field(Key::kRetired));
  raw.state = StateOf(field(Key::kState));
  raw.backend = info.backend;
  op.input_shape = input.index;
  op.output_shape = output.index;
  if (!op.batch_end) {  // the shapes of a batch's end are only placeholders
    op.input_elements = input.elements;
    op.output_elements = output.elements;
  }
  op.dtypes = InternTypes(types_[0], types_[1]);
  if (op.dtypes == kGarbledTypes) return kDamagedText;
  op.thread = ThreadOf(field(Key::kThreadId));

  const auto integer = [&](Key key, int64_t missing) {
    const Value& value = field(key);
    if (value.type == Type::kInt) return value.integer;
    int64_t out = missing;
    return ToInteger(document_, value, &out) ? out : missing;
  };
  const auto counter = [&](Key key, int64_t missing) {
    const int64_t out = integer(key, missing);
    return out >= 0 && out <= kMaxCounter ? out : kUnknown;
  };
  const int64_t single_seq = counter(Key::kSeqId, kUnknown);
  raw.collective_seq = counter(Key::kCollectiveSeqId, raw.p2p ? kUnknown : single_seq);
  raw.p2p_seq = counter(Key::kP2pSeqId, raw.p2p ? single_seq : kUnknown);
  op.seq = raw.p2p ? raw.p2p_seq : raw.collective_seq;
  // Without a number, the matching operation of the peers is unknown.
  if (op.seq < 0 && !raw.p2p) return "a collective without a sequence number";
  raw.op_id = counter(Key::kOpId, kUnknown);
  raw.timeout_ms = integer(Key::kTimeoutMs, -1);
  op.record_id = counter(Key::kRecordId, kUnknown);
  op.enter_ns = std::max<int64_t>(integer(Key::kTimeCreatedNs, 0), 0);
  op.started_ns = std::max<int64_t>(integer(Key::kTimeDiscoveredStartedNs, 0), 0);
  op.completed_ns = std::max<int64_t>(integer(Key::kTimeDiscoveredCompletedNs, 0), 0);
  // A completion may be noticed long after it happened, so this uses the duration from events on the stream.
  const Value& duration = field(Key::kDurationMs);
  const double ms = duration.type == Type::kDouble ? duration.real
                    : duration.type == Type::kInt  ? static_cast<double>(duration.integer)
                                                   : -1;
  if (op.completed_ns > 0 && ms >= 0 && ms * 1e6 < static_cast<double>(op.completed_ns)) {
    op.started_ns = op.completed_ns - static_cast<int64_t>(ms * 1e6);
    raw.measured = true;
    file_.rank.time_source = TimeSource::kFrameworkDurations;
  }
  if (op.completed_ns > 0) raw.state = RawState::kCompleted;
  if (op.started_ns > 0 && raw.state == RawState::kScheduled) raw.state = RawState::kStarted;
  NoteGroupUse(op, raw, info.name.own);
  file_.newest_ns = std::max(file_.newest_ns, op.enter_ns);
  file_.rank.ops.push_back(op);
  raw_.push_back(raw);
  return {};
}

const EntryReader::OpNameInfo& EntryReader::FindOpName(const Value& value) {
  uint32_t& known = name_of_value_[value.index];
  if (known == 0) {
    OpNameInfo info;
    info.garbled = IsGarbled(document_.Text(value));
    if (!info.garbled) info.name = ParseOpName(document_.Text(value));
    if (info.name.kind != CallKind::kNone) {
      info.text = Intern(info.name.text);
      info.backend = BackendOf(document_.Text(value));
    }
    names_.push_back(info);
    known = static_cast<uint32_t>(names_.size());
  }
  return names_[known - 1];
}

uint8_t EntryReader::BackendOf(std::string_view profiling_name) {
  const size_t colon = profiling_name.find(':');
  const std::string_view name = profiling_name.substr(0, colon == std::string_view::npos ? 0 : colon);
  const std::ptrdiff_t at = std::find(backends_.begin(), backends_.end(), name) - backends_.begin();
  if (at == std::ssize(backends_) && at <= UINT8_MAX) backends_.emplace_back(name);
  return static_cast<uint8_t>(std::min<std::ptrdiff_t>(at, UINT8_MAX));
}

RawState EntryReader::StateOf(const Value& state) {
  if (state.type != Type::kString) return RawState::kUnknown;
  uint8_t& known = state_of_value_[state.index];
  if (known == 0) known = static_cast<uint8_t>(static_cast<uint8_t>(ParseState(document_.Text(state))) + 1);
  return static_cast<RawState>(known - 1);
}

uint32_t EntryReader::FindGroup(const Value& name, const Value& desc, const Value& id) {
  if (name.type != Type::kString || desc.type != Type::kString || id.type != Type::kInt || id.integer < 0) {
    return FindGroupSlowly(name, desc, id);
  }
  RecentGroup& recent = recent_groups_[(name.index + static_cast<uint32_t>(id.integer)) % std::size(recent_groups_)];
  if (recent.name != name.index || recent.desc != desc.index || recent.pg_id != id.integer) {
    recent = {name.index, desc.index, id.integer, FindGroupSlowly(name, desc, id)};
  }
  return recent.group;
}

uint32_t EntryReader::FindGroupSlowly(const Value& name, const Value& desc, const Value& id) {
  int64_t pg_id = kUnknown;
  bool has_id = ToInteger(document_, id, &pg_id) && pg_id >= 0;
  uint64_t key = 0;
  int64_t number = 0;
  for (const Value* text : {&name, &desc}) {
    if (text->type == Type::kString && IsGarbled(document_.Text(*text))) return kGarbledGroup;
  }
  if (name.type == Type::kString) {
    key = (uint64_t{InternValue(name)} << 32) + (desc.type == Type::kString ? InternValue(desc) : kNoIndex);
  } else if (name.type != Type::kMissing && ToInteger(document_, name, &number)) {
    key = (uint64_t{Intern(absl::StrCat(number))} << 32) + (desc.type == Type::kString ? InternValue(desc) : kNoIndex);
  } else if (has_id) {
    key = (uint64_t{kNoIndex} << 32) + (static_cast<uint64_t>(pg_id) & 0xffffffff);
  } else {
    return kNoIndex;
  }
  if (file_.used.size() >= kMaxGroups && !groups_.contains(key)) return kTooManyGroups;
  auto [found, added] = groups_.try_emplace(key, static_cast<uint32_t>(file_.used.size()));
  if (added) {
    UsedGroup group;
    uint32_t name_text = static_cast<uint32_t>(key >> 32), desc_text = static_cast<uint32_t>(key);
    if (name_text == kNoIndex) {
      group.local_id_only = true;
      group.name = absl::StrCat("pg_id ", pg_id);
      if (pg_id == 0) group.desc = "default_pg";
    } else {
      group.name = file_.strings[name_text];
      if (desc_text != kNoIndex) group.desc = file_.strings[desc_text];
    }
    file_.used.push_back(std::move(group));
  }
  if (has_id) {
    std::vector<int64_t>& ids = file_.used[found->second].pg_ids;
    if (ids.size() < 4 && std::find(ids.begin(), ids.end(), pg_id) == ids.end()) ids.push_back(pg_id);
  }
  return found->second;
}

void EntryReader::NoteGroupUse(const Op& op, const RawOp& raw, int32_t own) {
  UsedGroup* group = &file_.used[op.membership];
  group->collectives = std::max(group->collectives, raw.collective_seq);
  group->p2ps = std::max(group->p2ps, raw.p2p_seq);
  group->has_p2p = group->has_p2p || raw.p2p;
  group->newest_issued_ns = std::max(group->newest_issued_ns, op.enter_ns);
  if (!raw.p2p && op.seq >= 0) {
    if (op.seq == 0) group->collective_zero = true;
    if (group->first_collective == kUnknown || op.seq < group->first_collective) group->first_collective = op.seq;
  }
  if (own >= 0) {
    group->size_hint = std::max({group->size_hint, own + 1, op.root_or_peer + 1});
    if (group->own_group_rank == -1) group->own_group_rank = own;
    if (group->own_group_rank != own) group->own_group_rank = -2;
  }
}

EntryReader::Shape EntryReader::ReadShape(const Value& sizes) {
  if (!Document::IsSequence(sizes) || work_left_ == 0) return {};
  scratch_.clear();
  int64_t total = 0;
  bool known = true;
  document_.ForEach(sizes, [&](const Value& tensor) {
    if (!Spend(1 + document_.Size(tensor))) return known = false;
    if (!Document::IsSequence(tensor)) return known = false;
    size_t count_at = scratch_.size();
    scratch_.push_back(0);
    int64_t product = 1;
    document_.ForEach(tensor, [&](const Value& dimension) {
      int64_t number = dimension.integer;
      if (dimension.type != Type::kInt && !ToInteger(document_, dimension, &number)) number = -1;
      if (number < 0) known = false;
      scratch_.push_back(number);
      if (product >= 0 && __builtin_mul_overflow(product, std::max<int64_t>(number, 0), &product)) product = -1;
      return true;
    });
    scratch_[count_at] = static_cast<int64_t>(scratch_.size() - count_at - 1);
    if (product < 0 || __builtin_add_overflow(total, product, &total)) known = false;
    return true;
  });
  if (work_left_ == 0) return {};
  const std::vector<int64_t>& numbers = scratch_;
  const uint64_t hash = absl::HashOf(numbers);
  auto same = [&](const KnownShape& known) {
    return known.size == numbers.size() &&
           std::equal(numbers.begin(), numbers.end(), shape_numbers_.begin() + static_cast<ptrdiff_t>(known.first));
  };
  KnownShape& recent = recent_shapes_[(hash >> 8) % std::size(recent_shapes_)];
  if (recent.shape.index != kNoIndex && same(recent)) return recent.shape;
  std::vector<KnownShape>& bucket = shapes_[hash];
  for (const KnownShape& known : bucket) {
    if (!same(known)) continue;
    recent = known;
    return known.shape;
  }
  std::string text = "[";
  for (size_t at = 0; at < numbers.size();) {
    size_t count = static_cast<size_t>(numbers[at++]);
    if (text.size() > 1) text += ',';
    text += '[';
    for (size_t i = 0; i < count; i++) absl::StrAppend(&text, i > 0 ? "," : "", numbers[at + i]);
    text += ']';
    at += count;
  }
  text += ']';
  recent = {shape_numbers_.size(),
            numbers.size(),
            {static_cast<uint32_t>(file_.shapes.size()), known && !numbers.empty() ? total : -1}};
  shape_numbers_.insert(shape_numbers_.end(), numbers.begin(), numbers.end());
  file_.shapes.push_back(std::move(text));
  bucket.push_back(recent);
  return recent.shape;
}

void EntryReader::ReadTypes(const Value& list, Types* types) {
  types->given = Document::IsSequence(list);
  types->items.clear();
  document_.ForEach(list, [&](const Value& item) {
    if (!Spend(1)) return false;
    types->items.push_back(item);
    return true;
  });
}

// Interns the types of inputs and outputs, as in "Float -> Half". If all types of a side are the same, the type appears
// once; otherwise commas separate the types.
uint32_t EntryReader::InternTypes(const Types& in, const Types& out) {
  if (!in.given && !out.given) return kNoIndex;
  const Types* sides[2] = {&in, &out};
  bool simple = in.items.size() <= 1 && out.items.size() <= 1;
  uint64_t key = 0;
  if (simple) {
    for (const Types* side : sides) {
      bool text = !side->items.empty() && side->items[0].type == Type::kString;
      key = (key << 32) + (text ? side->items[0].index + 1 : 0);
    }
    auto found = dtypes_.find(key);
    if (found != dtypes_.end()) return found->second;
  }
  std::string text;
  bool garbled = false;
  for (const Types* side : sides) {
    if (side == &out) text += " -> ";
    std::string_view first = side->items.empty() ? std::string_view() : document_.Text(side->items[0]);
    bool same = std::all_of(side->items.begin(), side->items.end(),
                            [&](const Value& item) { return document_.Text(item) == first; });
    bool begun = false;
    for (const Value& item : side->items) {
      std::string_view type = document_.Text(item);
      if (!Spend(1 + type.size() / 16) || text.size() > 4096) break;
      garbled |= IsGarbled(type);
      if (begun) text += ',';
      text += Printable(type, kMostNameColumns);
      begun = true;
      if (same) break;
    }
  }
  uint32_t index = garbled ? kGarbledTypes : Intern(text);
  if (simple) dtypes_.emplace(key, index);
  return index;
}

uint32_t EntryReader::ReadFrame(const Value& frame) {
  uint32_t& known = frame_of_container_[frame.index];
  if (known != 0) return known;
  known = 1;
  const std::string_view file = document_.Text(document_.Get(frame, Key::kFilename));
  if (file.empty() || file == "??" || file[0] == '<') return known;
  int64_t line = 0;
  ToInteger(document_, document_.Get(frame, Key::kLine), &line);
  text_.clear();
  AppendPrintable(file.substr(file.rfind('/') + 1), kMostNameColumns, &text_);
  absl::StrAppend(&text_, ":", line, " ");
  AppendPrintable(document_.Text(document_.Get(frame, Key::kName)), kMostNameColumns, &text_);
  const uint32_t text = Intern(text_);
  if (text < (1u << 30)) known = ((text + 1) << 1) + (IsTorchFile(file) ? 1 : 0);
  return known;
}

// Returns the innermost frame outside PyTorch, or the innermost if there is none.
uint32_t EntryReader::ReadCallSite(const Value& frames) {
  uint32_t site = kNoIndex;
  document_.ForEach(frames, [&](const Value& frame) {
    if (!Spend(1)) return false;
    const uint32_t code = frame.type == Type::kDict ? ReadFrame(frame) : 1;
    if (code == 1) return true;
    const bool torch = (code & 1) != 0;
    if (!torch || site == kNoIndex) site = (code >> 1) - 1;
    return torch;
  });
  return site;
}

uint32_t EntryReader::ThreadOf(const Value& id) {
  uint32_t text = kNoIndex;
  int64_t number = 0;
  if (id.type == Type::kString) {
    if (id.index == recent_thread_value_) return recent_thread_;
    text = InternValue(id);
  } else if (ToInteger(document_, id, &number)) {
    text = Intern(absl::StrCat(number));
  } else {
    return kNoIndex;
  }
  uint32_t thread = threads_.try_emplace(text, static_cast<uint32_t>(threads_.size())).first->second;
  if (id.type == Type::kString) {
    recent_thread_value_ = id.index;
    recent_thread_ = thread;
  }
  return thread;
}

// Sorts entries by record_id if all have one; PyTorch writes them oldest first. Sets each operation's position in its
// thread; without thread IDs, its position in the file.
void EntryReader::SortByRecord() {
  std::vector<Op>& ops = file_.rank.ops;
  bool numbered = std::all_of(ops.begin(), ops.end(), [](const Op& op) { return op.record_id >= 0; });
  auto before = [](const Op& a, const Op& b) { return a.record_id < b.record_id; };
  if (numbered && !std::is_sorted(ops.begin(), ops.end(), before)) {
    std::vector<uint32_t> order(ops.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return before(ops[a], ops[b]); });
    std::vector<Op> sorted;
    std::vector<RawOp> raw;
    sorted.reserve(ops.size());
    raw.reserve(ops.size());
    for (uint32_t at : order) {
      sorted.push_back(ops[at]);
      raw.push_back(raw_[at]);
    }
    ops.swap(sorted);
    raw_.swap(raw);
  }
  // Threads are numbered in the order of their first appearance.
  std::vector<uint32_t> renumbered(threads_.size(), kNoIndex);
  thread_ops_.assign(threads_.size(), 0);
  uint32_t next = 0;
  int64_t position = 0;
  for (Op& op : ops) {
    if (op.thread == kNoIndex) {
      op.index = position++;
      continue;
    }
    uint32_t& number = renumbered[op.thread];
    if (number == kNoIndex) number = next++;
    op.thread = number;
    op.index = thread_ops_[number]++;
  }
}

}  // namespace lockstep::fr
