#include "gui/view/answer/details.h"

#include <QTextDocumentFragment>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

#include "gui/model/answer/details.h"
#include "gui/model/latest_job.h"
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

struct DetailsView::Impl {
  explicit Impl(DetailsView* v) : view(v) {}

  DetailsView* view;
  Records* records = nullptr;
  DocumentPtr document;
  Details details;
  LinkPane* page = nullptr;
  LatestJob job;

  void Fill();
  void Show(bool keep) { page->Show(Page(details, ThemeFor(page->palette())), keep); }
  void AskRecords();
  void SetRecorded(const std::vector<std::pair<QString, QString>>& fields);
};

void DetailsView::Impl::Fill() {
  if (document == nullptr) {
    job.Cancel();
    details = {};
    return Show(false);
  }
  job.Start(view,
            [this, document = document,
             selection = view->navigator()->selection()](const std::atomic<bool>& cancel) -> LatestJob::Finish {
              Details made = DetailsOf(document, selection, &cancel);
              return [this, made = std::move(made)] {
                details = made;
                AskRecords();
                Show(false);
              };
            });
}

// If the file is not read yet, Records emits Ready or Unavailable later.
void DetailsView::Impl::AskRecords() {
  if (records == nullptr || details.record < 0) return;
  const std::shared_ptr<const Bundle> bundle = records->Get(details.record_rank);
  if (bundle == nullptr) return SetRecorded({{"", "reading the rank's file .."}});
  for (const lockstep::Rank& rank : bundle->ranks) {
    if (rank.rank != details.record_rank || static_cast<uint64_t>(details.record) >= rank.ops.size()) continue;
    return SetRecorded(Records::Fields(*bundle, rank.ops[static_cast<size_t>(details.record)]));
  }
  SetRecorded({{"", "the rank's file no longer holds this operation"}});
}

// Shows the fields from the rank's file below the first section, which has the index's facts.
void DetailsView::Impl::SetRecorded(const std::vector<std::pair<QString, QString>>& fields) {
  const auto old = std::find_if(details.sections.begin(), details.sections.end(),
                                [](const DetailSection& section) { return section.title == kRecorded; });
  if (old != details.sections.end()) details.sections.erase(old);
  DetailSection section{kRecorded, {}};
  for (const auto& [label, text] : fields)
    section.lines.push_back({Plain(label, 60), Plain(text, 600), -1, ViewState::kOutside, false});
  if (!details.sections.empty()) details.sections.insert(details.sections.begin() + 1, std::move(section));
}

DetailsView::DetailsView(Navigator* navigator, Records* records, QWidget* parent)
    : View(navigator, "Details", parent), impl_(std::make_unique<Impl>(this)) {
  setAccessibleDescription("What is known about the selected operation, rank, ranks or communicator");
  impl_->records = records;
  impl_->page =
      new LinkPane("Details text", "Fields, members by state, and stacks. A link selects what it names", this);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(impl_->page);
  setFocusProxy(impl_->page);
  connect(impl_->page, &LinkPane::Followed, this, [this](const QString& link) {
    const int at = link.startsWith("go:") ? link.mid(3).toInt() : -1;
    if (at >= 0 && static_cast<size_t>(at) < impl_->details.links.size())
      this->navigator()->Select(Selection(impl_->details.links[static_cast<size_t>(at)]));
  });
  connect(impl_->page, &LinkPane::Recoloured, this, [this] { impl_->Show(true); });
  if (records != nullptr) {
    connect(records, &Records::Ready, this, [this](qint32 rank) {
      if (rank != impl_->details.record_rank || impl_->job.busy()) return;
      impl_->AskRecords();
      impl_->Show(true);
    });
    connect(records, &Records::Unavailable, this, [this](qint32 rank, const QString& why) {
      if (rank != impl_->details.record_rank || impl_->details.record < 0 || impl_->job.busy()) return;
      impl_->SetRecorded({{"", "not read: " + why}});
      impl_->Show(true);
    });
  }
  connect(navigator, &Navigator::SelectionChanged, this, [this] { impl_->Fill(); });
}

DetailsView::~DetailsView() = default;

void DetailsView::SetDocument(DocumentPtr document) {
  impl_->document = std::move(document);
  impl_->Fill();
}

QString DetailsView::CopyText() const {
  const QString marked = impl_->page->textCursor().selection().toPlainText();
  return marked.isEmpty() || !impl_->page->FocusedLink().isEmpty() ? DetailsText(impl_->details) : marked;
}

bool DetailsView::Idle() const { return !impl_->job.busy(); }

}  // namespace lockstep::gui
