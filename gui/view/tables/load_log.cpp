#include "gui/view/tables/load_log.h"

#include <QAbstractListModel>
#include <QListView>
#include <QVBoxLayout>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "gui/model/safe_text.h"

namespace lockstep::gui {
namespace {

constexpr int kMostLines = 10'000;

struct Line {
  QString text;
  int32_t rank = -1;
};

}  // namespace

// The loader's lines, then those problems of the verdict that the loader did not report.
class LoadLog::LogModel : public QAbstractListModel {
 public:
  using QAbstractListModel::QAbstractListModel;

  void Add(Line line) {
    if (static_cast<int>(lines_.size()) >= kMostLines) {
      ++left_out_;
      return;
    }
    const int at = static_cast<int>(lines_.size());
    beginInsertRows({}, at, at);
    lines_.push_back(std::move(line));
    endInsertRows();
  }
  void SetProblems(std::vector<Line> problems) {
    if (problems.empty() && problems_.empty()) return;
    beginResetModel();
    problems_ = std::move(problems);
    endResetModel();
  }
  void Clear() {
    beginResetModel();
    lines_.clear();
    problems_.clear();
    left_out_ = 0;
    endResetModel();
  }
  const std::vector<Line>& lines() const { return lines_; }
  int count() const { return static_cast<int>(lines_.size() + problems_.size()); }
  int64_t left_out() const { return left_out_; }
  const Line& At(int row) const {
    const size_t at = static_cast<size_t>(row);
    return at < lines_.size() ? lines_[at] : problems_[at - lines_.size()];
  }
  int rowCount(const QModelIndex& parent = {}) const override { return parent.isValid() ? 0 : count(); }
  QVariant data(const QModelIndex& index, int role) const override {
    if (!index.isValid() || index.row() >= count()) return {};
    const Line& line = At(index.row());
    if (role == Qt::DisplayRole) return line.text;
    // A tooltip wraps lines only in rich text; the contents are escaped.
    if (role == Qt::ToolTipRole) return QString("<p>%1</p>").arg(Html(line.text, 600));
    return {};
  }

 private:
  std::vector<Line> lines_, problems_;
  int64_t left_out_ = 0;
};

LoadLog::LoadLog(Navigator* navigator, QWidget* parent) : View(navigator, "Load log", parent) {
  setAccessibleDescription("What could not be read, one item per line");
  model_ = new LogModel(this);
  list_ = new QListView(this);
  list_->setObjectName("lines");
  Announce(list_, "Lines of the load log", "A line that names a rank selects it");
  list_->setModel(model_);
  list_->setUniformItemSizes(true);
  list_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  list_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  list_->setAlternatingRowColors(true);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setTextElideMode(Qt::ElideRight);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(list_);
  setFocusProxy(list_);
  connect(list_->selectionModel(), &QItemSelectionModel::selectionChanged, this, [this] {
    std::vector<int32_t> ranks;
    for (const QModelIndex& index : list_->selectionModel()->selectedRows()) {
      if (const int32_t rank = model_->At(index.row()).rank; rank >= 0) ranks.push_back(rank);
    }
    if (ranks.empty() || document_ == nullptr) return;
    this->navigator()->Select(Selection::Of(Ranks::Of(std::move(ranks))));
  });
}

void LoadLog::SetDocument(DocumentPtr document) {
  document_ = std::move(document);
  std::vector<Line> problems;
  if (document_ != nullptr) {
    std::unordered_set<std::string> known;
    for (const Line& line : model_->lines()) known.insert(line.text.toStdString());
    for (const DataProblem& problem : document_->verdict().problems()) {
      if (problems.size() == kMostLines) break;
      QString where = Plain(problem.path(), 200);
      if (problem.offset() >= 0) where += QString(" at byte %1").arg(problem.offset());
      if (problem.rank() >= 0) where += QString(where.isEmpty() ? "(rank %1)" : " (rank %1)").arg(problem.rank());
      Line line{(where.isEmpty() ? QString() : where + ": ") + Plain(problem.text(), 600), problem.rank()};
      if (known.insert(line.text.toStdString()).second) problems.push_back(std::move(line));
    }
  }
  model_->SetProblems(std::move(problems));
  Retitle();
}

void LoadLog::AddLine(const QString& line, int32_t rank) {
  const QString text = Plain(line, 1000);
  if (text.trimmed().isEmpty()) return;
  model_->Add({text, rank});
  Retitle();
}

void LoadLog::Clear() {
  model_->Clear();
  Retitle();
}

int LoadLog::line_count() const { return model_->count(); }

void LoadLog::Retitle() {
  const int64_t lines = model_->count() + model_->left_out();
  const QString title = lines == 0 ? QString("Load log") : QString("Load log (%1)").arg(lines);
  if (title == title_) return;
  title_ = title;
  Q_EMIT TitleChanged(title);
}

QString LoadLog::CopyText() const {
  QModelIndexList selected = list_->selectionModel()->selectedRows();
  std::sort(selected.begin(), selected.end());
  QString out;
  for (const QModelIndex& index : selected) out += TsvCell(index.data().toString()) + '\n';
  return out;
}

QString LoadLog::Csv() const {
  if (model_->count() == 0) return {};
  QString out = "Rank,Problem\n";
  for (int row = 0; row < model_->count(); ++row) {
    const Line& line = model_->At(row);
    out += (line.rank < 0 ? QString() : QString::number(line.rank)) + ',' + CsvCell(line.text) + '\n';
  }
  if (model_->left_out() > 0) out += QString(",and %1 more\n").arg(model_->left_out());
  return out;
}

}  // namespace lockstep::gui
