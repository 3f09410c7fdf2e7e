/* Shared by all files of the CSV reader. */
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../csv.h"

__extension__ typedef unsigned __int128 uint128;

/* All of these functions become part of the loop over fields, which keeps its state in
 * registers. */
#define INLINE static inline __attribute__((always_inline))

INLINE int is_digit(char c) { return (unsigned char)(c - '0') < 10; }
