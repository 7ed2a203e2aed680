#include "gui/view/answer/details.h"

#include <QTextDocumentFragment>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/link_pane.h"

namespace lockstep::gui {
namespace {

constexpr const char* kRecorded = "As recorded";

QString Page(const Details& details, const Theme& theme) {
  QString out;
  for (const DetailSection& section : details.sections) {
    out += QString("<p class=\"head\" style=\"margin:6px 0 2px 0\">%1</p><table cellspacing=\"0\" cellpadding=\"0\">")
               .arg(section.title.toHtmlEscaped());
    for (const DetailLine& line : section.lines) {
      QString text = line.text.toHtmlEscaped();
      if (line.mono) text = "<span class=\"mono\">" + text + "</span>";
      if (line.link >= 0) text = QString("<a href=\"go:%1\">%2</a>").arg(line.link).arg(text);
      if (line.mark != ViewState::kOutside) {
        const StateStyle& style = theme.Of(line.mark);
        text = QString("<span style=\"background-color:%1; color:%2\">&nbsp;%3&nbsp;</span> %4")
                   .arg(style.fill.name(), style.ink.name(),
                        style.glyph == ' ' ? QString("&nbsp;") : QString(style.glyph).toHtmlEscaped(), text);
      }
      out += QString(
                 "<tr><td class=\"label\" style=\"padding-right:10px; padding-bottom:2px\">%1</td><td "
                 "style=\"padding-bottom:2px\">%2</td></tr>")
                 .arg(line.label.toHtmlEscaped(), text);
    }
    out += "</table>";
  }
  return out;
}

}  // namespace

void DetailsView::Show(bool keep) { page_->Show(Page(details_, ThemeFor(page_->palette())), keep); }

void DetailsView::Fill() {
  if (document_ == nullptr) {
    job_.Cancel();
    details_ = {};
    return Show(false);
  }
  job_.Start(this,
             [this, document = document_,
              selection = navigator()->selection()](const std::atomic<bool>& cancel) -> LatestJob::Finish {
               Details made = DetailsOf(document, selection, &cancel);
               return [this, made = std::move(made)] {
                 details_ = made;
                 AskRecords();
                 Show(false);
               };
             });
}

// If the file is not read yet, Records emits Ready or Unavailable later.
void DetailsView::AskRecords() {
  if (records_ == nullptr || details_.record < 0) return;
  const std::shared_ptr<const Bundle> bundle = records_->Get(details_.record_rank);
  if (bundle == nullptr) return SetRecorded({{"", "reading the rank's file .."}});
  for (const lockstep::Rank& rank : bundle->ranks) {
    if (rank.rank != details_.record_rank || static_cast<uint64_t>(details_.record) >= rank.ops.size()) continue;
    return SetRecorded(Records::Fields(*bundle, rank.ops[static_cast<size_t>(details_.record)]));
  }
  SetRecorded({{"", "the rank's file no longer holds this operation"}});
}

// Shows the fields from the rank's file below the first section, which has the index's facts.
void DetailsView::SetRecorded(const std::vector<std::pair<QString, QString>>& fields) {
  const auto old = std::find_if(details_.sections.begin(), details_.sections.end(),
                                [](const DetailSection& section) { return section.title == kRecorded; });
  if (old != details_.sections.end()) details_.sections.erase(old);
  DetailSection section{kRecorded, {}};
  for (const auto& [label, text] : fields)
    section.lines.push_back({Plain(label, 60), Plain(text, 600), -1, ViewState::kOutside, false});
  if (!details_.sections.empty()) details_.sections.insert(details_.sections.begin() + 1, std::move(section));
}

DetailsView::DetailsView(Navigator* navigator, Records* records, QWidget* parent)
    : View(navigator, "Details", parent), records_(records) {
  setAccessibleDescription("What is known about the selected operation, rank, ranks or communicator");
  page_ = new LinkPane("Details text", "Fields, members by state, and stacks. A link selects what it names", this);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(page_);
  setFocusProxy(page_);
  connect(page_, &LinkPane::Followed, this, [this](const QString& link) {
    const int at = link.startsWith("go:") ? link.mid(3).toInt() : -1;
    if (at >= 0 && static_cast<size_t>(at) < details_.links.size())
      this->navigator()->Select(Selection(details_.links[static_cast<size_t>(at)]));
  });
  connect(page_, &LinkPane::Recoloured, this, [this] { Show(true); });
  if (records != nullptr) {
    connect(records, &Records::Ready, this, [this](qint32 rank) {
      if (rank != details_.record_rank || job_.busy()) return;
      AskRecords();
      Show(true);
    });
    connect(records, &Records::Unavailable, this, [this](qint32 rank, const QString& why) {
      if (rank != details_.record_rank || details_.record < 0 || job_.busy()) return;
      SetRecorded({{"", "not read: " + why}});
      Show(true);
    });
  }
  connect(navigator, &Navigator::SelectionChanged, this, [this] { Fill(); });
}

void DetailsView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  Fill();
}

QString DetailsView::CopyText() const {
  const QString marked = page_->textCursor().selection().toPlainText();
  return marked.isEmpty() || !page_->FocusedLink().isEmpty() ? DetailsText(details_) : marked;
}

}  // namespace lockstep::gui
