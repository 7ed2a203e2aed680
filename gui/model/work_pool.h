// The window's worker threads.
#pragma once

#include <QThreadPool>

namespace lockstep::gui {

// One pool per process, for work that ends within seconds or checks a cancel flag. Not Qt's global pool: QPainter fills
// shapes there and waits for them (Qt 6.4, qdrawhelper.cpp), so our work would freeze the window.
inline QThreadPool& WorkPool() {
  static QThreadPool pool;
  return pool;
}

}  // namespace lockstep::gui
