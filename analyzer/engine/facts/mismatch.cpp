#include "analyzer/engine/facts/mismatch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/model/call_kinds.h"
#include "analyzer/util/rank_text.h"

namespace lockstep {
namespace {

using ring::CallKind;

std::pair<std::string, std::string> Dtypes(const Bundle& bundle, const Op& op) {
  if (op.dtypes == kNoIndex || op.dtypes >= bundle.strings.size()) return {};
  std::pair<std::string, std::string> both = absl::StrSplit(bundle.strings[op.dtypes], absl::MaxSplits(" -> ", 1));
  return both;
}

// Returns whether the call is wrong by itself, because its kind cannot have these sizes in that communicator. False if
// the communicator may have unknown members.
bool Contradicts(const Op& op, const Communicator& comm, std::string* found, std::string* expected) {
  const int32_t size = comm.members_inferred || comm.may_have_more ? 0 : comm.size;
  if (op.in_batch || op.batch_end || op.input_elements <= 0 || op.output_elements <= 0 || size <= 0) return false;
  int64_t want = -1;
  switch (CallFactsOf(op.kind).output) {
    case CallFacts::Output::kSame: want = op.input_elements; break;
    case CallFacts::Output::kTimesMembers: want = op.input_elements * size; break;
    case CallFacts::Output::kByMembers:
      if (op.output_elements * size == op.input_elements) return false;
      want = op.input_elements / size;
      break;
    case CallFacts::Output::kAny: return false;
  }
  if (want == op.output_elements) return false;
  *found = absl::StrCat(op.input_elements, " elements in, ", op.output_elements, " out");
  *expected = absl::StrCat(want, " out");
  return true;
}

struct Seen {
  int64_t seq;
  int32_t nth;  // index among the rank's calls with this number (calls of a framework's batch share a number)
  int32_t rank;
  const Op* op;
};

// Returns whether the two calls agree in everything that CompareCalls or Contradicts check, except the splits of an
// all-to-all.
bool Identical(const Op& a, const Op& b) {
  return a.kind == b.kind && a.count == b.count && a.datatype == b.datatype && a.reduction == b.reduction &&
         a.root_or_peer == b.root_or_peer && a.dtypes == b.dtypes && a.in_batch == b.in_batch &&
         a.batch_end == b.batch_end && (a.name == b.name || a.kind != CallKind::kOtherCollective) &&
         ((a.input_elements == b.input_elements && a.output_elements == b.output_elements) ||
          a.kind == CallKind::kAlltoAll);
}

// A class of calls that agree with each other. Sources record different facts about a call, so a call with few known
// facts may agree with calls that differ from each other. A call is added only if it agrees with every distinct form of
// the call in the class.
class Alike {
 public:
  bool Take(const Bundle& bundle, const Seen& s) {
    bool known = false;
    for (const Seen* form : forms_) {
      if (CompareCalls(bundle, *s.op, *form->op, nullptr, nullptr) != FINDING_UNSPECIFIED) return false;
      known |= Identical(*s.op, *form->op);
    }
    if (!known && forms_.size() < kMostForms) forms_.push_back(&s);
    calls_.push_back(&s);
    return true;
  }
  // Returns a form of this class and a form of another class that differ. There is such a pair, because otherwise the
  // later class would not have been created.
  std::pair<const Seen*, const Seen*> Against(const Bundle& bundle, const Alike& others) const {
    for (const Seen* own : forms_) {
      for (const Seen* other : others.forms_) {
        if (CompareCalls(bundle, *own->op, *other->op, nullptr, nullptr) != FINDING_UNSPECIFIED) return {own, other};
      }
    }
    return {forms_[0], others.forms_[0]};
  }
  size_t size() const { return calls_.size(); }
  const std::vector<const Seen*>& calls() const { return calls_; }

