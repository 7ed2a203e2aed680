// Draws the color, hatch and sign of a state before a cell's text.
#pragma once

#include <QStyledItemDelegate>

#include <functional>

#include "gui/view/theme.h"

namespace lockstep::gui {

// A square of a state's color with its sign.
void DrawStateMark(QPainter* painter, const QRect& square, const Theme& theme, ViewState state);

class StateDelegate : public QStyledItemDelegate {
 public:
  // `role` provides the ViewState, 0 for none. `marked` returns whether a row is selected in another view; it may be
  // empty.
  StateDelegate(int role, std::function<bool(const QModelIndex&)> marked, QObject* parent)
      : QStyledItemDelegate(parent), role_(role), marked_(std::move(marked)) {}
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override;

 private:
  const int role_;
  const std::function<bool(const QModelIndex&)> marked_;
};

}  // namespace lockstep::gui
