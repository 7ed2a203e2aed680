#include "gui/app/panes/search_bar.h"

#include <QAbstractItemView>
#include <QCompleter>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QListView>
#include <QLocale>
#include <QPalette>
#include <QToolButton>

#include <algorithm>

#include "gui/model/safe_text.h"
#include "gui/view/view.h"

namespace lockstep::gui {
namespace {

constexpr int kDebounceMs = 120;

class CommNames : public QAbstractListModel {
 public:
  using QAbstractListModel::QAbstractListModel;
  void SetDocument(DocumentPtr document) {
    beginResetModel();
    document_ = std::move(document);
    endResetModel();
  }
  int rowCount(const QModelIndex& parent = {}) const override {
    return parent.isValid() || document_ == nullptr ? 0 : document_->comm_count();
  }
  QVariant data(const QModelIndex& index, int role) const override {
    if (!index.isValid() || (role != Qt::DisplayRole && role != Qt::EditRole)) return {};
    return document_->CommName(index.row());
  }

 private:
  DocumentPtr document_;
};

}  // namespace

SearchBar::SearchBar(Navigator* navigator, QWidget* parent) : QWidget(parent), navigator_(navigator) {
  setObjectName("search-bar");
  setAccessibleName("Search");
  field_ = new QLineEdit(this);
  field_->setObjectName("search");
  field_->setPlaceholderText("Search:  rank:17043  host:n21*  seq>8800  state:missing   ( / )");
  Announce(field_, "Search",
           "All words must match; Enter goes to the next hit, Ctrl+Enter turns the search into a filter");
  field_->setClearButtonEnabled(true);
  field_->setMaxLength(10'000);
  field_->installEventFilter(this);
  count_ = new QLabel(this);
  count_->setAccessibleName("Hits");
  count_->setMinimumWidth(fontMetrics().horizontalAdvance("12,345 operations on 123 ranks"));
  auto label = [this](const QString& text, QWidget* buddy) {
    auto* out = new QLabel(text, this);
    out->setAccessibleName(text);
    out->setBuddy(buddy);
    return out;
  };
  rank_ = new QLineEdit(this);
  rank_->setObjectName("rank");
  Announce(rank_, "Rank", "Enter selects the rank with this number, or several: 0-7, 12");
  rank_->setMaximumWidth(fontMetrics().horizontalAdvance("0000000000"));
  comm_ = new QComboBox(this);
  comm_->setObjectName("communicator");
  Announce(comm_, "Communicator", "Selects a communicator and shows its matrix");
  comm_->setEditable(true);
  comm_->setInsertPolicy(QComboBox::NoInsert);
  comm_->lineEdit()->setAccessibleName("Communicator");
  comm_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  comm_->setMinimumContentsLength(14);
  comm_->setModel(new CommNames(comm_));
  comm_->view()->setAccessibleName("Communicators");
  if (auto* list = qobject_cast<QListView*>(comm_->view())) {
    list->setUniformItemSizes(true);
    list->setLayoutMode(QListView::Batched);
  }
  comm_->completer()->setFilterMode(Qt::MatchContains);
  comm_->completer()->setCompletionMode(QCompleter::PopupCompletion);
  comm_->completer()->popup()->setAccessibleName("Communicators that match");
  comm_->setCurrentIndex(-1);

  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(4, 2, 4, 2);
  layout->addWidget(field_, 1);
  layout->addWidget(count_);
  layout->addWidget(label("Rank", rank_));
  layout->addWidget(rank_);
  layout->addWidget(label("Communicator", comm_));
  layout->addWidget(comm_);

  timer_.setSingleShot(true);
  timer_.setInterval(kDebounceMs);
  connect(&timer_, &QTimer::timeout, this, &SearchBar::Start);
  connect(field_, &QLineEdit::textChanged, this, [this] {
    result_ = {};
    at_ = -1;
    search_.Cancel();
    count_->clear();
    field_->text().trimmed().isEmpty() ? timer_.stop() : timer_.start();
  });
  connect(rank_, &QLineEdit::returnPressed, this, &SearchBar::GoToRank);
  connect(comm_, &QComboBox::textActivated, this, &SearchBar::GoToComm);
  SetDocument(nullptr);
}

void SearchBar::SetDocument(DocumentPtr document) {
  search_.Cancel();
  filter_.Cancel();
  step_when_done_ = 0;
  document_ = std::move(document);
  static_cast<CommNames*>(comm_->model())->SetDocument(document_);
  comm_->setCurrentIndex(-1);
  setEnabled(document_ != nullptr);
  result_ = {};
  at_ = -1;
  count_->clear();
  if (document_ != nullptr && !field_->text().trimmed().isEmpty()) timer_.start();
}

void SearchBar::Search(const QString& text) { field_->setText(text); }

void SearchBar::Start() {
  timer_.stop();
  search_.Cancel();
  if (document_ == nullptr || field_->text().trimmed().isEmpty()) return;
  auto query = ParseQuery(field_->text());
  if (!query.ok()) {
    step_when_done_ = 0;
    count_->setText("?");
    count_->setToolTip(QString::fromStdString(std::string(query.status().message())));
    Q_EMIT Message(count_->toolTip());
    return;
  }
  count_->setToolTip({});
  search_.Start(this, [this, document = document_, query = *std::move(query)](const std::atomic<bool>& cancel) {
    return [this, result = RunQuery(*document, query, &cancel)] { Show(result); };
  });
}

void SearchBar::Show(const QueryResult& result) {
  result_ = result;
  at_ = -1;
  const QString ranks = QString("%1 rank%2").arg(Count(result.ranks.size())).arg(result.ranks.size() == 1 ? "" : "s");
  const QString comms = result.comms.empty() || result.records
                            ? QString()
                            : QString(", %1 communicators").arg(Count(static_cast<int64_t>(result.comms.size())));
  count_->setText(result.hit_count == 0 && result.comms.empty() ? QString("nothing found")
                  : result.records ? QString("%1 operations on %2").arg(Count(result.hit_count), ranks)
                                   : ranks + comms);
  if (result.hit_count > kMostHits)
    count_->setToolTip(QString("Enter steps through the first %1").arg(Count(kMostHits)));
  if (step_when_done_ != 0) Step(std::exchange(step_when_done_, 0));
}

void SearchBar::Step(int by) {
  if (document_ == nullptr) return;
  if (timer_.isActive()) Start();
  if (search_.busy()) {
    step_when_done_ = by;
    return;
  }
  const int64_t count = Steps();
  if (count == 0) {
    if (field_->text().trimmed().isEmpty()) Q_EMIT Message("The search box is empty: / goes there");
    return;
  }
  at_ = at_ < 0 ? (by > 0 ? 0 : count - 1) : (at_ + by + count) % count;
  const int64_t comms = result_.records ? 0 : static_cast<int64_t>(result_.comms.size());
  if (at_ < comms) {
    const int32_t comm = result_.comms[static_cast<size_t>(at_)];
    navigator_->Select(Selection::Of(document_->KnownMembers(comm), comm));
  } else {
    const QueryHit& hit = result_.hits[static_cast<size_t>(at_ - comms)];
    navigator_->Select(hit.record < 0 ? Selection::OfRank(hit.rank)
                                      : document_->SelectOp(document_->RowOf(hit.rank), hit.record));
  }
  Q_EMIT Message(QString("Hit %1 of %2").arg(Count(at_ + 1), Count(count)));
}

void SearchBar::SetFilters(const QStringList& filters) {
  filter_.Cancel();
  if (document_ == nullptr) return;
  std::vector<Query> queries;
  QStringList kept;
  for (const QString& filter : filters) {
    auto query = ParseQuery(filter);
    if (!query.ok()) {
      Q_EMIT Message(QString::fromStdString(std::string(query.status().message())));
    } else if (!query->empty() && !kept.contains(filter) && kept.size() < 50) {
      queries.push_back(*std::move(query));
      kept << filter;
    }
  }
  filter_.Start(
      this, [this, document = document_, queries = std::move(queries), kept](const std::atomic<bool>& cancel) {
        Ranks ranks;
        for (size_t i = 0; i < queries.size(); ++i) {
          const Ranks found = RunQuery(*document, queries[i], &cancel).ranks;
          ranks = i == 0 ? found : ranks.Common(found);
        }
        return [this, kept, ranks] {
          Place place = navigator_->place();
          place.filters = kept;
          place.filtered = ranks;
          navigator_->Go(std::move(place));
          if (!kept.isEmpty())
            Q_EMIT Message(QString("%1 of %2 ranks shown").arg(Count(ranks.size()), Count(document_->rank_count())));
        };
      });
}

void SearchBar::GoToRank() {
  const auto query = ParseQuery("rank:" + rank_->text().remove(' '));
  if (!query.ok()) {
    Q_EMIT Message("Enter a rank's number, or several: 0-7,12");
    return;
  }
  std::vector<int32_t> known;
  for (int row = 0; document_ != nullptr && row < document_->rank_count(); ++row) {
    if (query->front().numbers.Contains(document_->RankAt(row))) known.push_back(document_->RankAt(row));
  }
  if (known.empty()) {
    Q_EMIT Message(QString("There is no data from rank %1").arg(rank_->text()));
    return;
  }
  navigator_->Select(Selection::Of(Ranks::Of(std::move(known))));
}

void SearchBar::GoToComm(const QString& name) {
  if (document_ == nullptr) return;
  for (int32_t comm = 0; comm < document_->comm_count(); ++comm) {
    if (document_->CommName(comm) != name) continue;
    Place place = navigator_->place();
    place.selection = Selection::Of({}, comm);
    place.matrix_mode = MatrixMode::kCommunicator;
    place.matrix_comm = comm;
    place.matrix = {};
    navigator_->Go(std::move(place));
    return;
  }
  Q_EMIT Message(QString("There is no communicator %1").arg(name));
}

bool SearchBar::eventFilter(QObject* watched, QEvent* event) {
  if (watched != field_ || event->type() != QEvent::KeyPress) return QWidget::eventFilter(watched, event);
  const auto* key = static_cast<QKeyEvent*>(event);
  if (key->key() == Qt::Key_Down && parentWidget() != nullptr) {
    focusNextChild();
    return true;
  }
  if (key->key() != Qt::Key_Return && key->key() != Qt::Key_Enter) return false;
  if ((key->modifiers() & Qt::ControlModifier) != 0) {
    SetFilters(navigator_->place().filters + QStringList(field_->text().trimmed()));
    field_->clear();
  } else {
    Step((key->modifiers() & Qt::ShiftModifier) != 0 ? -1 : 1);
  }
  return true;
}

Chips::Chips(Navigator* navigator, SearchBar* search, QWidget* parent)
    : QWidget(parent), navigator_(navigator), search_(search) {
  setObjectName("chips");
  setAccessibleName("Filters");
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(4, 2, 4, 2);
  connect(navigator, &Navigator::PlaceChanged, this, &Chips::Fill);
  hide();
}

void Chips::Fill() {
  const Place& place = navigator_->place();
  if (place.filters == shown_) return;
  shown_ = place.filters;
  Clear(layout());
  for (const QString& filter : shown_) {
    auto* chip = new QToolButton(this);
    const QString text = filter.size() > 40 ? filter.left(40) + ".." : filter;
    chip->setText(QString(text).replace('&', "&&") + QString::fromUtf8("  \xc3\x97"));
    chip->setAccessibleName("Filter " + filter);
    chip->setToolTip(QString("Only ranks that match %1 are shown. Press to drop this filter.").arg(filter));
    chip->setFocusPolicy(Qt::TabFocus);
    connect(chip, &QToolButton::clicked, this, [this, filter] {
      QStringList rest = navigator_->place().filters;
      rest.removeAll(filter);
      search_->SetFilters(rest);
    });
    layout()->addWidget(chip);
  }
  static_cast<QHBoxLayout*>(layout())->addStretch(1);
  setVisible(!shown_.isEmpty());
}

}  // namespace lockstep::gui
