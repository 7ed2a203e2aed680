// The front command of verbs that are programs of their own.
#include "collector/tools/front.h"

int main(int argc, char** argv) {
  return lockstep::Front(argc, argv, {});
}
