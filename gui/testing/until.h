// Waiting in tests, while the event loop runs.
#pragma once

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QEventLoop>

namespace lockstep::gui::testing {

// Processes events until the condition holds; returns false after two minutes.
template <typename Condition>
bool Until(const Condition& condition) {
  QElapsedTimer timer;
  timer.start();
  while (!condition()) {
    if (timer.elapsed() > 120'000) return false;
    QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 20);
  }
  return true;
}

// Waits until the view or model has no more work, and none comes from the events that are left.
template <typename Worker>
bool Settles(const Worker& worker) {
  return Until([&] {
    if (!worker.Idle()) return false;
    QCoreApplication::processEvents();
    return worker.Idle();
  });
}

}  // namespace lockstep::gui::testing
