#include "gui/view/view.h"
