/* ---- inputs: what the first layer gets of a row ---- */

#if HAS_DOUBLE_ROWS
/* A row of either type; the other pointer is NULL. */
typedef struct {
    const nn_real *reals;
    const double *doubles;
} values;

static double value_at(values row, int place) { return row.doubles ? row.doubles[place] : row.reals[place]; }
#else
typedef const nn_real *values;

static double value_at(values row, int place) { return row[place]; }
#endif

#if HAS_FLOAT64
static const double MOST = DBL_MAX;
#else
static const double MOST = FLT_MAX;
#endif

/* Returns the number of the first input that cannot be used, 0 if all can. */
static int first_bad(values row)
{
    for (int place = 0; place < NN_INPUTS; place++)
#if HAS_GAPS
        if (fabs(value_at(row, place)) > MOST)
#else
        if (!(fabs(value_at(row, place)) <= MOST))
#endif
            return place + 1;
    return 0;
}

#if HAS_SCALING || HAS_NUMBERS
static nn_real scaled(double value, double shift, double scale)
{
    return (nn_real)(scale > 0 ? (value - shift) / scale : 0);
}

#endif
#if HAS_PLAIN
/* x = the numbers of a row */
static void scale_row(const network *net, values row, nn_real *x)
{
#if !HAS_SCALING
    (void)net;
#endif
    for (int i = 0; i < NN_INPUTS; i++)
#if HAS_SCALING
        x[i] = scaled(value_at(row, i), net->shift[i / PIXELS], net->scale[i / PIXELS]);
#else
#if HAS_BYTES
        x[i] = (nn_real)(1 / 255.0 * value_at(row, i));
#else
        x[i] = (nn_real)value_at(row, i);
#endif
#endif
}

#endif
#if HAS_PIECES
/* share[i] = how much of piece i lies below v */
static void encode_pieces(const row_input *in, nn_real v, nn_real *share)
{
    for (int i = 0; i < in->pieces; i++) {
        const nn_real low = in->edges[i], high = in->edges[i + 1];
        share[i] = v >= high ? 1 : v <= low ? 0 : (v - low) / (high - low);
    }
}

#endif
#if HAS_WAVES || HAS_YEAR || HAS_WEEK || HAS_DAY
static const double TWO_PI = 2 * 3.14159265358979323846;

#endif
#if HAS_WAVES
#if HAS_FLOAT64
static const double FRACTIONLESS = 2251799813685248.0;          /* 2^51 */
#else
static const double FRACTIONLESS = 4194304.0;                   /* 2^22 */
#endif

/* Sines, then cosines; whole turns are taken away from a product before it is rounded. */
static void encode_waves(const row_input *in, nn_real v, nn_real *out)
{
    for (int i = 0; i < in->waves; i++) {
        const double f = in->frequencies[i], turns = f * v;
        const double angle = fabs(turns) >= FRACTIONLESS ? 0 : TWO_PI * fma(f, v, -rint(turns));
        out[i] = (nn_real)sin(angle);
        out[in->waves + i] = (nn_real)cos(angle);
    }
}

#endif
#if HAS_NUMBER || HAS_GAP
/* Writes the pieces and waves of a number, of inputs that have some; returns what follows them. */
static nn_real *encode_number(const row_input *in, nn_real v, nn_real *out)
{
    (void)in, (void)v;
#if HAS_PIECES
    encode_pieces(in, v, out);
    out += in->pieces;
#endif
#if HAS_WAVES
    encode_waves(in, v, out);
    out += 2 * in->waves;
#endif
    return out;
}

#endif
#if HAS_YEAR || HAS_WEEK || HAS_DAY
/* The rest of a division whose quotient is rounded down. */
static double rest(double x, double by)
{
    const double r = fmod(x, by);
    return r < 0 ? r + by : r;
}

/* Sine and cosine of where in its year, week or day a date is; 0 in a gap. */
static void encode_cycle(double phase, nn_real *out)
{
    const int is_gap = phase != phase;
    out[0] = (nn_real)(is_gap ? 0 : sin(TWO_PI * phase));
    out[1] = (nn_real)(is_gap ? 0 : cos(TWO_PI * phase));
}

#endif
#if HAS_WORDS
/* The place among an input's values of the word that a value of a row stands for. */
static int slot_of(const row_input *in, double value)
{
    const int count = vocabularies[in->place].count;
    const int code = value != value ? count + 1 : value >= 0 && value <= count + 1 ? (int)value : count;
    return in->slots[code];
}

#endif
#if HAS_INPUTS
/* Writes what a value of the row becomes; returns what follows it. */
static nn_real *encode(const row_input *in, double value, nn_real *out)
{
#if HAS_WORDS
    int slot;
#endif
#if HAS_ROUNDING
    if (in->is_rounded)
        value = (nn_real)value;
#endif
    switch (in->kind) {
#if HAS_NUMBER
    case NUMBER:
        out[0] = scaled(value != value ? in->fill : value, in->shift, in->scale);
        return encode_number(in, out[0], out + 1);
#endif
#if HAS_GAP
    case GAP:
        out[1] = value != value;
        out[0] = value != value ? (nn_real)in->fill : scaled(value, in->shift, in->scale);
        return encode_number(in, out[0], out + 2);
#endif
#if HAS_YEAR
    case YEAR: encode_cycle(rest(value, 31556952) / 31556952, out); return out + 2;
#endif
#if HAS_WEEK
    case WEEK: encode_cycle(rest(floor(value / 86400), 7) / 7, out); return out + 2;
#endif
#if HAS_DAY
    case DAY: encode_cycle(rest(value, 86400) / 86400, out); return out + 2;
#endif
#if HAS_TRUTH
    case TRUTH:
        slot = slot_of(in, value);              /* no, yes, neither */
        out[0] = slot == 2 ? (nn_real)in->fill : (nn_real)slot;
        return out + 1;
#endif
#if HAS_ONEHOT
    case ONEHOT:
        slot = slot_of(in, value);
        for (int k = 0; k < in->values; k++)
            out[k] = k == slot;
        return out + in->values;
#endif
#if HAS_EMBEDDING
    case EMBEDDING:
        slot = slot_of(in, value);
        memcpy(out, in->table + slot * in->width, (size_t)in->width * sizeof *out);
        return out + in->width;
#endif
    }
    return out;
}

static void encode_row(const network *net, values row, nn_real *x)
{
    for (int i = 0; i < net->input_count; i++)
        x = encode(&net->inputs[i], value_at(row, net->inputs[i].place), x);
}

#endif
