#include "gui/view/verdict_page.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "analyzer/report/evidence.h"
#include "analyzer/report/finding.h"
#include "analyzer/report/report.h"
#include "analyzer/report/words.h"
#include "analyzer/viewdata/report.h"
#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kMostEvidence = 64;  // of one finding
constexpr int kMostSections = 64;
constexpr int kMostLines = 24;  // of one row
constexpr int kMostUnknown = 24;

struct Label {
  std::string_view label;
  const char* words;
  bool right;  // consequences of the finding are beside its evidence
};

// In the order in which they are read.
constexpr std::array kLabels = {
    Label{"cause", "cause", false},         Label{"state", "state", false},        Label{"who", "who", false},
    Label{"common", "in common", false},    Label{"group", "group", false},        Label{"calls", "calls", false},
    Label{"chain", "who waits", false},     Label{"evidence", "evidence", false},  Label{"moving", "moving", false},
    Label{"python", "Python stack", false}, Label{"stack", "native stack", false}, Label{"hardware", "hardware", false},
    Label{"memory", "memory", false},       Label{"costs", "costs", false},        Label{"likewise", "likewise", false},
    Label{"do", "what to do", true},        Label{"sure", "how sure", true},       Label{"maybe", "or else", true},
    Label{"NOT", "it is not", true},        Label{"blind", "not known", true},     Label{"DATA", "data", true},
    Label{"clocks", "clocks", true},        Label{"problems", "problems", true},   Label{"last", "comes last", false},
    Label{"rates", "rates", false},         Label{"start-up", "start-up", false},  Label{"job", "job", true},
    Label{"files", "files", true},
};

size_t PlaceOf(std::string_view label) {
  return static_cast<size_t>(
      std::find_if(kLabels.begin(), kLabels.end(), [&](const Label& known) { return known.label == label; }) -
      kLabels.begin());
}

QString Link(const QString& href, const QString& html) {
  return QString("<a href=\"%1\">%2</a>").arg(href, html);
}

struct Row {
  size_t place = 0;  // into kLabels
  QString label;
  QStringList lines;  // markup
};

void Cut(QStringList* lines) {
  if (lines->size() <= kMostLines) return;
  const qsizetype more = lines->size() - kMostLines;
  lines->erase(lines->begin() + kMostLines, lines->end());
  lines->append(QString("and %1 more").arg(more));
}

// The finding's evidence, each line a link to its cells. Leaves out facts that the report has in their own rows.
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
    lines.append(Link(QString("evidence:%1:%2").arg(f).arg(e), Html(EvidenceText(finding.evidence(e)))));
  }
  if (left > 0) lines.append(QString("and %1 more, in the JSON report").arg(left));
  return lines;
}

