#include "gui/view/answer/verdict_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include "analyzer/evidence/frames.h"
#include "analyzer/report/finding.h"
#include "analyzer/report/phrases.h"
#include "analyzer/report/report.h"
#include "analyzer/viewdata/facts.h"
#include "gui/model/answer/answer.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kMostEvidence = 64;  // per finding
constexpr int kMostSections = 64;
constexpr int kMostLines = 24;  // per row
constexpr int kMostUnknown = 24;
constexpr int kMostFrames = 12;  // per stack
constexpr int kRankColumns = 40;

struct Label {
  std::string_view label;
  const char* words;
  bool right;  // consequences of the finding, shown next to its evidence
};

// In reading order.
constexpr std::array kLabels = {
    Label{"python", "Python stack", false}, Label{"stack", "native stack", false}, Label{"calls", "call sites", false},
    Label{"cause", "cause", false},         Label{"state", "state", false},        Label{"who", "who", false},
    Label{"common", "in common", false},    Label{"group", "group", false},        Label{"chain", "who waits", false},
    Label{"evidence", "evidence", false},   Label{"moving", "moving", false},      Label{"hardware", "hardware", false},
    Label{"memory", "memory", false},       Label{"costs", "costs", false},        Label{"likewise", "likewise", false},
    Label{"do", "what to do", true},        Label{"sure", "how sure", true},       Label{"maybe", "or else", true},
    Label{"NOT", "it is not", true},        Label{"blind", "gaps", true},          Label{"DATA", "data", true},
    Label{"clocks", "clocks", true},        Label{"problems", "problems", true},   Label{"last", "comes last", false},
    Label{"rates", "rates", false},         Label{"start-up", "start-up", false},  Label{"job", "job", true},
    Label{"files", "files", true},
};

size_t PlaceOf(std::string_view label) {
  return static_cast<size_t>(
      std::find_if(kLabels.begin(), kLabels.end(), [&](const Label& known) { return known.label == label; }) -
      kLabels.begin());
}

QString Link(const QString& href, const QString& html) { return QString("<a href=\"%1\">%2</a>").arg(href, html); }

struct Row {
  size_t place = 0;  // index into kLabels
  QString label;
  QStringList lines;  // markup
};

void Cut(QStringList* lines) {
  if (lines->size() <= kMostLines) return;
  const qsizetype more = lines->size() - kMostLines;
  lines->erase(lines->begin() + kMostLines, lines->end());
  lines->append(QString("and %1 more").arg(more));
}

// Returns the finding's evidence, each line with a link to its cells. Omits evidence that has its own report row.
QStringList EvidenceLines(const Finding& finding, int f) {
  QStringList lines;
  int shown = 0, left = 0;
  for (int e = 0; e < finding.evidence_size(); ++e) {
    if (HasOwnRow(finding.evidence(e))) continue;
    if (shown == kMostEvidence) {
      ++left;
      continue;
    }
    ++shown;
    lines.append(Link(QString("evidence:%1:%2").arg(f).arg(e), Html(finding.evidence(e).text())));
  }
  if (left > 0) lines.append(QString("and %1 more, in the JSON report").arg(left));
  return lines;
}

QStringList ChainLines(const Finding& finding, int f, const QStringList& as_reported) {
  QStringList lines;
  for (const QString& line : as_reported) {
    QString out = line;
    // The report's row starts with the links of the chain, in order.
    if (lines.size() < std::min(finding.chain_size(), kMaxLinksShown))
      out = Link(QString("chain:%1:%2").arg(f).arg(lines.size()), line);
    lines.append(out);
  }
  return lines;
}

std::vector<Row> RowsOf(const Document& document, const ReportSection& section) {
  std::vector<Row> rows;
  const int f = section.finding();
  const Finding* finding = f >= 0 && f < document.verdict().findings_size() ? &document.verdict().findings(f) : nullptr;
  bool evidence = false;
  for (const ReportSection::Row& row : section.rows()) {
    Row out;
    out.place = PlaceOf(row.label());
    out.label = out.place < kLabels.size() ? QString(kLabels[out.place].words) : Html(row.label(), 24);
    for (const std::string& line : row.lines()) out.lines.append(Html(line, 1500));
    if (finding != nullptr) {
      if (row.label() == "chain") out.lines = ChainLines(*finding, f, out.lines);
      if (row.label() == "state" || row.label() == "who") {
        for (QString& line : out.lines) line = Link(QString("finding:%1").arg(f), line);
      }
      if (row.label() == "evidence") {
        evidence = true;
        out.lines = EvidenceLines(*finding, f);
      }
    }
    if (row.label() != "evidence") Cut(&out.lines);
    if (!out.lines.isEmpty()) rows.push_back(std::move(out));
  }
  if (finding != nullptr && !evidence) {
    QStringList lines = EvidenceLines(*finding, f);
    if (!lines.isEmpty()) rows.push_back({PlaceOf("evidence"), "evidence", std::move(lines)});
  }
  return rows;
}

