/* The forward pass of the Llama family on a CPU: bfloat16 weights and keys, sums in float32.

   All threads go through the same phases and meet at a barrier after each (threads.h). Rows of any
   sequences stand one after the other.
   What the numbers mean is written once, in ../native_forward.py. */
#include <omp.h>
#include <stdlib.h>

#include "attention.h"
#include "threads.h"

#define PASS_ROWS 512 /* rows that go through a layer together: their numbers stay near the core */
#define RUN_ROWS 16   /* rows of one sequence that attend together */

struct layer {
    const float *attention_norm, *mlp_norm, *qkv_bias;
    const float *query_norm, *key_norm; /* null where the model has none */
    struct matrix qkv, attention_out, gate_up, down;
    bf16 *cache;
};

struct model {
    int32_t layers, hidden, heads, kv_heads, head_dim, intermediate, vocabulary, threads;
    int32_t cache_blocks;
    float norm_eps;
    const struct layer *layer;
    const bf16 *embedding;
    struct matrix output;
    const float *output_norm, *rotation; /* rotation: [context][cosines, sines] of half a head */
};

struct batch {
    int32_t rows, wanted;
    const int32_t *token_ids, *positions, *sees, *slots; /* a slot of -1 is not stored */
    const int32_t *sequences, *tables, *table_starts;
    const int32_t *wanted_rows;
    int32_t *chosen;
    float *logits; /* [wanted, vocabulary], or null */
};

struct work {
    const struct model *model;
    const struct batch *batch;
    int row, rows; /* the rows of this pass */
    int room_rows; /* rows that the buffers of a pass hold */
    float *hidden, *qkv;
    bf16 *normed, *queries, *attended, *middle;
    float *best;
    int32_t *best_id;
    struct attention_scratch *scratch; /* one for each thread */
    bf16 *unpacked;                    /* two panels for each thread */
    long unpacked_size;
    struct range *ranges; /* one for each thread */
};

/* --- the pieces of a layer ------------------------------------------------------------------- */

static void norm_row(const float *row, const float *weight, int size, float eps, bf16 *to) {
    floats squares = all(0);
    for (int i = 0; i < size; i += LANES) squares += load(row + i) * load(row + i);
    const float scale = 1.0f / sqrtf(sum_of(squares) / size + eps);
    for (int i = 0; i < size; i += LANES)
        store_bf16(to + i, load(row + i) * scale * load(weight + i));
}

static void norm_rows(const struct work *w, const float *weight, struct seat *seat) {
    const struct model *m = w->model;
    EACH_UNIT(unit, (w->rows + RUN_ROWS - 1) / RUN_ROWS) {
        const int end = (unit + 1) * RUN_ROWS < w->rows ? (unit + 1) * RUN_ROWS : w->rows;
        for (int r = unit * RUN_ROWS; r < end; r++)
            norm_row(w->hidden + (long)(w->row + r) * m->hidden, weight, m->hidden, m->norm_eps,
                     w->normed + (long)r * m->hidden);
    }
}

enum use { KEEP, ADD_TO_HIDDEN, GATE };

/* What becomes of a block of sums [rows, 32], which are columns `column` and on of the product. */
static void use_block(const struct work *w, enum use use, const float *sums, int row, int rows,
                      int column, int columns, const float *bias) {
    const struct model *m = w->model;
    for (int r = 0; r < rows; r++, sums += BLOCK_ROWS) {
        const floats left = load(sums), right = load(sums + LANES);
        if (use == GATE) { /* panels of gate and up take turns */
            const floats gated = left / (1.0f + exponential(-left)) * right;
            store_bf16(w->middle + (long)(row + r) * m->intermediate + column / 2, gated);
        } else if (use == ADD_TO_HIDDEN) {
            float *to = w->hidden + (long)(w->row + row + r) * m->hidden + column;
            store(to, load(to) + left);
            if (columns > LANES) store(to + LANES, load(to + LANES) + right);
        } else {
            const int size = (m->heads + 2 * m->kv_heads) * m->head_dim;
            float *to = w->qkv + (long)(row + r) * size + column;
            store(to, left + load(bias + column));
            if (columns > LANES) store(to + LANES, right + load(bias + column + LANES));
        }
    }
}

INLINE bf16 *own_room(const struct work *w) {
    return w->unpacked + omp_get_thread_num() * w->unpacked_size;
}