QStringList ChainLines(const Finding& finding, int f, const QStringList& as_reported) {
  QStringList lines;
  for (const QString& line : as_reported) {
    QString out = line;
    // The report begins with the links of the chain, in their order.
    if (lines.size() < finding.chain_size() && Html(LinkText(finding.chain(static_cast<int>(lines.size())))) == line)
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

// Unknown facts are in one place, from any source.
void AddUnknown(const Document& document, std::vector<Row>* rows) {
  const auto at =
      std::find_if(rows->begin(), rows->end(), [](const Row& row) { return row.place == PlaceOf("blind"); });
  Row fresh{PlaceOf("blind"), "not known", {}};
  Row& row = at == rows->end() ? fresh : *at;
  RankIntervals missing;
  for (const RankRuns& runs : document.facts().missing()) missing = missing.Union(RankIntervals::Of(runs));
  for (const std::string& text : document.facts().unknown()) {
    if (row.lines.size() >= kMostUnknown) break;
    // The report contains some of them too.
    if (!row.lines.contains(Html(text)) && !row.lines.contains(Html("not measured: " + text)))
      row.lines.append(Html(text));
  }
  if (!missing.empty()) {
    const std::string& text = document.facts().missing_text();
    row.lines.prepend(
        Link("missing", text.empty()
                            ? QString("no data of %1 %2").arg(missing.size() == 1 ? "rank" : "ranks", missing.Text())
                            : Html(text)));
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

// `below`: the part under the left column.
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

// The facts' own; made from the verdict alone where an older index has none.
std::vector<ReportSection> Sections(const Document& document) {
  const ViewFacts& facts = document.facts();
  if (facts.report_size() > 0) return {facts.report().begin(), facts.report().end()};
  if (facts.verdict().verdict() == VERDICT_UNSPECIFIED) return {};
  ViewFacts made;
  SetReport({}, facts.verdict(), &made);
  made.mutable_report()->RemoveLast();  // it speaks of data that this is not made from
  return {made.report().begin(), made.report().end()};
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
  if (sections.empty())
    return QString("%1 ranks so far: nothing is decided before all are read").arg(document.rank_count());
  return Plain(sections.front().title(), 2000);
}

QString VerdictSureness(const Document& document) {
  if (document.verdict().findings().empty()) return {};
  const Finding& finding = document.verdict().findings(0);
  return QString::fromStdString(ConfidenceWord(finding.confidence())) + (finding.hypothesis() ? ", a hypothesis" : "");
}

QString VerdictPage(const Document& document, const std::set<int>& unfolded, bool columns) {
  const std::vector<ReportSection> sections = Sections(document);
  if (sections.empty()) return {};
  std::vector<Row> rows = RowsOf(document, sections.front());
  const bool data = sections.size() > 1 && sections.back().finding() < 0;
  if (data) {
    for (Row& row : RowsOf(document, sections.back())) rows.push_back(std::move(row));
  }
  AddUnknown(document, &rows);
  QString below;
  const int others = static_cast<int>(sections.size()) - (data ? 1 : 0);
  for (int s = 1; s < others && s < kMostSections; ++s) {
    const ReportSection& section = sections[static_cast<size_t>(s)];
    const bool open = unfolded.count(s) > 0;
    below += QString("<p style=\"margin:4px 0 2px 0\">%1&nbsp; %2</p>")
                 .arg(Link(QString("fold:%1").arg(s), open ? "&#9662; also" : "&#9656; also"),
                      Link(QString("finding:%1").arg(section.finding()), Html(section.title(), 600)));
    if (open) below += Laid(RowsOf(document, section), false, {});
  }
  if (others > kMostSections)
    below += QString("<p>and %1 more findings, in the JSON report</p>").arg(others - kMostSections);
  return Laid(std::move(rows), columns, below);
}

Selection VerdictLink(const Document& document, const QString& link) {
  const QStringList parts = link.split(':');
  const int f = Number(parts, 1), item = Number(parts, 2);
  if (parts[0] == "finding") return document.EvidenceLink(f, -1);
  if (parts[0] == "evidence" && f >= 0 && f < document.verdict().findings_size() && item >= 0 &&
      item < document.verdict().findings(f).evidence_size())
    return document.EvidenceLink(f, item);
  Selection selection;
  if (parts[0] == "missing") {
    for (const RankRuns& runs : document.facts().missing())
      selection.ranks = selection.ranks.Union(RankIntervals::Of(runs));
  }
  if (parts[0] == "chain" && f >= 0 && f < document.verdict().findings_size() && item >= 0 &&
      item < document.verdict().findings(f).chain_size()) {
    const ChainLink& chain = document.verdict().findings(f).chain(item);
    selection.ranks = RankIntervals::Of(std::vector<int32_t>(chain.ranks().begin(), chain.ranks().end()));
    for (int32_t c = 0; c < document.comm_count() && selection.comm < 0 && !chain.communicator().id().empty(); ++c) {
      if (document.index().text(document.index().comms()[static_cast<size_t>(c)].id) == chain.communicator().id())
        selection.comm = c;
    }
    if (selection.comm >= 0 && chain.has_sequence()) selection.seq_first = selection.seq_last = chain.sequence();
  }
  return selection;
}

}  // namespace lockstep::gui
