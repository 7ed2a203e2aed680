// Runs the viewer's tests without a screen, with the same font, style and scale everywhere.
#include <gtest/gtest.h>

#include <QApplication>
#include <QFont>
#include <QStyleFactory>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("QT_QPA_PLATFORM", "offscreen", 0);
  setenv("QT_SCALE_FACTOR", "1", 0);
  setenv("LC_ALL", "C.UTF-8", 1);
  ::testing::InitGoogleTest(&argc, argv);
  QApplication application(argc, argv);
  QApplication::setStyle(QStyleFactory::create("Fusion"));
  QApplication::setEffectEnabled(Qt::UI_AnimateMenu, false);
  QFont font("DejaVu Sans");
  font.setPixelSize(13);
  QApplication::setFont(font);
  return RUN_ALL_TESTS();
}
