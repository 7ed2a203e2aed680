#include "gui/view/timeline/view.h"

#include <QComboBox>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QScrollBar>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr double kBarSteps = 100'000;

}  // namespace

TimelineView::TimelineView(Navigator* navigator, QWidget* parent) : View(navigator, "Timeline", parent) {
  setAccessibleDescription("What each rank's CPU and GPU did, on one time axis.");
  pane_ = new TimelinePane(navigator, this);
  detail_ = new QComboBox(this);
  detail_->addItems({"One lane per host", "One lane per rank", "Calls and streams"});
  detail_->setCurrentIndex(1);
  Announce(detail_, "Lanes", "One lane for each host, each rank, or the calls and each stream of a rank.");
  detail_->setToolTip("Lanes");
  choice_ = new QComboBox(this);
  choice_->addItems(
      {"All ranks by host", "Selected ranks and their peers first", "Only selected ranks and their peers"});
  choice_->setCurrentIndex(1);
  Announce(
      choice_, "Ranks shown",
      "Whether selected ranks, and the members of the selected communicator, come first or are the only ones shown.");
  choice_->setToolTip("Which ranks have lanes, and which come first: what is selected, or else the cause");
  clock_ = new QLabel(this);
  Announce(clock_, "Clocks", "How far the hosts' clocks may differ.");
  across_ = new QScrollBar(Qt::Horizontal, this);
  Announce(across_, "Time shown", "Which part of the time is shown.");
  down_ = new QScrollBar(Qt::Vertical, this);
  Announce(down_, "Lanes shown", "Which part of the lanes is shown.");
  auto* top = new QHBoxLayout;
  top->setContentsMargins(6, 4, 6, 0);
  top->addWidget(detail_);
  top->addWidget(choice_);
  top->addStretch(1);
  top->addWidget(clock_);
  auto* grid = new QGridLayout;
  grid->setSpacing(0);
  grid->addWidget(pane_, 0, 0);
  grid->addWidget(down_, 0, 1);
  grid->addWidget(across_, 1, 0);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  layout->addLayout(top);
  layout->addLayout(grid, 1);
  setFocusProxy(pane_);

  connect(detail_, &QComboBox::currentIndexChanged, this,
          [this](int index) { pane_->SetDetail(static_cast<LaneDetail>(index)); });
  connect(choice_, &QComboBox::currentIndexChanged, this,
          [this](int index) { pane_->SetChoice(static_cast<LaneChoice>(index)); });
  connect(pane_, &TimelinePane::Scrolled, this, [this] { ShowBars(); });
  connect(pane_, &TimelinePane::Changed, this, [this] { ShowBars(); });
  auto moved = [this] {
    if (moving_bars_ || pane_->timeline() == nullptr) return;
    Place place = this->navigator()->place();
    const Viewport shown = pane_->Shown();
    const double most = static_cast<double>(pane_->timeline()->span_ns()) * 1.02;
    const double wide = shown.x1 - shown.x0, lanes = shown.y1 - shown.y0;
    place.timeline.x0 = across_->maximum() == 0 ? shown.x0 : (most - wide) * across_->value() / across_->maximum();
    place.timeline.x1 = place.timeline.x0 + wide;
    place.timeline.y0 = down_->value();
    place.timeline.y1 = place.timeline.y0 + lanes;
    this->navigator()->Scroll(std::move(place));
  };
  connect(across_, &QScrollBar::valueChanged, this, moved);
  connect(down_, &QScrollBar::valueChanged, this, moved);
  ShowBars();
}

QString TimelineView::ClockText() const {
  if (document_ == nullptr) return {};
  int64_t most = 0;
  int unaligned = 0;
  for (const RankFacts& rank : document_->facts().ranks()) {
    most = std::max(most, rank.clock_uncertainty_ns());
    unaligned += rank.clock_uncertainty_ns() < 0;
  }
  if (unaligned == document_->rank_count())
    return document_->rank_count() == 0 ? "" : "host clocks are not aligned: do not compare times across hosts";
  QStringList parts;
  if (most > 0) parts << QString::fromUtf8("clocks within \u00b1 ") + AxisDuration(static_cast<double>(most));
  if (unaligned > 0) parts << QString("clocks of %L1 ranks are not aligned").arg(unaligned);
  return parts.isEmpty() ? QString("one clock") : parts.join(", ");
}

void TimelineView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  pane_->SetDocument(document_);
  const QString text = ClockText();
  clock_->setText(text);
  clock_->setToolTip(text);
  ShowBars();
}

void TimelineView::ShowBars() {
  moving_bars_ = true;
  const Viewport shown = pane_->Shown();
  const double most = pane_->timeline() == nullptr ? 1 : static_cast<double>(pane_->timeline()->span_ns()) * 1.02;
  const double wide = shown.x1 - shown.x0;
  const double share = std::clamp(wide / most, 1e-6, 1.0);
  // The scroll bar's range grows with the zoom, so that one step is always a part of the picture.
  const double range = std::min((1 - share) / share * 1000, kBarSteps * 1000);
  across_->setRange(0, share >= 1 ? 0 : std::max(1, static_cast<int>(range)));
  across_->setPageStep(1000);
  across_->setSingleStep(100);
  across_->setValue(share >= 1 ? 0 : static_cast<int>(std::lround(shown.x0 / (most - wide) * across_->maximum())));
  const double lanes = shown.y1 - shown.y0;
  down_->setRange(0,
                  std::max(0, static_cast<int>(std::ceil(static_cast<double>(pane_->lanes().lanes.size()) - lanes))));
  down_->setPageStep(std::max(1, static_cast<int>(lanes)));
  down_->setValue(static_cast<int>(shown.y0));
  moving_bars_ = false;
}

bool TimelineView::Paint(QPainter* painter, const QSize& size) {
  pane_->Draw(painter, size, true);
  return pane_->timeline() != nullptr;
}

}  // namespace lockstep::gui
