#include "hooked/weights/processing.h"
