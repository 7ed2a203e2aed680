// The threads that work for the window.
#ifndef LOCKSTEP_GUI_MODEL_WORK_POOL_H_
#define LOCKSTEP_GUI_MODEL_WORK_POOL_H_

class QThreadPool;

namespace lockstep::gui {

// One for the process, for work that ends within seconds or checks a flag. Not Qt's global pool: QPainter uses that one
// for filling and waits for it (Qt 6.4, qdrawhelper.cpp), so the window would freeze behind our own work.
QThreadPool& WorkPool();

}  // namespace lockstep::gui

#endif  // LOCKSTEP_GUI_MODEL_WORK_POOL_H_
