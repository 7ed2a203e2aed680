#include "gui/view/bandwidth/view.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QStackedWidget>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

#include "gui/model/safe_text.h"
#include "gui/view/bandwidth/speed_pane.h"

namespace lockstep::gui {

BandwidthView::BandwidthView(Navigator* navigator, QWidget* parent) : View(navigator, "Bandwidth", parent) {
  setAccessibleDescription("Bus bandwidth by rank, or by message size and host.");
  picture_ = new QComboBox(this);
  Announce(picture_, "Picture", "Whether bandwidth is shown by rank, or by message size and host.");
  picture_->setToolTip(
      "By rank: which ranks are slow. By size and host: how close operations are to the possible speed");
  picture_->addItems({"by rank", "by size and host"});
  chooser_ = new QComboBox(this);
  chooser_->setObjectName("operations");
  Announce(chooser_, "Kind and size of operation", "Which operations' bandwidth is shown.");
  chooser_->setToolTip("Which operations' bandwidth is shown");
  chooser_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  chooser_->setMinimumContentsLength(30);
  summary_ = new QLabel(this);
  Announce(summary_, "Summary", "How many ranks are far below the others, or how fast the operation is.");
  pane_ = new BandwidthPane(navigator, this);
  speed_pane_ = new SpeedPane(navigator, this);
  stack_ = new QStackedWidget(this);
  stack_->addWidget(pane_);
  stack_->addWidget(speed_pane_);
  auto* top = new QHBoxLayout;
  top->setContentsMargins(6, 4, 6, 0);
  top->addWidget(picture_);
  top->addWidget(chooser_, 1);
  top->addWidget(summary_, 1);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->setSpacing(4);
  layout->addLayout(top);
  layout->addWidget(stack_, 1);
  setFocusProxy(pane_);
  connect(picture_, &QComboBox::currentIndexChanged, this, [this](int index) { SetBySize(index == 1); });
  connect(chooser_, &QComboBox::currentIndexChanged, this,
          [this](int index) { by_size_ ? SetSpeed(index) : SetSeries(index); });
  pane_->on_series = [this](int step) {
    const int to = series_ + step;
    if (to >= 0 && to < chooser_->count()) chooser_->setCurrentIndex(to);
  };
  speed_pane_->on_speed = [this](int speed) { chooser_->setCurrentIndex(speed); };
  SetDocument(nullptr);
}

void BandwidthView::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  int best = -1, most = -1;
  for (int i = 0; document_ != nullptr && i < document_->facts().bandwidths_size(); ++i) {
    const BandwidthSeries& series = document_->facts().bandwidths(i);
    // Shows the series with the most outliers first.
    const int outliers = series.clock().empty() ? -1 : SharesOf(series).outliers;
    if (outliers > most) {
      most = outliers;
      best = i;
    }
  }
  if (best < 0 && document_ != nullptr && document_->facts().bandwidths_size() > 0) best = 0;
  series_ = best;
  pane_->Show(document_, series_);
  // The first row is the operation that took the most time.
  speed_ = document_ != nullptr && document_->verdict().speeds_size() > 0 ? 0 : -1;
  speed_pane_->Show(document_, speed_);
  FillChooser();
}

void BandwidthView::FillChooser() {
  const QSignalBlocker blocker(chooser_);
  chooser_->clear();
  if (by_size_) {
    for (const SpeedRow& row : speed_pane_->speeds().rows) chooser_->addItem(row.name);
  } else if (document_ != nullptr) {
    for (const BandwidthSeries& series : document_->facts().bandwidths())
      chooser_->addItem(QString::fromStdString(series.label()) + (series.clock().empty() ? " (not measured)" : ""));
  }
  chooser_->setVisible(chooser_->count() > 0);
  chooser_->setCurrentIndex(by_size_ ? speed_ : series_);
  Summarize();
}

void BandwidthView::Summarize() {
  QString text;
  if (by_size_) {
    if (speed_ >= 0) {
      const SpeedRow& row = speed_pane_->speeds().rows[static_cast<size_t>(speed_)];
      text = row.possible > 0 ? QString("%1, %2 % of the possible speed")
                                    .arg(RateText(row.rate.median))
                                    .arg(100 * row.rate.median / row.possible, 0, 'f', 0)
                              : RateText(row.rate.median);
    }
  } else if (const BandwidthShares& shares = pane_->shares(); !shares.points.empty()) {
    text = QString("%L1 ranks, median %2, %L3 far below the others")
               .arg(shares.points.size())
               .arg(RateText(shares.median_share * shares.best_bytes_per_s))
               .arg(shares.outliers);
  }
  summary_->setText(text);
}

