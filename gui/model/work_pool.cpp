#include "gui/model/work_pool.h"

#include <QThreadPool>

namespace lockstep::gui {

QThreadPool& WorkPool() {
  static QThreadPool pool;
  return pool;
}

}  // namespace lockstep::gui