/* a [rows of the pass, k] times a matrix of `columns` columns. */
static void multiply(const struct work *w, const bf16 *a, int k, const struct matrix *matrix,
                     int columns, enum use use, const float *bias, struct seat *seat) {
    float sums[BLOCK_ROWS][BLOCK_ROWS] __attribute__((aligned(64)));
    EACH_UNIT(unit, (columns + BLOCK_ROWS - 1) / BLOCK_ROWS) {
        const int column = unit * BLOCK_ROWS, left = columns - column;
        const int own = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        const bf16 *panels[2];
        panels_from(matrix, column, columns, k, own_room(w), panels);
        const long ahead = matrix->scales ? 0 : AHEAD;
        for (int row = 0; row < w->rows; row += BLOCK_ROWS) {
            const int rows = w->rows - row < BLOCK_ROWS ? w->rows - row : BLOCK_ROWS;
            block_product(a + (long)row * k, k, rows, panels[0], panels[1], k, ahead, sums[0],
                          BLOCK_ROWS);
            scale_columns(matrix, column, columns, rows, sums[0]);
            use_block(w, use, sums[0], row, rows, column, own, bias);
        }
    }
}

/* (a, b) becomes (a cos - b sin, b cos + a sin), a and b the halves of a head. */
static void rotate(const struct model *m, float *head, const float *weight, const float *rotation) {
    const int half = m->head_dim / 2;
    if (weight) {
        floats squares = all(0);
        for (int i = 0; i < m->head_dim; i += LANES) squares += load(head + i) * load(head + i);
        const float scale = 1.0f / sqrtf(sum_of(squares) / m->head_dim + m->norm_eps);
        for (int i = 0; i < m->head_dim; i += LANES)
            store(head + i, load(head + i) * scale * load(weight + i));
    }
    for (int i = 0; i < half; i += LANES) {
        const floats a = load(head + i), b = load(head + half + i);
        const floats cosine = load(rotation + i), sine = load(rotation + half + i);
        store(head + i, a * cosine - b * sine);
        store(head + half + i, b * cosine + a * sine);
    }
}

/* Rotate queries and keys; queries go where attention reads them, keys and values to the cache. */
static void store_rows(const struct work *w, const struct layer *layer, struct seat *seat) {
    const struct model *m = w->model;
    const int dim = m->head_dim, group = m->heads / m->kv_heads;
    EACH_UNIT(row, w->rows) {
        float *heads = w->qkv + (long)row * (m->heads + 2 * m->kv_heads) * dim;
        const float *rotation = m->rotation + (long)w->batch->positions[w->row + row] * dim;
        for (int h = 0; h < m->heads; h++) {
            rotate(m, heads + h * dim, layer->query_norm, rotation);
            const long at = ((long)(h / group) * w->room_rows + row) * group + h % group;
            for (int i = 0; i < dim; i += LANES)
                store_bf16(w->queries + at * dim + i, load(heads + h * dim + i));
        }
        const int slot = w->batch->slots[w->row + row];
        if (slot < 0) continue;
        for (int h = 0; h < m->kv_heads; h++) {
            float *key = heads + (m->heads + h) * dim, *value = key + m->kv_heads * dim;
            rotate(m, key, layer->key_norm, rotation);
            const int block = slot / BLOCK_TOKENS, token = slot % BLOCK_TOKENS;
            const long at = (long)h * m->cache_blocks + block;
            bf16 *keys = layer->cache + at * 2 * BLOCK_TOKENS * dim;
            bf16 *values = keys + BLOCK_TOKENS * dim;
            for (int i = 0; i < dim; i++) {
                keys[i / 2 * 32 + 2 * token + i % 2] = to_bf16(key[i]);
                const int pairs = i / 16 * 256 + token / 2 * 32; /* of this token and its mate */
                values[pairs + 2 * (i % 16) + token % 2] = to_bf16(value[i]);
            }
        }
    }
}

/* Rows of one sequence from `row` on that attend together. */
static int run_from(const struct work *w, int row) {
    const int32_t *sequences = w->batch->sequences + w->row;
    const int group = w->model->heads / w->model->kv_heads;
    const int fits = QUERY_ROWS / group, most = fits < RUN_ROWS ? fits : RUN_ROWS;
    int rows = 1;
    while (rows < most && row + rows < w->rows && sequences[row + rows] == sequences[row]) rows++;
    return rows;
}

