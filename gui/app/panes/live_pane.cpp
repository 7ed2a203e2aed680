#include "gui/app/panes/live_pane.h"

#include <QDateTime>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QVBoxLayout>

#include <algorithm>

#include "gui/view/view.h"

namespace lockstep::gui {
namespace {

constexpr int kEveryMs = 2000, kTickMs = 500;
constexpr int kSilentMs = 3000;    // a running collector answers much faster
constexpr int kGiveUpMs = 30'000;  // lockstep-top itself gives up after 10 s
constexpr qsizetype kMostJobs = 1000;
constexpr qint64 kMostOutput = 32 << 20;

QString JobName(const QJsonObject& job) {
  const QJsonObject identity = job.value("job").toObject();
  const QString name = identity.value("job").toString().left(200), step = identity.value("step").toString().left(200);
  const int restart = identity.value("restart_count").toInt();
  return step.isEmpty() && restart == 0 ? name : QString("%1/%2/%3").arg(name, step).arg(restart);
}

QString Oldest(const QJsonObject& job) {
  const QJsonArray comms = job.value("communicators").toArray();
  if (comms.isEmpty()) return {};
  const QJsonObject comm = comms.first().toObject();
  return QString("%1 %2, %3 s")
      .arg(comm.value("name").toString().left(100), comm.value("doing").toString().left(200))
      .arg(static_cast<double>(comm.value("age_ns").toString().toLongLong()) / 1e9, 0, 'f', 0);
}

// Returns whether the incident is completely gathered; also true if the folder is not an incident.
bool Whole(const QString& path) {
  return QFileInfo::exists(path + "/manifest.json") ? !QFileInfo::exists(path + "/.gathering.json")
                                                    : !QFileInfo::exists(path + "/.ledger");
}

}  // namespace

LivePane::LivePane(const QString& programs, const QString& endpoint, QWidget* parent)
    : QWidget(parent), programs_(programs), endpoint_(endpoint) {
  setObjectName("live");
  setAccessibleName("Live");
  state_ = new QLabel(QString("Asking %1 ..").arg(Name()), this);
  state_->setAccessibleName("State of the collector");
  state_->setTextFormat(Qt::PlainText);
  state_->setWordWrap(true);
  table_ = new QTableWidget(0, 5, this);
  Announce(table_, "Jobs", "Jobs that the collector watches; Enter opens a job's last incident");
  table_->setHorizontalHeaderLabels({"Job", "State", "Ranks", "Oldest in flight", "Last incident"});
  table_->horizontalHeader()->setAccessibleName("Columns of jobs");
  table_->verticalHeader()->setAccessibleName("Rows of jobs");
  table_->verticalHeader()->hide();
  table_->horizontalHeader()->setStretchLastSection(true);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::SingleSelection);
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  dump_ = new QPushButton("Capture an incident &now", this);
  dump_->setAccessibleName("Capture an incident now");
  dump_->setToolTip(
      "Asks the collector to capture an incident of this job, and opens it if its folder can be read from here");
  dump_->setEnabled(false);
  again_ = new QPushButton("&Try again", this);
  again_->setAccessibleName("Try again");
  again_->setToolTip("Asks the collector again now");
  again_->hide();
  connect(again_, &QPushButton::clicked, this, &LivePane::AskAgain);
  auto* row = new QHBoxLayout;
  row->addWidget(state_, 1);
  row->addWidget(again_);
  row->addWidget(dump_);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(4, 4, 4, 4);
  layout->addLayout(row);
  layout->addWidget(table_, 1);
  connect(dump_, &QPushButton::clicked, this, &LivePane::Dump);
  connect(table_, &QTableWidget::cellActivated, this, [this](int at, int) {
    const QString path = table_->item(at, 4)->text();
    if (path.isEmpty()) return;
    Open(path, "%1 is on the collector's host and cannot be read from here");
  });
  connect(&top_, &QProcess::finished, this, [this](int status, QProcess::ExitStatus how) {
    if (how == QProcess::NormalExit && status == 0) return Show(top_.readAllStandardOutput().left(kMostOutput));
    const QString why = QString::fromUtf8(top_.readAllStandardError()).simplified().left(500);
    Silent(!why.isEmpty()               ? why
           : how == QProcess::CrashExit ? QString("lockstep-top was killed")
                                        : QString("lockstep-top exited with status %1").arg(status));
  });
  connect(&top_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error == QProcess::FailedToStart)
      Silent(QString("%1/lockstep-top could not be started: it is part of Lockstep's tools").arg(programs_));
  });
  connect(&dumping_, &QProcess::finished, this, [this](int status) {
    dump_->setEnabled(table_->rowCount() > 0 && again_->isHidden());
    const QString error = QString::fromUtf8(dumping_.readAllStandardError());
    Say((status > 1 ? "No incident: " : "") + error.simplified().right(300));
    if (status <= 1) Ask();  // the answer contains the new incident
  });
  connect(&dumping_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
    if (error != QProcess::FailedToStart) return;
    dump_->setEnabled(true);
    Say(QString("%1/lockstep-dump could not be started: it is part of Lockstep's tools").arg(programs_));
  });
  connect(&timer_, &QTimer::timeout, this, &LivePane::Tick);
  timer_.start(kTickMs);
  Ask();
}