// Collects all that is unknown, from several sources, in one row.
void AddUnknown(const Document& document, std::vector<Row>* rows) {
  const auto at =
      std::find_if(rows->begin(), rows->end(), [](const Row& row) { return row.place == PlaceOf("blind"); });
  Row fresh{PlaceOf("blind"), "gaps", {}};
  Row& row = at == rows->end() ? fresh : *at;
  const Ranks missing = document.MissingRanks();
  for (const std::string& text : document.facts().unknown()) {
    if (row.lines.size() >= kMostUnknown) break;
    row.lines.append(Html(text));
  }
  if (!missing.empty()) {
    const std::string& text = document.facts().missing_text();
    row.lines.prepend(Link("missing", text.empty() ? "no data of " + RanksText(missing) : Html(text)));
  }
  if (at == rows->end() && !fresh.lines.isEmpty()) rows->push_back(std::move(fresh));
}

QString Table(const std::vector<Row>& rows) {
  QString out = "<table cellspacing=\"0\" cellpadding=\"0\">";
  for (const Row& row : rows) {
    out += QString(
               "<tr><td class=\"label\" style=\"padding-right:10px; padding-bottom:4px; white-space:pre\">%1</td>"
               "<td style=\"padding-bottom:4px\">%2</td></tr>")
               .arg(row.label, row.lines.join("<br>"));
  }
  return out + "</table>";
}

// Lays out the rows in one or two columns. `below` comes below the left column.
QString Laid(std::vector<Row> rows, bool columns, const QString& below) {
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.place < b.place; });
  if (!columns) return Table(rows) + below;
  const auto middle = std::stable_partition(rows.begin(), rows.end(), [](const Row& row) {
    return row.place >= kLabels.size() || !kLabels[row.place].right;
  });
  if (middle == rows.begin() || middle == rows.end()) return Table(rows) + below;
  return QString(
             "<table width=\"100%\" cellspacing=\"0\" cellpadding=\"0\"><tr><td width=\"57%\" "
             "style=\"padding-right:18px\">%1</td><td width=\"43%\">%2</td></tr></table>")
      .arg(Table({rows.begin(), middle}) + below, Table({middle, rows.end()}));
}

// Returns the facts' sections. If an older index has none, makes sections from the verdict.
std::vector<ReportSection> Sections(const Document& document) {
  const ViewFacts& facts = document.facts();
  if (facts.report_size() > 0) return {facts.report().begin(), facts.report().end()};
  if (facts.verdict().verdict() == VERDICT_UNSPECIFIED) return {};
  ViewFacts made;
  SetReport({}, facts.verdict(), &made);
  made.mutable_report()->RemoveLast();  // it describes the input files, which are unknown here
  return {made.report().begin(), made.report().end()};
}

// Returns at most kMostFrames frames. They include that of the user's code, if there is one, with a mark.
QStringList StackLines(const AnswerStack& stack) {
  QStringList lines;
  const int count = static_cast<int>(stack.frames.size());
  const int skipped = stack.own < kMostFrames ? 0 : stack.own - kMostFrames + 1;
  if (skipped > 0) lines.append(QString("%1 inner frames").arg(skipped));
  for (int i = skipped; i < std::min(count, skipped + kMostFrames); ++i) {
    const QString frame = Html(stack.frames[static_cast<size_t>(i)]->frame(), 200);
    lines.append(i == stack.own ? QString("<span class=\"alarm mono\"><b>&#9664; %1</b></span>").arg(frame)
                                : QString("<span class=\"mono\">%1</span>").arg(frame));
  }
  if (count > skipped + kMostFrames) lines.append(QString("and %1 outer frames").arg(count - skipped - kMostFrames));
  return lines;
}

// Replaces the report's rows about stacks and call sites by rows with frames and sites.
void AddCode(const Document& document, int finding, std::vector<Row>* rows) {
  const size_t stack_place = PlaceOf("stack"), python_place = PlaceOf("python"), calls_place = PlaceOf("calls");
  const auto drop = [rows](size_t place) {
    rows->erase(std::remove_if(rows->begin(), rows->end(), [place](const Row& row) { return row.place == place; }),
                rows->end());
  };
  const std::vector<AnswerStack> stacks = CulpritStacks(document, finding);
  if (!stacks.empty()) {
    drop(stack_place);
    drop(python_place);
  } else if (const QString why = NoStackBecause(document, finding); !why.isEmpty()) {
    drop(stack_place);
    rows->push_back({stack_place, "stack", {"none: " + why.toHtmlEscaped()}});
  }
  for (const AnswerStack& stack : stacks) {
    const bool python = stack.frames.front()->kind() == StackFrame::PYTHON;
    rows->push_back({python ? python_place : stack_place,
                     (stacks.size() > 1 ? QString(python ? "Python" : "native") + "<br>" : QString()) + "stack of<br>" +
                         RanksText(stack.ranks, kRankColumns),
                     StackLines(stack)});
  }
  const std::vector<AnswerSite> sites = SitesOf(document, finding);
  if (sites.empty()) return;
  drop(calls_place);
  QStringList lines;
  for (const AnswerSite& site : sites) {
    const QString what = site.operation.empty() ? "at" : Html(site.operation, 40) + " in";
    lines.append(QString("<span class=\"%1\">%2: %3 <b>%4</b></span>")
                     .arg(site.culprit ? "alarm" : "", RanksText(site.ranks, kRankColumns), what,
                          Html(PlaceText(site.place), 160)));
  }
  rows->push_back({calls_place, "call sites", std::move(lines)});
}