void BandwidthView::SetBySize(bool by_size) {
  if (by_size == by_size_) return;
  by_size_ = by_size;
  picture_->setCurrentIndex(by_size ? 1 : 0);
  QWidget* shown = by_size ? static_cast<QWidget*>(speed_pane_) : pane_;
  stack_->setCurrentWidget(shown);
  setFocusProxy(shown);
  FillChooser();
}

void BandwidthView::SetSeries(int series) {
  if (series == series_) return;
  series_ = series;
  pane_->Show(document_, series);
  if (!by_size_) chooser_->setCurrentIndex(series);
  Summarize();
}

void BandwidthView::SetSpeed(int speed) {
  if (speed == speed_) return;
  speed_ = speed;
  speed_pane_->Show(document_, speed);
  if (by_size_) chooser_->setCurrentIndex(speed);
  Summarize();
}

// Returns one line for each operation, and one for each host of it.
QString BandwidthView::SpeedTable(QChar separator) const {
  QStringList lines(QStringList({"operation", "host", "operations", "bus_bytes_per_s", "tenth_slowest", "tenth_fastest",
                                 "possible_bytes_per_s", "possible_by"})
                        .join(separator));
  const auto add = [&](const SpeedRow& row, const QString& host, const SpeedRange& rate) {
    const auto cell = [&](const QString& text) { return separator == ',' ? CsvCell(text) : TsvCell(text); };
    QStringList cells = {cell(row.name), cell(host), QString::number(rate.operations)};
    for (const double value : {rate.median, rate.low, rate.high, row.possible}) cells << QString::number(value, 'f', 0);
    cells << cell(row.possible > 0 ? row.roofline : "not known");
    lines << cells.join(separator);
  };
  for (const SpeedRow& row : speed_pane_->speeds().rows) {
    add(row, "", row.rate);
    for (const HostSpeedRow& host : row.hosts) add(row, host.host, host.rate);
  }
  return lines.size() > 1 ? lines.join('\n') + '\n' : QString();
}

QString BandwidthView::CopyText() const {
  if (by_size_) return SpeedTable('\t');
  if (document_ == nullptr || series_ < 0 || pane_->shares().points.empty()) return {};
  const BandwidthSeries& s = document_->facts().bandwidths(series_);
  QString out = QString::fromStdString(s.label()) + "\nrank\thost\tmedian\tshare of the best\tworst\tat\n";
  for (int i = 0; i < s.points_size(); ++i) {
    if (!pane_->shares().points[static_cast<size_t>(i)].outlier) continue;
    const auto& p = s.points(i);
    const int row = document_->RowOf(p.rank());
    out += QString("%1\t%2\t%3\t%4 %\t%5\t#%6 on %7\n")
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
  if (by_size_) return SpeedTable(',');
  if (document_ == nullptr || series_ < 0) return {};
  const BandwidthSeries& s = document_->facts().bandwidths(series_);
  QString out = "rank,host,communicator,median_bytes_per_s,worst_bytes_per_s,worst_sequence,operations,outlier\n";
  for (int i = 0; i < s.points_size(); ++i) {
    const auto& p = s.points(i);
    const int row = document_->RowOf(p.rank());
    out += QString("%1,%2,%3,%4,%5,%6,%7,%8\n")
               .arg(p.rank())
               .arg(CsvCell(row < 0 ? QString() : document_->HostAt(row)), CsvCell(document_->CommName(p.comm())))
               .arg(p.median_bytes_per_s(), 0, 'f', 0)
               .arg(p.worst_bytes_per_s(), 0, 'f', 0)
               .arg(p.worst_sequence())
               .arg(p.operations())
               .arg(pane_->shares().points[static_cast<size_t>(i)].outlier ? 1 : 0);
  }
  return out;
}

bool BandwidthView::Paint(QPainter* painter, const QSize& size) {
  by_size_ ? speed_pane_->Draw(painter, size, true) : pane_->Draw(painter, size, true);
  return (by_size_ ? speed_pane_->NotMeasured() : pane_->NotMeasured()).isEmpty();
}

}  // namespace lockstep::gui
