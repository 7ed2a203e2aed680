#include "gui/view/load_log.h"

namespace lockstep::gui {

struct LoadLog::Impl {
  DocumentPtr document;
};

LoadLog::LoadLog(Navigator* navigator, QWidget* parent) : View(navigator, "Load log", parent), impl_(std::make_unique<Impl>()) {}
LoadLog::~LoadLog() = default;
void LoadLog::SetDocument(DocumentPtr document) { impl_->document = std::move(document); }
void LoadLog::AddLine(const QString&) {}
void LoadLog::Clear() {}
int LoadLog::line_count() const { return 0; }
QString LoadLog::title() const { return "Load log"; }
QString LoadLog::CopyText() const { return {}; }
QString LoadLog::Csv() const { return {}; }

}  // namespace lockstep::gui
