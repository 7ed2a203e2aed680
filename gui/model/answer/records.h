// Complete operations of one rank, with the fields that the index leaves out (counts, datatypes, call sites, groups),
// read from the rank's file on demand.
#pragma once

#include <QObject>
#include <QString>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "analyzer/model/bundle.h"
#include "gui/model/document.h"

namespace lockstep::gui {

// Used on the GUI thread; reads on other threads. Keeps the ranks of the last few requests.
class Records : public QObject {
  Q_OBJECT

 public:
  using Reader = std::function<absl::StatusOr<std::shared_ptr<const Bundle>>(const Document& document, int row)>;

  // `read` replaces the reading of files in tests.
  explicit Records(QObject* parent = nullptr, Reader read = nullptr);
  ~Records() override;  // does not wait for a read, which may hang on a dead mount

  void SetDocument(DocumentPtr document);
  // Returns a bundle with only this rank (and the communicators of its file), or null. After null, Ready or Unavailable
  // follows, unless the document changes. The operations have the same order as in the index.
  std::shared_ptr<const Bundle> Get(int32_t rank);
  // Returns the known facts of one operation in display order: "kind", "AllReduce"; "count", "1,048,576 x bfloat16"; ..
  static std::vector<std::pair<QString, QString>> Fields(const Bundle& bundle, const Op& op);

 Q_SIGNALS:
  void Ready(qint32 rank);
  void Unavailable(qint32 rank, const QString& why);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::gui