static void attend_rows(const struct work *w, const struct layer *layer, const int *runs,
                        int run_count, struct attention_scratch *room, struct seat *seat) {
    const struct model *m = w->model;
    const int dim = m->head_dim, group = m->heads / m->kv_heads;
    EACH_UNIT(unit, run_count * m->kv_heads) {
        /* Later rows of a prompt see more: they go first, so that the threads end together. */
        const int row = runs[run_count - 1 - unit / m->kv_heads], head = unit % m->kv_heads;
        const int rows = run_from(w, row);
        const int sequence = w->batch->sequences[w->row + row];
        const struct stored stored = {
            .head = layer->cache + (long)head * m->cache_blocks * 2 * BLOCK_TOKENS * dim,
            .block_stride = 2L * BLOCK_TOKENS * dim,
            .table = w->batch->tables + w->batch->table_starts[sequence],
            .head_dim = dim,
        };
        const bf16 *queries = w->queries + ((long)head * w->room_rows + row) * group * dim;
        attend(room, &stored, queries, rows * group, group, w->batch->sees + w->row + row);
        for (int r = 0; r < rows * group; r++) {
            const long at = (long)(row + r / group) * m->heads + head * group + r % group;
            bf16 *to = w->attended + at * dim;
            for (int i = 0; i < dim; i += LANES)
                store_bf16(to + i, load(room->outputs[r] + i) / room->total[r]);
        }
    }
}

static void through_layer(const struct work *w, const struct layer *layer, const int *runs,
                          int run_count, struct attention_scratch *room, struct seat *seat) {
    const struct model *m = w->model;
    const int query_size = m->heads * m->head_dim;
    const int qkv_size = query_size + 2 * m->kv_heads * m->head_dim;
    norm_rows(w, layer->attention_norm, seat);
    meet(seat);
    multiply(w, w->normed, m->hidden, &layer->qkv, qkv_size, KEEP, layer->qkv_bias, seat);
    meet(seat);
    store_rows(w, layer, seat);
    meet(seat);
    attend_rows(w, layer, runs, run_count, room, seat);
    meet(seat);
    multiply(w, w->attended, query_size, &layer->attention_out, m->hidden, ADD_TO_HIDDEN, NULL,
             seat);
    meet(seat);
    norm_rows(w, layer->mlp_norm, seat);
    meet(seat);
    multiply(w, w->normed, m->hidden, &layer->gate_up, 2 * m->intermediate, GATE, NULL, seat);
    meet(seat);
    multiply(w, w->middle, m->intermediate, &layer->down, m->hidden, ADD_TO_HIDDEN, NULL, seat);
    meet(seat);
}

/* --- from hidden rows to tokens -------------------------------------------------------------- */

/* The largest logit of each wanted row; of equals the first, as everywhere. */
static void choose(const struct work *w, int first, int rows, struct seat *seat) {
    const struct model *m = w->model;
    float sums[BLOCK_ROWS][BLOCK_ROWS] __attribute__((aligned(64)));
    float *best = w->best + seat->thread * BLOCK_ROWS;
    int32_t *best_id = w->best_id + seat->thread * BLOCK_ROWS;
    for (int r = 0; r < rows; r++) best[r] = -INFINITY, best_id[r] = 0;
    EACH_UNIT(unit, (m->vocabulary + BLOCK_ROWS - 1) / BLOCK_ROWS) {
        const int column = unit * BLOCK_ROWS, left = m->vocabulary - column;
        const int columns = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        const bf16 *panels[2];
        panels_from(&m->output, column, m->vocabulary, m->hidden, own_room(w), panels);
        block_product(w->normed, m->hidden, rows, panels[0], panels[1], m->hidden,
                      m->output.scales ? 0 : AHEAD, sums[0], BLOCK_ROWS);
        scale_columns(&m->output, column, m->vocabulary, rows, sums[0]);
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < columns; i++)
                if (sums[r][i] > best[r]) best[r] = sums[r][i], best_id[r] = column + i;
            if (w->batch->logits)
                memcpy(w->batch->logits + (long)(first + r) * m->vocabulary + column, sums[r],
                       sizeof(float) * columns);
        }
    }
}

static void choose_tokens(const struct work *w, struct seat *seat) {
    const struct model *m = w->model;
    for (int first = 0; first < w->batch->wanted; first += BLOCK_ROWS) {
        const int left = w->batch->wanted - first, rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        EACH_UNIT(r, rows)
            norm_row(w->hidden + (long)w->batch->wanted_rows[first + r] * m->hidden, m->output_norm,
                     m->hidden, m->norm_eps, w->normed + (long)r * m->hidden);
        meet(seat);
        choose(w, first, rows, seat);
        meet(seat);
        EACH_UNIT(r, rows) {
            float most = -INFINITY;
            int32_t id = 0;
            for (int t = 0; t < m->threads; t++) {
                const float value = w->best[t * BLOCK_ROWS + r];
                const int32_t own = w->best_id[t * BLOCK_ROWS + r];
                if (value > most || (value == most && own < id)) most = value, id = own;
            }
            w->batch->chosen[first + r] = id;
        }
        meet(seat);
    }
}