 private:
  static constexpr size_t kMostForms = 8;  // maximum number of variants of one call over all sources
  std::vector<const Seen*> calls_;
  std::vector<const Seen*> forms_;
};

bool Partition(const Model& model, const std::vector<Seen>& calls, Mismatch* out) {
  // The largest class contains the call that most members issued.
  std::vector<Alike> classes;
  const auto larger = [](const Alike& a, const Alike& b) { return a.size() > b.size(); };
  // A log contains fewer facts, so its call may agree with several calls that differ. In that case, the log's call
  // counts for the most common of these calls.
  for (const bool whole : {true, false}) {
    for (const Seen& s : calls) {
      if ((s.op->dtypes != kNoIndex || s.op->count >= 0) != whole) continue;
      if (std::ranges::none_of(classes, [&](Alike& klass) { return klass.Take(model.bundle, s); }))
        classes.emplace_back().Take(model.bundle, s);
    }
    std::ranges::stable_sort(classes, larger);
  }
  if (classes.size() < 2) return false;
  out->majority = classes[0].size() > classes[1].size();
  if (!out->majority && classes.size() == 2) {
    const auto [first, second] = classes[0].Against(model.bundle, classes[1]);
    const int side = WitnessesAgainst(model, out->comm, out->seq, *first->op, *second->op);
    if (side == 0) std::swap(classes[0], classes[1]);
    out->majority = out->by_siblings = side >= 0;
  }
  out->members_seen = static_cast<int32_t>(calls.size());
  const size_t from = out->majority ? 1 : 0;
  for (size_t i = from; i < classes.size(); ++i) {
    for (const Seen* s : classes[i].calls()) out->odd_ranks.push_back(s->rank);
  }
  std::ranges::sort(out->odd_ranks);
  const auto [usual, odd] = classes[0].Against(model.bundle, classes[1]);
  out->odd_op = odd->op;
  out->odd_rank = odd->rank;
  out->usual_op = usual->op;
  out->usual_rank = usual->rank;
  out->kind = CompareCalls(model.bundle, *odd->op, *usual->op, &out->odd_text, &out->usual_text);
  return true;
}

// Returns whether the calls are an all-to-all in which all members together send more or less than they receive. If
// there are at least three members, and only one sends a different number than it receives, that member is wrong.
bool SplitsDisagree(const CommView& view, const std::vector<Seen>& calls, Mismatch* out) {
  if (calls.size() != view.members.size() || calls.size() < 2) return false;
  uint64_t in = 0, sent = 0;  // unsigned, because hostile records may exceed the signed range
  std::vector<const Seen*> uneven;
  for (const Seen& s : calls) {
    if (s.op->kind != CallKind::kAlltoAll || s.op->input_elements < 0 || s.op->output_elements < 0) return false;
    in += static_cast<uint64_t>(s.op->input_elements);
    sent += static_cast<uint64_t>(s.op->output_elements);
    if (s.op->input_elements != s.op->output_elements) uneven.push_back(&s);
  }
  if (in == sent) return false;
  out->kind = MISMATCH_SPLITS;
  out->members_seen = static_cast<int32_t>(calls.size());
  out->majority = uneven.size() == 1 && calls.size() >= 3;
  for (const Seen& s : calls) {
    if (!out->majority || &s == uneven[0]) out->odd_ranks.push_back(s.rank);
  }
  std::ranges::sort(out->odd_ranks);
  const Seen& odd = out->majority ? *uneven[0] : calls[0];
  out->odd_op = odd.op;
  out->odd_rank = odd.rank;
  out->odd_text = absl::StrCat(out->majority ? static_cast<uint64_t>(odd.op->input_elements) : in);
  out->usual_text = absl::StrCat(out->majority ? static_cast<uint64_t>(odd.op->output_elements) : sent);
  return true;
}

// Returns the first sequence number from which the communicator's calls must be compared in detail; below it, each call
// is the same on every member. Usually all calls agree, which one pass over each member's calls in memory order shows.
// INT64_MAX means that all agree.
int64_t FirstToCompare(const Model& model, uint32_t comm) {
  struct Number {
    const Op* first = nullptr;
    uint64_t balance = 0;  // elements that members send minus elements that they receive
  };
  int64_t low = INT64_MAX, high = INT64_MIN;
  size_t total = 0;
  const auto each_member = [&](auto&& take) {
    for (const Member& m : model.comms[comm].members) {
      if (!m.recorded()) continue;
      const auto& list = model.ranks[m.rank_index].collectives[m.membership];
      if (!list.empty()) take(model.bundle.ranks[m.rank_index].ops, list);
    }
  };
  each_member([&](const std::vector<Op>& ops, const std::vector<uint32_t>& list) {
    low = std::min(low, ops[list.front()].seq);
    high = std::max(high, ops[list.back()].seq);
    total += list.size();
  });
  if (total == 0) return INT64_MAX;
  if (static_cast<uint64_t>(high - low) > 4 * total) return low;  // numbers too far apart for a table
  std::vector<Number> numbers(static_cast<size_t>(high - low) + 1);
  int64_t found = INT64_MAX;
  each_member([&](const std::vector<Op>& ops, const std::vector<uint32_t>& list) {
    int64_t last = kUnknown;
    for (const uint32_t i : list) {
      const Op& op = ops[i];
      Number& number = numbers[op.seq - low];
      number.balance += static_cast<uint64_t>(op.input_elements) - static_cast<uint64_t>(op.output_elements);
      if (number.first == nullptr) {
        number.first = &op;
        std::string odd, usual;
        if (Contradicts(op, model.bundle.comms[comm], &odd, &usual)) found = std::min(found, op.seq);
      }
      if (op.seq == std::exchange(last, op.seq) || !Identical(op, *number.first)) found = std::min(found, op.seq);
    }
  });
  for (size_t n = 0; n < numbers.size() && low + static_cast<int64_t>(n) < found; ++n) {
    if (numbers[n].first != nullptr && numbers[n].first->kind == CallKind::kAlltoAll && numbers[n].balance != 0)
      return low + static_cast<int64_t>(n);
  }
  return found;
}

}  // namespace

FindingKind CompareCalls(const Bundle& bundle, const Op& a, const Op& b, std::string* a_text, std::string* b_text) {
  const auto say = [&](std::string x, std::string y) {
    if (a_text != nullptr) *a_text = std::move(x);
    if (b_text != nullptr) *b_text = std::move(y);
    return true;
  };
  // Takes two values that differ. Returns whether both are known, and then sets the texts of the calls.
  const auto known = [&](const auto& x, const auto& y, const auto& is_known, const auto& text) {
    return is_known(x) && is_known(y) && say(text(x), text(y));
  };
  const auto told = [](int64_t number) { return number >= 0; };
  const auto counted = [](const char* before, const char* after) {
    return [=](int64_t n) { return absl::StrCat(before, CountText(n), after); };
  };
  if (a.kind != b.kind || (a.kind == CallKind::kOtherCollective && OpName(bundle, a) != OpName(bundle, b))) {
    say(OpName(bundle, a), OpName(bundle, b));
    return MISMATCH_KIND;
  }
  if (a.count != b.count && known(a.count, b.count, told, counted("count ", ""))) return MISMATCH_COUNT;
  const bool members = !a.batch_end && !b.batch_end;
  const CallFacts& facts = CallFactsOf(a.kind);
  if (members && facts.inputs_agree && a.input_elements != b.input_elements &&
      known(a.input_elements, b.input_elements, told, counted("", " input elements")))
    return MISMATCH_COUNT;
  if (members && facts.outputs_agree && a.output_elements != b.output_elements &&
      known(a.output_elements, b.output_elements, told, counted("", " output elements")))
    return MISMATCH_COUNT;
  const auto typed = [](uint8_t type) { return type != ring::kNoDatatype; };
  if (a.datatype != b.datatype && known(a.datatype, b.datatype, typed, DatatypeText)) return MISMATCH_DATATYPE;
  if (members && a.dtypes != b.dtypes) {  // interned, so equal texts have one index
    const auto named = [](const std::string& name) { return !name.empty(); };
    const auto as_is = [](const std::string& name) { return name; };
    const auto [a_in, a_out] = Dtypes(bundle, a);
    const auto [b_in, b_out] = Dtypes(bundle, b);
    if ((facts.has_every_input && a_in != b_in && known(a_in, b_in, named, as_is)) ||
        (facts.has_every_output && a_out != b_out && known(a_out, b_out, named, as_is)))
      return MISMATCH_DATATYPE;
  }
  const auto reduces = [](uint8_t reduction) { return reduction != ring::kNoReduction; };
  if (a.reduction != b.reduction && known(a.reduction, b.reduction, reduces, ReductionText)) return MISMATCH_REDUCTION;
  const auto root = [](int64_t member) { return absl::StrCat("root ", member); };
  if (facts.has_root && a.root_or_peer != b.root_or_peer && known(a.root_or_peer, b.root_or_peer, told, root))
    return MISMATCH_ROOT;
  return FINDING_UNSPECIFIED;
}

std::string ArgumentsText(const Bundle& bundle, const Op& op) {
  std::string text = OpName(bundle, op);
  if (op.count >= 0) absl::StrAppend(&text, " of ", CountText(op.count), " x ", DatatypeText(op.datatype));
  if (op.count < 0 && op.input_elements >= 0) {
    const std::string type = Dtypes(bundle, op).first;
    absl::StrAppend(&text, " of ", CountText(op.input_elements),
                    !type.empty()            ? absl::StrCat(" x ", type)
                    : op.input_elements == 1 ? " element"
                                             : " elements");
  }
  if (op.reduction != ring::kNoReduction) absl::StrAppend(&text, ", ", ReductionText(op.reduction));
  if (CallFactsOf(op.kind).has_root && op.root_or_peer >= 0) absl::StrAppend(&text, ", root ", op.root_or_peer);
  return text;
}

std::vector<Mismatch> FindMismatches(const Model& model) {
  std::vector<Mismatch> found;
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    const CommView& view = model.comms[c];
    const int64_t from = FirstToCompare(model, c);
    std::vector<Seen> calls;
    for (const Member& m : view.members) {
      if (!m.recorded()) continue;
      const Rank& rank = model.bundle.ranks[m.rank_index];
      int64_t last = kUnknown;
      int32_t nth = 0;
      for (uint32_t i : model.ranks[m.rank_index].collectives[m.membership]) {
        const Op& op = rank.ops[i];
        if (op.seq < from) continue;
        nth = op.seq == last ? nth + 1 : 0;
        last = op.seq;
        calls.push_back({op.seq, nth, m.rank_index, &op});
      }
    }
    std::ranges::stable_sort(
        calls, [](const Seen& a, const Seen& b) { return a.seq != b.seq ? a.seq < b.seq : a.nth < b.nth; });
    for (size_t i = 0; i < calls.size();) {
      size_t end = i;
      while (end < calls.size() && calls[end].seq == calls[i].seq && calls[end].nth == calls[i].nth) ++end;
      const std::vector<Seen> same(calls.begin() + static_cast<ptrdiff_t>(i),
                                   calls.begin() + static_cast<ptrdiff_t>(end));
      i = end;
      Mismatch mismatch;
      mismatch.comm = c;
      mismatch.seq = same[0].seq;
      bool bad = Partition(model, same, &mismatch) || SplitsDisagree(view, same, &mismatch);
      if (!bad) {
        for (const Seen& s : same) {
          if (!Contradicts(*s.op, model.bundle.comms[c], &mismatch.odd_text, &mismatch.usual_text)) continue;
          mismatch.kind = MISMATCH_COUNT;
          mismatch.odd_ranks.push_back(s.rank);
          mismatch.odd_op = s.op;
          mismatch.odd_rank = s.rank;
          mismatch.members_seen = static_cast<int32_t>(same.size());
          mismatch.majority = true;
          bad = true;
        }
      }
      if (bad) {
        found.push_back(std::move(mismatch));
        break;
      }
    }
  }
  FindPointToPointMismatches(model, &found);
  return found;
}

}  // namespace lockstep
