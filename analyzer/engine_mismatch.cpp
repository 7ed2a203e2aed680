#include "analyzer/engine_mismatch.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

using ring::CallKind;

bool HasRoot(CallKind kind) {
  return kind == CallKind::kBroadcast || kind == CallKind::kReduce || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}

// Shapes that may lawfully differ between ranks: splits of an all-to-all, the root's side of a scatter or gather.
bool InputsAgree(CallKind kind) {
  return kind != CallKind::kAlltoAll && kind != CallKind::kScatter && kind != CallKind::kCoalesced;
}
bool OutputsAgree(CallKind kind) {
  return kind != CallKind::kAlltoAll && kind != CallKind::kGather && kind != CallKind::kCoalesced;
}

std::pair<std::string, std::string> Dtypes(const Bundle& bundle, const Op& op) {
  if (op.dtypes == kNoIndex || op.dtypes >= bundle.strings.size()) return {};
  std::pair<std::string, std::string> both = absl::StrSplit(bundle.strings[op.dtypes], absl::MaxSplits(" -> ", 1));
  return both;
}

// A call that is wrong by itself: sizes that its own kind cannot have.
bool Contradicts(const Op& op, int32_t size, std::string* found, std::string* expected) {
  if (op.in_batch || op.batch_end || op.input_elements <= 0 || op.output_elements <= 0 || size <= 0) return false;
  int64_t want = -1;
  switch (op.kind) {
    case CallKind::kAllReduce: want = op.input_elements; break;
    case CallKind::kAllGather: want = op.input_elements * size; break;
    case CallKind::kReduceScatter:
      if (op.output_elements * size == op.input_elements) return false;
      want = op.input_elements / size;
      break;
    default: return false;
  }
  if (want == op.output_elements) return false;
  *found = absl::StrCat(op.input_elements, " elements in, ", op.output_elements, " out");
  *expected = absl::StrCat(want, " out");
  return true;
}

struct Seen {
  int64_t seq;
  int32_t nth;      // among the rank's calls of this number (a framework's batch shares one)
  int32_t rank;
  const Op* op;
};

bool Partition(const Model& model, const std::vector<Seen>& calls, Mismatch* out) {
  // Classes of calls that agree; the biggest is what most issued.
  std::vector<std::vector<const Seen*>> classes;
  for (const Seen& s : calls) {
    bool placed = false;
    for (auto& klass : classes) {
      if (CompareCalls(model.bundle, *s.op, *klass[0]->op, nullptr, nullptr) == FINDING_UNSPECIFIED) {
        klass.push_back(&s);
        placed = true;
        break;
      }
    }
    if (!placed) classes.push_back({&s});
  }
  if (classes.size() < 2) return false;
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  out->majority = classes[0].size() > classes[1].size();
  if (!out->majority && classes.size() == 2) {
    const int side = WitnessesAgainst(model, out->comm, out->seq, *classes[0][0]->op, *classes[1][0]->op);
    if (side == 0) std::swap(classes[0], classes[1]);
    out->majority = out->by_siblings = side >= 0;
  }
  out->members_seen = static_cast<int32_t>(calls.size());
  const size_t from = out->majority ? 1 : 0;
  for (size_t i = from; i < classes.size(); ++i) {
    for (const Seen* s : classes[i]) out->odd_ranks.push_back(s->rank);
  }
  std::sort(out->odd_ranks.begin(), out->odd_ranks.end());
  const Seen& odd = *classes[1][0];
  const Seen& usual = *classes[0][0];
  out->odd_op = odd.op;
  out->usual_op = usual.op;
  out->usual_rank = usual.rank;
  out->kind = CompareCalls(model.bundle, *odd.op, *usual.op, &out->odd_text, &out->usual_text);
  return true;
}

bool SplitsDisagree(const Model& model, const CommView& view, const std::vector<Seen>& calls, Mismatch* out) {
  if (calls.size() != view.members.size() || calls.size() < 2) return false;
  int64_t in = 0, sent = 0;
  for (const Seen& s : calls) {
    if (s.op->kind != CallKind::kAlltoAll || s.op->input_elements < 0 || s.op->output_elements < 0) return false;
    in += s.op->input_elements;
    sent += s.op->output_elements;
  }
  if (in == sent) return false;
  out->kind = MISMATCH_SPLITS;
  out->members_seen = static_cast<int32_t>(calls.size());
  for (const Seen& s : calls) out->odd_ranks.push_back(s.rank);
  std::sort(out->odd_ranks.begin(), out->odd_ranks.end());
  out->odd_op = calls[0].op;
  out->odd_text = absl::StrCat("all members together send ", in, " elements");
  out->usual_text = absl::StrCat("receive ", sent);
  (void)model;
  return true;
}

}  // namespace

