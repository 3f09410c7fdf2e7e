/* csv.c - reads CSV text into arrays in one pass, without locale, allocation or global state.
 *
 * Fields stand between separators, in quotes or not, with blanks around them or not. A separator
 * or a line end within quotes belongs to the field, as does a quote that is doubled there.
 *
 * The line end or 0 byte that closes the text stops every loop over digits and blanks without a
 * look at `end`.
 * All files are one translation unit, so that the loop over fields is inlined: a file calls what
 * stands above it. */
#include "csv/numbers.c"
#include "csv/fields.c"
#include "csv/dates.c"
#include "csv/words.c"
#include "csv/rows.c"
