// The first screen: what a tired engineer reads first, in at most 24 lines.
#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analyzer/model/finding_kinds.h"
#include "analyzer/report/before.h"
#include "analyzer/report/content.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"

namespace lockstep {
namespace {

constexpr size_t kScreenLines = 24;
constexpr size_t kTextColumn = 11;       // column of a row's text
constexpr size_t kContinuedColumn = 13;  // column of continued lines
constexpr size_t kMostAlso = 3;          // maximum of further findings
constexpr size_t kMostRankColumns = 18;  // in a chain, print the number of ranks instead of a longer list

// A row of the first screen. Drops the last items if they need more than `most` lines; a single item ends in "..".
class BriefRow {
 public:
  BriefRow(std::string label, std::vector<std::string> items, size_t most, size_t least = 1)
      : label_(std::move(label)), items_(std::move(items)), most_(most), least_(least) {}

  void Lay(size_t width) {
    lines_.clear();
    std::string label = absl::StrCat("  ", label_);
    label.resize(std::max(label.size() + 1, kTextColumn), ' ');
    for (const std::string& item : items_) {
      std::string text;
      AppendWrapped(label, item, kContinuedColumn, width, LongWords::kCut, &text);
      std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
      if (lines_.size() + lines.size() > most_) {
        if (!lines_.empty()) break;
        lines.resize(most_);
        if (Columns(lines.back()) + 3 > width) lines.back().resize(lines.back().rfind(' '));
        lines.back() += " ..";
      }
      lines_.insert(lines_.end(), lines.begin(), lines.end());
      label.assign(kTextColumn, ' ');
    }
  }
  // Drops the whole row and returns true, if the row may have zero lines. VerdictText drops these rows first.
  bool Drop() {
    if (least_ > 0 || lines_.empty()) return false;
    lines_.clear();
    return true;
  }
  bool Shrink(size_t width) {
    if (lines_.size() <= least_) return false;
    most_ = lines_.size() - 1;
    Lay(width);
    return true;
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::string label_;
  std::vector<std::string> items_;
  size_t most_, least_;
  std::vector<std::string> lines_;
};

using RankList = google::protobuf::RepeatedField<int32_t>;

// "ranks 0-3", or "12 ranks".
std::string FewRanks(const RankList& list) {
  const std::vector<int32_t> ranks(list.begin(), list.end());
  std::string text = RanksText(ranks, 1000);
  return text.size() <= kMostRankColumns ? text : absl::StrCat(CountText(static_cast<int64_t>(ranks.size())), " ranks");
}

constexpr size_t kMostLinkLines = 3;  // for each link of a chain

bool SameRanks(const RankList& a, const RankList& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

// Returns the indexes of the first `most` links. The send and the receive of one pair are one link.
std::vector<std::vector<int>> FirstLinks(const Finding& finding, size_t most) {
  std::vector<std::vector<int>> links;
  for (int i = 0; i < finding.chain_size(); ++i) {
    const auto same = std::find_if(links.begin(), links.end(), [&](const std::vector<int>& indexes) {
      const ChainLink &first = finding.chain(indexes[0]), &link = finding.chain(i);
      return SameRanks(first.ranks(), link.ranks()) && SameRanks(first.waits_for(), link.waits_for()) &&
             CommName(first.communicator()) == CommName(link.communicator());
    });
    if (same != links.end()) {
      same->push_back(i);
    } else if (links.size() < most) {
      links.push_back({i});
    }
  }
  return links;
}

std::vector<std::string> BriefChain(const Finding& finding, size_t most) {
  std::vector<std::string> items;
  for (const std::vector<int>& indexes : FirstLinks(finding, most)) {
    const ChainLink& link = finding.chain(indexes[0]);
    std::string text = absl::StrCat(FewRanks(link.ranks()), link.ranks_size() == 1 ? " waits" : " wait");
    if (link.waits_for_size() > 0) absl::StrAppend(&text, " for ", FewRanks(link.waits_for()));
    for (const int i : indexes) {
      const std::string& operation = finding.chain(i).operation();
      if (!operation.empty()) absl::StrAppend(&text, i == indexes[0] ? " in " : " and ", Printable(operation, 40));
    }
    const CommunicatorRef& comm = link.communicator();
    if (!comm.id().empty() || !comm.name().empty()) absl::StrAppend(&text, " on ", Printable(CommName(comm), 60));
    items.push_back(std::move(text));
  }
  return items;
}

// Returns how many waiting ranks are not in the first `links` links of the chain, and which ranks they wait for. Empty
// if there are none.
std::string RestOfChain(const Finding& finding, size_t links) {
  std::set<int> first;
  for (const std::vector<int>& indexes : FirstLinks(finding, links)) first.insert(indexes.begin(), indexes.end());
  const std::set<int32_t> culprits(finding.culprit_ranks().begin(), finding.culprit_ranks().end());
  std::set<int32_t> shown, direct;
  for (int i = 0; i < finding.chain_size(); ++i) {
    const ChainLink& link = finding.chain(i);
    const bool for_culprit = std::any_of(link.waits_for().begin(), link.waits_for().end(),
                                         [&](int32_t rank) { return culprits.count(rank) > 0; });
    for (const int32_t rank : link.ranks()) {
      if (first.count(i) > 0) {
        shown.insert(rank);
      } else if (for_culprit && shown.count(rank) == 0) {
        direct.insert(rank);
      }
    }
  }
  const int64_t rest = finding.victim_count() - static_cast<int64_t>(shown.size());
  if (shown.empty() || rest <= 0) return "";
  const auto near = static_cast<int64_t>(direct.size()), far = rest - near;
  const std::string who = FewRanks(finding.culprit_ranks());
  std::string text = Counted(rest, "more rank waits", "more ranks wait");
  if (far <= 0) return absl::StrCat(text, " for ", who);
  if (near == 0) return absl::StrCat(text, " behind other waiting ranks");
  return absl::StrCat(text, ": ", CountText(far), " behind other waiting ranks, ", CountText(near), " for ", who);
}

// Returns whether the headline already reports the condition of the culprit's process: stopped, how it ended, or no
// data.
bool SaysCondition(const Finding& finding) {
  switch (finding.culprits(0).condition()) {
    case Culprit::STOPPED:
      return finding.reason() == REASON_PROCESS_STOPPED || finding.reason() == REASON_STOPPED_WHILE_OTHERS_WAIT;
    case Culprit::KILLED:
    case Culprit::EXITED:
    case Culprit::GONE: return finding.kind() == RANK_DEAD;
    case Culprit::NO_DATA: return finding.kind() == RANK_NO_DATA;
    default: return false;
  }
}

// The first lines of the text. Advice should begin on the third line, so clauses that do not fit go to the row `why`.
struct Head {
  std::vector<std::string> lines;
  bool says_waiting = true;
  std::vector<std::string> rest;  // the clauses of the headline that were left out
};

// " on tp_3": the group of the call that the headline names. Empty if the group is the only difference from the other
// call.
std::string GroupOfCall(const Finding& finding) {
  const Detail& detail = finding.detail();
  if (detail.has_other() && detail.other().text() == detail.call().text()) return "";
  std::string group = detail.call().on();
  for (const Evidence& evidence : finding.evidence())
    if (evidence.kind() == Evidence::LAST_CALL) group = evidence.communicator().label();
  return group.empty() ? "" : absl::StrCat(" on ", Printable(group));
}

std::string Without(const std::string& group, std::string text) {
  const size_t at = group.empty() ? std::string::npos : text.find(group), end = at + group.size();
  if (at == std::string::npos || (end < text.size() && (isalnum(text[end]) != 0 || text[end] == '_'))) return text;
  return text.erase(at, group.size());
}

Head HeadOf(const Verdict& verdict, const ReportContent& content, size_t width) {
  constexpr size_t kMost = 5, kShort = 2;
  Head head;
  const auto fits = [&](const std::string& sentences) {
    std::string text;
    AppendWrapped(absl::StrCat(content.verdict, content.lasted.empty() ? "" : " ", content.lasted, "  "),
                  absl::StrCat(sentences, content.also.empty() ? "" : " ", content.also), kTextColumn, width,
                  LongWords::kCut, &text);
    head.lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    return head.lines.size() <= kShort;
  };
  std::string sentence = content.headline;
  // Without a finding, no space needs to be kept for advice.
  if (!verdict.findings().empty()) {
    const std::vector<Clause> clauses = HeadlineClauses(verdict.findings(0));
    const std::string group = GroupOfCall(verdict.findings(0));
    std::string shorter;  // without the group
    sentence.clear();
    for (const Clause& clause : clauses) {
      const std::string text = absl::StrCat(shorter, clause.joint, Without(group, clause.text));
      if (shorter.empty() || fits(absl::StrCat(text, "."))) {
        shorter = text;
        absl::StrAppend(&sentence, clause.joint, clause.text);
      } else if (!clause.repeated) {
        head.rest.push_back(clause.text);
      }
    }
    // The group of the call is the least important.
    if (sentence != shorter && !fits(absl::StrCat(sentence, "."))) {
      head.rest.insert(head.rest.begin(), absl::StrCat("that call is", group));
      sentence = std::move(shorter);
    }
    // A long first clause, such as an exception, continues in the row `why`.
    std::string start = sentence;
    while (!fits(absl::StrCat(start, " ..")) && absl::StrContains(start, ' ')) start.resize(start.rfind(' '));
    if (start.size() < sentence.size() && !fits(absl::StrCat(sentence, "."))) {
      head.rest.insert(head.rest.begin(), absl::StrCat("..", sentence.substr(start.size())));
      sentence = absl::StrCat(start, " .");
    }
  }
  absl::StrAppend(&sentence, ".");
  head.says_waiting = content.waiting.empty() || fits(absl::StrCat(sentence, " ", content.waiting));
  if (!head.says_waiting || content.waiting.empty()) fits(sentence);
  if (head.lines.size() > kMost) {
    head.lines.resize(kMost);
    head.lines.back() = absl::StrCat(head.lines.back().substr(0, head.lines.back().rfind(' ')), " ..");
  }
  return head;
}

// Returns whether the headline or the chain already shows this evidence.
bool ShownAbove(const Evidence& item, const Finding& finding) {
  return item.kind() == Evidence::WAITING || item.kind() == Evidence::IN_OPERATION ||
         (item.kind() == Evidence::LAST_CALL && finding.culprits_size() == 1) ||
         (item.kind() == Evidence::ENTERED && finding.reason() == REASON_ALL_IN);
}

bool ArgumentsDiffer(const Verdict& verdict) {
  return !verdict.findings().empty() && FindingFactsOf(verdict.findings(0).kind()).differs != nullptr;
}

std::vector<std::string> BriefWhy(const Verdict& verdict, const ReportContent& content, const Head& head) {
  std::vector<std::string> items = head.rest;
  const auto add_row = [&](const ReportBlock& block, std::string_view label, size_t most) {
    const ReportRow* row = block.Find(label);
    for (size_t i = 0; row != nullptr && i < std::min(row->lines.size(), most); ++i) items.push_back(row->lines[i]);
  };
  for (const char* label : {"common", "calls", "hardware", "memory", "costs"}) add_row(content.first, label, 2);
  if (!verdict.findings().empty()) {
    const Finding& finding = verdict.findings(0);
    for (const Evidence& item : finding.evidence())
      if (!HasOwnRow(item) && !ShownAbove(item, finding)) items.push_back(Printable(item.text(), 300));
    if (finding.culprits_size() == 1) {
      const Culprit& culprit = finding.culprits(0);
      const ReportRow* state = content.first.Find("state");
      if (!SaysCondition(finding) && state != nullptr && !state->lines.empty())
        items.push_back(absl::StrCat("rank ", culprit.rank(), ": ", state->lines[0]));
    }
  }
  std::vector<std::string> not_it;
  for (const NotTheCause& ruled_out : verdict.ruled_out()) {
    // Where the members' arguments differ, all of them may be in the operation.
    if (ruled_out.what() == NotTheCause::NETWORK && !ArgumentsDiffer(verdict))
      not_it.push_back("not the network (each stuck operation lacks a member)");
    if (ruled_out.what() == NotTheCause::GPU) not_it.push_back("not the GPU");
  }
  if (!not_it.empty()) items.push_back(absl::StrJoin(not_it, ", "));
  return items;
}

std::vector<std::string> BriefSure(const Finding& finding) {
  return {absl::StrCat(ConfidenceWord(finding.confidence()), " (", absl::StrFormat("%.2f", finding.confidence()), ")",
                       finding.hypothesis() ? ", a hypothesis" : "")};
}

// Returns what a replay found. Omits a replay without a result, because it does not help the reader.
std::vector<std::string> BriefProof(const Finding& finding) {
  const Proof::Result result = finding.proof().result();
  if (result != Proof::PROVED && result != Proof::NOT_PROVED) return {};
  // That a job continues with the next calls of an ended process is no news.
  if (result == Proof::PROVED && finding.kind() == RANK_DEAD) return {};
  return {Printable(finding.proof().text(), 300)};
}

std::vector<std::string> Lines(const ReportBlock& block, std::string_view label) {
  const ReportRow* row = block.Find(label);
  return row == nullptr ? std::vector<std::string>() : row->lines;
}

// Missing data, its consequences, and the reasons.
std::vector<std::string> BriefData(const Verdict& verdict, const ReportContent& content) {
  std::vector<std::string> items;
  const std::vector<std::string> data = Lines(content.data, "DATA");
  if (verdict.ranks_read() < verdict.ranks_expected() && data.size() > 1) items.push_back(data[1]);
  // Without a finding, blind spots have a separate row.
  if (!verdict.findings().empty())
    for (const std::string& blind : verdict.blind()) items.push_back(Printable(blind, 300));
  for (const std::string& problem : Lines(content.data, "problems")) items.push_back(problem);
  return items;
}

// Adds further findings. Those with high confidence include advice.
void AddOthers(const Verdict& verdict, const ReportContent& content, std::vector<BriefRow>* rows) {
  for (size_t i = 0; i < std::min(content.others.size(), kMostAlso); ++i) {
    const ReportBlock& other = content.others[i];
    const Finding& finding = verdict.findings(other.finding);
    rows->emplace_back("also", std::vector<std::string>{absl::StrCat(other.title, ". ", WaitingText(finding))}, 4);
    if (!finding.hypothesis() && ConfidenceWord(finding.confidence()) == "high")
      rows->emplace_back("and do", Lines(other, "do"), 3);
  }
  if (content.others.size() > kMostAlso)
    rows->emplace_back("", std::vector<std::string>{absl::StrCat(content.others.size() - kMostAlso, " more: --full")},
                       1);
}

std::vector<BriefRow> RowsOf(const Verdict& verdict, const Bundle& bundle, const ReportContent& content,
                             const Head& head) {
  std::vector<BriefRow> rows;
  rows.emplace_back("do", Lines(content.first, "do"), 8, 2);
  const size_t more = head.rest.empty() ? 0 : 1;  // what the first lines leave out
  rows.emplace_back("why", BriefWhy(verdict, content, head), 5 + more);
  if (verdict.findings().empty()) {
    rows.emplace_back("blind", Lines(content.first, "blind"), 6);
  } else {
    const Finding& finding = verdict.findings(0);
    // The chain is never cut, because the next row counts the remaining ranks.
    const size_t links = content.others.empty() ? 2 : 1, lines = kMostLinkLines * links;
    std::vector<std::string> chain = BriefChain(finding, links);
    if (chain.empty() && !head.says_waiting) chain.push_back(content.waiting);
    rows.emplace_back("chain", std::move(chain), lines, lines);
    if (std::string rest = RestOfChain(finding, links); !rest.empty())
      rows.emplace_back("", std::vector<std::string>{std::move(rest)}, 2);
    rows.emplace_back("likewise", Lines(content.first, "likewise"), 2);
    std::vector<std::string> rivals;
    for (const std::string& rival : finding.alternatives()) rivals.push_back(Printable(rival, 300));
    rows.emplace_back("or", std::move(rivals), 3);
    rows.emplace_back("sure", BriefSure(finding), 1);
    rows.emplace_back("", BriefProof(finding), 3, 0);
    AddOthers(verdict, content, &rows);
  }
  rows.emplace_back("saving", Lines(content.first, "saving"), 4);
  rows.emplace_back("code", Lines(content.first, "code"), 4);
  rows.emplace_back("speed", Lines(content.data, "speed"), 4, 0);
  rows.emplace_back("before", Lines(content.first, "before"), 2);
  rows.emplace_back("job", Lines(content.first, "job"), 3);
  rows.emplace_back("data", BriefData(verdict, content), 4);
  // Advises to copy the files, except rings, which `lockstep run` or an agent removes after their processes end.
  const std::vector<std::string> files = Lines(content.data, "files");
  const bool on_disk = std::none_of(bundle.ranks.begin(), bundle.ranks.end(), [](const Rank& rank) {
    return rank.source == Source::kRing && !absl::EndsWith(rank.path, ".lsd");
  });
  if (on_disk && files.size() == 1 && !verdict.findings().empty()) {
    constexpr size_t kFits = 60;  // a truncated path cannot be copied
    const std::string what = files[0].size() <= kFits ? files[0] : "the incident folder";
    rows.emplace_back("keep", std::vector<std::string>{absl::StrCat("copy ", what, " before you restart the job")}, 2);
  }
  return rows;
}

std::string Colored(const std::vector<std::string>& lines, const ReportContent& content, VerdictKind kind) {
  const char* color = kind == VERDICT_HEALTHY                                                           ? "32"
                      : kind == VERDICT_LATE || kind == VERDICT_SLOW || kind == VERDICT_INCOMPLETE_DATA ? "33"
                                                                                                        : "31";
  std::string out;
  for (const std::string& line : lines) {
    const bool labelled = line.size() > kTextColumn && line[2] != ' ' && line.compare(0, 2, "  ") == 0;
    if (&line == &lines.front()) {
      const size_t word = content.verdict.size();
      absl::StrAppend(&out, "\x1b[1;", color, "m", line.substr(0, word), "\x1b[0m", line.substr(word), "\n");
    } else if (labelled) {
      const size_t end = line.find(' ', 2);
      absl::StrAppend(&out, "  \x1b[1m", line.substr(2, end - 2), "\x1b[0m", line.substr(end), "\n");
    } else {
      absl::StrAppend(&out, line, "\n");
    }
  }
  return out;
}

}  // namespace

std::string VerdictText(const Verdict& verdict, const Bundle& bundle, const Before& before, const TextStyle& style) {
  ReportContent content = BuildReport(verdict, bundle);
  AddBeforeRow(before, &content);
  const Head head = HeadOf(verdict, content, style.width);
  std::vector<std::string> lines = head.lines;
  std::vector<BriefRow> rows = RowsOf(verdict, bundle, content, head);
  const size_t room = kScreenLines - lines.size();
  std::vector<BriefRow*> by_length;
  for (BriefRow& row : rows) {
    row.Lay(style.width);
    by_length.push_back(&row);
  }
  for (;;) {
    size_t total = 0;
    for (const BriefRow& row : rows) total += row.lines().size();
    if (total <= room) break;
    if (std::any_of(rows.begin(), rows.end(), [](BriefRow& row) { return row.Drop(); })) continue;
    // Shortens the longest row that can lose a line.
    std::stable_sort(by_length.begin(), by_length.end(),
                     [](const BriefRow* a, const BriefRow* b) { return a->lines().size() > b->lines().size(); });
    if (std::none_of(by_length.begin(), by_length.end(), [&](BriefRow* row) { return row->Shrink(style.width); }))
      break;
  }
  for (const BriefRow& row : rows) lines.insert(lines.end(), row.lines().begin(), row.lines().end());
  if (style.color) return Colored(lines, content, verdict.verdict());
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

}  // namespace lockstep
