/* Definitions of an example, so that model.c can be opened and compiled; --export puts those of
 * its model here. */

typedef float nn_real;
typedef float nn_output;
typedef unsigned char nn_slot;                  /* a place among the values of a column */

enum { NN_INPUTS = 2, NN_OUTPUTS = 1, NN_CLASSES = 2 };

#ifndef NN_THRESHOLD
#define NN_THRESHOLD 0.5                        /* from which score on a row is of class 1 */
#endif
