/* isa.c - the name of the plain build's instruction set. */
#include "../nn.h"

const char *nn_isa(void) { return "plain"; }