/* --- what Python calls ----------------------------------------------------------------------- */

static int any_room_failed(const struct work *w) {
    return !w->hidden || !w->qkv || !w->normed || !w->queries || !w->attended || !w->middle ||
           !w->best || !w->best_id || !w->scratch || !w->unpacked || !w->ranges;
}

/* Zeroed: rows that fill up a tile are multiplied too, and must not hold a NaN. */
static void *room(size_t count, size_t size) {
    void *memory = NULL;
    const size_t bytes = (count * size + 63) / 64 * 64;
    if (posix_memalign(&memory, 64, bytes)) return NULL;
    return memset(memory, 0, bytes);
}

static void begin(const struct work *w, struct seat *seat) {
    const struct model *m = w->model;
    EACH_UNIT(row, w->batch->rows) {
        const bf16 *from = m->embedding + (long)w->batch->token_ids[row] * m->hidden;
        float *to = w->hidden + (long)row * m->hidden;
        for (int i = 0; i < m->hidden; i++) to[i] = to_float(from[i]);
    }
}

/* Compute `batch`: fills the cache, `chosen`, and `logits` where asked. 0, or 1 without memory. */
int forward(const struct model *m, const struct batch *batch) {
    const int pass = batch->rows < PASS_ROWS ? batch->rows : PASS_ROWS;
    const int rows = pass + QUERY_ROWS; /* whole tiles are read, of which some rows are not ours */
    const int query_size = m->heads * m->head_dim;
    const int qkv_size = query_size + 2 * m->kv_heads * m->head_dim;
    int longest = m->hidden > query_size ? m->hidden : query_size;
    if (m->intermediate > longest) longest = m->intermediate;
    const long unpacked = 2L * LANES * longest;
    struct work w = {
        .model = m,
        .batch = batch,
        .room_rows = rows,
        .hidden = room((size_t)batch->rows * m->hidden, sizeof(float)),
        .qkv = room((size_t)rows * qkv_size, sizeof(float)),
        .normed = room((size_t)rows * m->hidden, sizeof(bf16)),
        .queries = room((size_t)rows * query_size, sizeof(bf16)),
        .attended = room((size_t)rows * query_size, sizeof(bf16)),
        .middle = room((size_t)rows * m->intermediate, sizeof(bf16)),
        .best = room((size_t)m->threads * BLOCK_ROWS, sizeof(float)),
        .best_id = room((size_t)m->threads * BLOCK_ROWS, sizeof(int32_t)),
        .scratch = room(m->threads, sizeof(struct attention_scratch)),
        .unpacked = room((size_t)m->threads * unpacked, sizeof(bf16)),
        .unpacked_size = unpacked,
        .ranges = room(m->threads, sizeof(struct range)),
    };
    const int failed = any_room_failed(&w);
    if (!failed) {
        start_phases();
#pragma omp parallel num_threads(m->threads)
        {
            struct work own = w;
            struct seat seat = {
                .thread = omp_get_thread_num(), .threads = m->threads, .ranges = w.ranges};
            int runs[PASS_ROWS];
            shape_tiles();
            begin(&own, &seat);
            meet(&seat);
            for (int layer = 0; layer < m->layers; layer++)
                for (own.row = 0; own.row < batch->rows; own.row += PASS_ROWS) {
                    const int left = batch->rows - own.row;
                    own.rows = left < PASS_ROWS ? left : PASS_ROWS;
                    int run_count = 0;
                    for (int row = 0; row < own.rows; row += run_from(&own, row))
                        runs[run_count++] = row;
                    through_layer(&own, m->layer + layer, runs, run_count,
                                  own.scratch + seat.thread, &seat);
                }
            choose_tokens(&own, &seat);
            release_tiles();
        }
    }
    free(w.hidden), free(w.qkv), free(w.normed), free(w.queries);
    free(w.attended), free(w.middle), free(w.best), free(w.best_id), free(w.scratch);
    free(w.unpacked), free(w.ranges);
    return failed;
}

/* How bfloat16 is multiplied here: 2 tiles, 1 vectors of pairs, 0 vectors of floats. */
int prepare(void) {
    allow_tiles();
#ifdef __AVX512BF16__
    return has_tiles ? 2 : 1;
#else
    return 0;
#endif
}
