#include "gui/app/export/describe.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include "analyzer/report/report.h"
#include "gui/app/export/export.h"
#include "gui/model/notes/notes.h"

namespace lockstep::gui {

QByteArray DescribeJson(const Document& document, const Selection& selection) {
  QJsonArray ranks;
  for (const int32_t rank : selection.ranks.List(200'000)) ranks.append(rank);
  const QJsonObject object{{"title", document.title()},
                           {"ranks", ranks},
                           {"communicator", CommIdentity(document, selection.comm)},
                           {"sequence", static_cast<double>(selection.comm >= 0 ? selection.seq_first : -1)},
                           {"selected", SelectionText(document, selection)},
                           {"verdict", QString::fromStdString(VerdictName(document.verdict().verdict()))},
                           {"report", QString::fromStdString(document.facts().report_text())},
                           {"anomalies", document.anomaly_count()}};
  return QJsonDocument(object).toJson(QJsonDocument::Compact) + "\n";
}

}  // namespace lockstep::gui