FindingKind CompareCalls(const Bundle& bundle, const Op& a, const Op& b, std::string* a_text, std::string* b_text) {
  auto say = [&](std::string x, std::string y) {
    if (a_text != nullptr) *a_text = std::move(x);
    if (b_text != nullptr) *b_text = std::move(y);
  };
  if (a.kind != b.kind || (a.kind == CallKind::kOtherCollective && OpName(bundle, a) != OpName(bundle, b))) {
    say(OpName(bundle, a), OpName(bundle, b));
    return MISMATCH_KIND;
  }
  if (a.count >= 0 && b.count >= 0 && a.count != b.count) {
    say(absl::StrCat("count ", a.count), absl::StrCat("count ", b.count));
    return MISMATCH_COUNT;
  }
  const bool members = !a.batch_end && !b.batch_end;
  if (members && InputsAgree(a.kind) && a.input_elements >= 0 && b.input_elements >= 0 &&
      a.input_elements != b.input_elements) {
    say(absl::StrCat(a.input_elements, " input elements"), absl::StrCat(b.input_elements, " input elements"));
    return MISMATCH_COUNT;
  }
  if (members && OutputsAgree(a.kind) && a.output_elements >= 0 && b.output_elements >= 0 &&
      a.output_elements != b.output_elements) {
    say(absl::StrCat(a.output_elements, " output elements"), absl::StrCat(b.output_elements, " output elements"));
    return MISMATCH_COUNT;
  }
  if (a.datatype != b.datatype && a.datatype != ring::kNoDatatype && b.datatype != ring::kNoDatatype) {
    say(DatatypeText(a.datatype), DatatypeText(b.datatype));
    return MISMATCH_DATATYPE;
  }
  if (a.dtypes != b.dtypes) {  // interned: equal text has one index
    const auto [a_in, a_out] = Dtypes(bundle, a);
    const auto [b_in, b_out] = Dtypes(bundle, b);
    if (members && !a_in.empty() && !b_in.empty() && a_in != b_in && a.kind != CallKind::kScatter) {
      say(a_in, b_in);
      return MISMATCH_DATATYPE;
    }
    if (members && !a_out.empty() && !b_out.empty() && a_out != b_out && a.kind != CallKind::kGather) {
      say(a_out, b_out);
      return MISMATCH_DATATYPE;
    }
  }
  if (a.reduction != b.reduction && a.reduction != ring::kNoReduction && b.reduction != ring::kNoReduction) {
    say(ReductionText(a.reduction), ReductionText(b.reduction));
    return MISMATCH_REDUCTION;
  }
  if (HasRoot(a.kind) && a.root_or_peer >= 0 && b.root_or_peer >= 0 && a.root_or_peer != b.root_or_peer) {
    say(absl::StrCat("root ", a.root_or_peer), absl::StrCat("root ", b.root_or_peer));
    return MISMATCH_ROOT;
  }
  return FINDING_UNSPECIFIED;
}

std::string ArgumentsText(const Bundle& bundle, const Op& op) {
  std::string text = OpName(bundle, op);
  if (op.count >= 0) absl::StrAppend(&text, " of ", op.count, " x ", DatatypeText(op.datatype));
  if (op.count < 0 && op.input_elements >= 0) absl::StrAppend(&text, " of ", op.input_elements, " elements");
  if (op.reduction != ring::kNoReduction) absl::StrAppend(&text, ", ", ReductionText(op.reduction));
  if (HasRoot(op.kind) && op.root_or_peer >= 0) absl::StrAppend(&text, ", root ", op.root_or_peer);
  return text;
}

std::vector<Mismatch> FindMismatches(const Model& model) {
  std::vector<Mismatch> found;
  for (uint32_t c = 0; c < model.comms.size(); ++c) {
    const CommView& view = model.comms[c];
    std::vector<Seen> calls;
    for (const Member& m : view.members) {
      if (m.rank_index < 0 || m.membership == kNoIndex) continue;
      const Rank& rank = model.bundle.ranks[m.rank_index];
      int64_t last = kUnknown;
      int32_t nth = 0;
      for (uint32_t i : model.ranks[m.rank_index].collectives[m.membership]) {
        const Op& op = rank.ops[i];
        nth = op.seq == last ? nth + 1 : 0;
        last = op.seq;
        calls.push_back({op.seq, nth, m.rank_index, &op});
      }
    }
    std::stable_sort(calls.begin(), calls.end(), [](const Seen& a, const Seen& b) {
      return a.seq != b.seq ? a.seq < b.seq : a.nth < b.nth;
    });
    for (size_t i = 0; i < calls.size();) {
      size_t end = i;
      while (end < calls.size() && calls[end].seq == calls[i].seq && calls[end].nth == calls[i].nth) ++end;
      const std::vector<Seen> same(calls.begin() + static_cast<ptrdiff_t>(i), calls.begin() + static_cast<ptrdiff_t>(end));
      i = end;
      Mismatch mismatch;
      mismatch.comm = c;
      mismatch.seq = same[0].seq;
      bool bad = Partition(model, same, &mismatch) || SplitsDisagree(model, view, same, &mismatch);
      if (!bad) {
        for (const Seen& s : same) {
          if (!Contradicts(*s.op, model.bundle.comms[c].size, &mismatch.odd_text, &mismatch.usual_text)) continue;
          mismatch.kind = MISMATCH_COUNT;
          mismatch.odd_ranks.push_back(s.rank);
          mismatch.odd_op = s.op;
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
