#include "gui/view/bandwidth_view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

#include "gui/view/bandwidth_pane.h"

namespace lockstep::gui {

BandwidthView::BandwidthView(Navigator* navigator, QWidget* parent) : View(navigator, "Bandwidth", parent) {
  setAccessibleDescription("Bus bandwidth of each rank in one kind and size of operation.");
  chooser_ = new QComboBox(this);
  chooser_->setAccessibleName("Kind and size of operation");
  chooser_->setAccessibleDescription("Which operations' bandwidth is shown.");
  chooser_->setToolTip("Which operations' bandwidth is shown");
  chooser_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  chooser_->setMinimumContentsLength(30);
  summary_ = new QLabel(this);
  summary_->setAccessibleName("Outliers");
  summary_->setAccessibleDescription("How many ranks are far below the others.");
  pane_ = new BandwidthPane(navigator, this);
  auto* top = new QHBoxLayout;
  top->setContentsMargins(6, 4, 6, 0);
  top->addWidget(chooser_);
  top->addWidget(summary_, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  layout->addLayout(top);
  layout->addWidget(pane_, 1);
  setFocusProxy(pane_);
  connect(chooser_, &QComboBox::currentIndexChanged, this, [this](int index) { SetSeries(index); });
  pane_->on_series = [this](int step) {
    const int to = series_ + step;
    if (to >= 0 && to < chooser_->count()) chooser_->setCurrentIndex(to);
  };
  SetDocument(nullptr);
}

void BandwidthView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  const QSignalBlocker blocker(chooser_);
  chooser_->clear();
  int best = -1, most = -1;
  for (int i = 0; document_ != nullptr && i < document_->facts().bandwidths_size(); ++i) {
    const BandwidthSeries& series = document_->facts().bandwidths(i);
    chooser_->addItem(QString::fromStdString(series.label()) + (series.clock().empty() ? " (not measured)" : ""));
    // Outliers come first.
    const int outliers = series.clock().empty() ? -1 : SharesOf(series).outliers;
    if (outliers > most) {
      most = outliers;
      best = i;
    }
  }
  if (best < 0 && chooser_->count() > 0) best = 0;
  chooser_->setVisible(chooser_->count() > 0);
  chooser_->setCurrentIndex(best);
  series_ = -2;
  SetSeries(best);
}

void BandwidthView::SetSeries(int series) {
  if (series == series_) return;
  series_ = series;
  pane_->Show(document_, series);
  const BandwidthShares& shares = pane_->shares();
  summary_->setText(shares.points.empty() ? QString()
                                          : QString("%L1 ranks, median %2, %L3 far below the others")
                                                .arg(shares.points.size())
                                                .arg(RateText(shares.median_share * shares.best_bytes_per_s))
                                                .arg(shares.outliers));
}

QString BandwidthView::CopyText() const {
  if (document_ == nullptr || series_ < 0 || pane_->shares().points.empty()) return {};
  const BandwidthSeries& s = document_->facts().bandwidths(series_);
  QString out = QString::fromStdString(s.label()) + "\nrank\thost\tmedian\tshare of the best\tworst\tat\n";
  for (int i = 0; i < s.points_size(); ++i) {
    if (!pane_->shares().points[static_cast<size_t>(i)].outlier) continue;
    const auto& p = s.points(i);
    const int row = document_->RowOf(p.rank());
    out += QString("%1\t%2\t%3\t%4 %\t%5\t#%6 of %7\n")
               .arg(p.rank())
               .arg(row < 0 ? QString("?") : document_->HostAt(row), RateText(p.median_bytes_per_s()))
               .arg(pane_->shares().points[static_cast<size_t>(i)].median * 100, 0, 'f', 0)
               .arg(RateText(p.worst_bytes_per_s()))
               .arg(p.worst_sequence())
               .arg(document_->CommName(p.comm()));
  }
  return out;
}

QString BandwidthView::Csv() const {
  if (document_ == nullptr || series_ < 0) return {};
  const BandwidthSeries& s = document_->facts().bandwidths(series_);
  QString out = "rank,host,communicator,median_bytes_per_s,worst_bytes_per_s,worst_sequence,operations,outlier\n";
  auto quoted = [](QString text) { return '"' + text.replace('"', "\"\"") + '"'; };
  for (int i = 0; i < s.points_size(); ++i) {
    const auto& p = s.points(i);
    const int row = document_->RowOf(p.rank());
    out += QString("%1,%2,%3,%4,%5,%6,%7,%8\n")
               .arg(p.rank())
               .arg(quoted(row < 0 ? QString() : document_->HostAt(row)), quoted(document_->CommName(p.comm())))
               .arg(p.median_bytes_per_s(), 0, 'f', 0)
               .arg(p.worst_bytes_per_s(), 0, 'f', 0)
               .arg(p.worst_sequence())
               .arg(p.operations())
               .arg(pane_->shares().points[static_cast<size_t>(i)].outlier ? 1 : 0);
  }
  return out;
}

bool BandwidthView::Paint(QPainter* painter, const QSize& size) {
  painter->save();
  pane_->Draw(painter, size, true);
  painter->restore();
  return pane_->NotMeasured().isEmpty();
}

void BandwidthView::Zoom(double factor) { pane_->Zoom(factor, 0.5); }
void BandwidthView::Pan(double right, double) { pane_->Pan(right); }
void BandwidthView::Fit() { pane_->Fit(); }
void BandwidthView::CentreOnSelection() { pane_->CentreOnSelection(); }

}  // namespace lockstep::gui
