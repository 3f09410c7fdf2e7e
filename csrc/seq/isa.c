/* plain.c - what _seq says of itself. */
#include "nn.h"

const char *nn_isa(void) { return "plain"; }
