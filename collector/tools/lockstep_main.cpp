// The front command for verbs that are separate programs.
#include "collector/tools/front.h"

int main(int argc, char** argv) { return lockstep::Front(argc, argv, {}); }