int Number(const QStringList& parts, int i) {
  bool ok = false;
  const int value = i < parts.size() ? parts[i].toInt(&ok) : -1;
  return ok ? value : -1;
}

}  // namespace

QString VerdictWord(const Document& document) {
  if (document.verdict().verdict() == VERDICT_UNSPECIFIED) return "READING";
  return Plain(lockstep::VerdictWord(document.verdict()), 24);
}

QString VerdictHeadline(const Document& document) {
  const std::vector<ReportSection> sections = Sections(document);
  if (sections.empty()) return QString("%1 ranks so far: no verdict until all are read").arg(document.rank_count());
  return Plain(sections.front().title(), 2000);
}

QString VerdictSureness(const Document& document) {
  if (document.verdict().findings().empty()) return {};
  const Finding& finding = document.verdict().findings(0);
  return QString::fromStdString(ConfidenceWord(finding.confidence())) + (finding.hypothesis() ? ", a hypothesis" : "");
}

QString VerdictPage(const Document& document, int finding, bool columns) {
  const std::vector<ReportSection> sections = Sections(document);
  if (sections.empty()) return {};
  const bool first = finding <= 0 || finding >= document.verdict().findings_size();
  const bool data = sections.size() > 1 && sections.back().finding() < 0;
  std::vector<Row> rows;
  QString above, below;
  int others = 0;
  for (size_t s = 0; s < sections.size() - (data ? 1 : 0); ++s) {
    const ReportSection& section = sections[s];
    if (first ? s == 0 : section.finding() == finding) {
      rows = RowsOf(document, section);
    } else if (++others <= kMostSections) {
      below += QString("<p style=\"margin:4px 0 2px 0\"><span class=\"label\">%1</span>&nbsp; %2</p>")
                   .arg(s == 0 ? "root cause" : "also",
                        Link(QString("finding:%1").arg(section.finding()),
                             Html(s == 0 ? lockstep::Headline(document.verdict().findings(0)) : section.title(), 600)));
    }
  }
  if (others > kMostSections)
    below += QString("<p>and %1 more findings, in the JSON report</p>").arg(others - kMostSections);
  if (first) {
    if (data) {
      for (Row& row : RowsOf(document, sections.back())) rows.push_back(std::move(row));
    }
    AddUnknown(document, &rows);
  } else {
    above = QString("<p class=\"head\" style=\"margin:0 0 6px 0\">Finding %1 of %2: %3</p>")
                .arg(finding + 1)
                .arg(document.verdict().findings_size())
                .arg(Html(lockstep::Headline(document.verdict().findings(finding)), 600));
  }
  AddCode(document, first ? 0 : finding, &rows);
  return above + Laid(std::move(rows), columns, below);
}

Selection VerdictLink(const Document& document, const QString& link, int* finding) {
  const QStringList parts = link.split(':');
  const int f = Number(parts, 1), item = Number(parts, 2);
  if (f < 0 || f >= document.verdict().findings_size()) {
    return parts[0] == "missing" ? Selection::Of(document.MissingRanks()) : Selection();
  }
  const Finding& of = document.verdict().findings(f);
  if (parts[0] == "finding") {
    if (finding != nullptr) *finding = f;
    return document.EvidenceLink(f, -1);
  }
  if (parts[0] == "evidence" && item >= 0 && item < of.evidence_size()) return document.EvidenceLink(f, item);
  Selection selection;
  if (parts[0] != "chain" || item < 0 || item >= of.chain_size()) return selection;
  const ChainLink& chain = of.chain(item);
  selection.ranks = Ranks::Of(std::vector<int32_t>(chain.ranks().begin(), chain.ranks().end()));
  for (int32_t c = 0; c < document.comm_count() && selection.comm < 0 && !chain.communicator().id().empty(); ++c) {
    if (document.index().text(document.CommEntry(c).id) == chain.communicator().id()) selection.comm = c;
  }
  const int row = selection.ranks.empty() ? -1 : document.RowOf(selection.ranks.front());
  const WaitClass* wait = row < 0 ? nullptr : document.WaitOf(row);
  const bool send = wait != nullptr && wait->point_to_point();
  if (chain.has_sequence() && !send && document.HasColumns(selection.comm))
    selection.seq_first = selection.seq_last = chain.sequence();
  return selection;
}

}  // namespace lockstep::gui