LivePane::~LivePane() {
  for (QProcess* process : {&top_, &dumping_}) {
    process->disconnect(this);
    process->kill();
    process->waitForFinished(1000);
  }
}

QStringList LivePane::Arguments() const {
  return endpoint_.isEmpty() ? QStringList() : QStringList{"--collector", endpoint_};
}

void LivePane::Ask() {
  if (top_.state() != QProcess::NotRunning) return;
  asked_.start();
  top_.start(programs_ + "/lockstep-top", QStringList("--json") + Arguments());
}

void LivePane::AskAgain() {
  // Ignores the end of the query that is killed here.
  const QSignalBlocker quiet(top_);
  top_.kill();
  top_.waitForFinished(200);
  error_shown_ = false;
  state_->setText(QString("Asking %1 again ..").arg(Name()));
  Ask();
}

void LivePane::Tick() {
  LookAtGathered();
  if (top_.state() == QProcess::NotRunning) {
    if (asked_.hasExpired(kEveryMs)) Ask();
  } else if (asked_.hasExpired(kGiveUpMs)) {
    AskAgain();
  } else if (asked_.hasExpired(kSilentMs) && !error_shown_) {
    Silent(QString("%1 has not responded for %2 s").arg(Name()).arg(asked_.elapsed() / 1000));
    error_shown_ = false;  // keep updating the seconds
  }
}

void LivePane::Silent(const QString& why) {
  error_shown_ = true;
  QString text = why;
  if (heard_.isValid()) text += QString("; the jobs below are as of %1 s ago").arg(heard_.elapsed() / 1000);
  state_->setText(text + ". Retrying every few seconds.");
  again_->show();
  dump_->setEnabled(false);
}

void LivePane::Dump() {
  const int row = std::max(0, table_->currentRow());
  if (row >= table_->rowCount() || dumping_.state() != QProcess::NotRunning) return;
  if (table_->item(row, 0)->text().startsWith('-'))
    return Say("A job with this name cannot be requested");  // it would be parsed as an option
  dump_->setEnabled(false);
  Say("The collector is capturing an incident ..");
  dumping_.start(programs_ + "/lockstep-dump",
                 QStringList("--json") + Arguments() + QStringList(table_->item(row, 0)->text()));
}

void LivePane::Show(const QByteArray& lines) {
  heard_.start();
  error_shown_ = false;
  again_->hide();
  QList<QJsonObject> jobs;
  for (const QByteArray& line : lines.split('\n')) {
    const QJsonObject job = QJsonDocument::fromJson(line).object();
    if (!job.isEmpty() && jobs.size() < kMostJobs) jobs << job;
  }
  state_->setText(QString("%1: %2 job%3, %4")
                      .arg(endpoint_.isEmpty() ? "collector" : endpoint_)
                      .arg(jobs.size())
                      .arg(jobs.size() == 1 ? "" : "s", QTime::currentTime().toString("HH:mm:ss")));
  const int current = table_->currentRow();
  table_->setRowCount(static_cast<int>(jobs.size()));
  QString newest;
  for (int i = 0; i < table_->rowCount(); ++i) {
    const QJsonObject& job = jobs[i];
    const QString incident = job.value("last_incident").toObject().value("path").toString().left(4096);
    const QString cells[] = {
        JobName(job), job.value("state").toString().left(40),
        QString("%1 of %2").arg(job.value("ranks").toInt()).arg(job.value("ranks_expected").toInt()), Oldest(job),
        incident};
    for (int column = 0; column < 5; ++column) {
      if (table_->item(i, column) == nullptr) table_->setItem(i, column, new QTableWidgetItem);
      if (table_->item(i, column)->text() != cells[column]) table_->item(i, column)->setText(cells[column]);
    }
    if (!incident.isEmpty() && known_.insert(incident).second) newest = incident;
  }
  if (current < 0 && table_->rowCount() > 0) table_->setCurrentCell(0, 0);
  if (first_ && table_->rowCount() > 0) table_->resizeColumnsToContents();
  first_ = first_ && table_->rowCount() == 0;
  dump_->setEnabled(table_->rowCount() > 0 && dumping_.state() == QProcess::NotRunning);
  if (newest.isEmpty()) return;
  Open(newest, "A new incident: %1 on the collector's host, which cannot be read from here");
}

void LivePane::Open(const QString& path, const QString& otherwise) {
  if (!QFileInfo(path).isReadable()) return Say(otherwise.arg(path));
  // The first verdict exists seconds after the stall, before the rings of all hosts have arrived.
  if (!Whole(path)) gathering_.insert(path);
  Q_EMIT Incident(path);
}

void LivePane::LookAtGathered() {
  const std::set<QString> before = gathering_;
  for (const QString& path : before) {
    if (!Whole(path)) continue;
    gathering_.erase(path);
    Q_EMIT Gathered(path);
  }
}

void LivePane::Say(const QString& text) { Q_EMIT Message(text); }

}  // namespace lockstep::gui
