/* Attention over a paged cache, with a running softmax, so that no row of scores is ever whole
   (Dao et al. 2022, FlashAttention, algorithm 1).

   The cache of a layer is [kv heads][blocks of 16 tokens][keys, then values], so that a head's
   blocks follow each other. The keys of a block are a panel of product.h; its values are
   [head_dim/16][8][16][2]: pairs of tokens, side by side for 16 dimensions. The query heads that
   share a key head stand one after the other as rows. */
#pragma once

#include <math.h>

#include "product.h"

#define BLOCK_TOKENS 16
#define QUERY_ROWS 48
#define LATER 4   /* blocks between the one that is read and the one that is asked from memory */
#define CHUNK 128 /* tokens that are looked at before the softmax is carried on */
#define MOST_HEAD_DIM 256

/* What a thread needs to attend; the second half of each share block stays zero. */
struct attention_scratch {
    float scores[QUERY_ROWS][CHUNK];
    bf16 shares[QUERY_ROWS][2 * CHUNK];
    float outputs[QUERY_ROWS][MOST_HEAD_DIM];
    float most[QUERY_ROWS], total[QUERY_ROWS];
};

/* One key head of the cache of one sequence. */
struct stored {
    const bf16 *head;     /* of block 0 of the layer */
    long block_stride;    /* numbers from block to block */
    const int32_t *table; /* the sequence's blocks */
    int head_dim;
};

INLINE const bf16 *keys_of(const struct stored *stored, int block) {
    return stored->head + stored->table[block] * stored->block_stride;
}

INLINE const bf16 *values_of(const struct stored *stored, int block) {
    return keys_of(stored, block) + BLOCK_TOKENS * stored->head_dim;
}

/* Carry the softmax of one row on over `blocks` blocks, of which it sees `visible` tokens. */
static void share_out(struct attention_scratch *own, int row, int blocks, int visible, float scale,
                      int head_dim) {
    float *scores = own->scores[row];
    if (visible <= 0) {
        for (int b = 0; b < blocks; b++) store_bf16(own->shares[row] + 32 * b, all(0));
        return;
    }
    for (int i = visible; i < blocks * BLOCK_TOKENS; i++) scores[i] = -INFINITY;
    floats most = load(scores);
    for (int b = 1; b < blocks; b++) most = larger(most, load(scores + LANES * b));
    const float before = own->most[row], now = fmaxf(before, largest_of(most) * scale);
    floats sum = all(0);
    for (int b = 0; b < blocks; b++) {
        const floats share = exponential(load(scores + LANES * b) * scale - now);
        store_bf16(own->shares[row] + 32 * b, share);
        sum += share;
    }
    const float kept = exponential(all(before - now))[0];
    own->total[row] = own->total[row] * kept + sum_of(sum);
    own->most[row] = now;
    for (int i = 0; i < head_dim; i += LANES)
        store(own->outputs[row] + i, load(own->outputs[row] + i) * kept);
}

INLINE void weigh_few(int rows, struct attention_scratch *own, int first,
                      const struct stored *stored, int first_block, int blocks, int dim) {
    floats sums[4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) sums[r] = load(own->outputs[first + r] + dim);
    for (int b = 0; b < blocks; b++) {
        const bf16 *values = values_of(stored, first_block + b) + BLOCK_TOKENS * dim;
#pragma GCC unroll 8
        for (int i = 0; i < BLOCK_TOKENS; i += 2) {
            const ints pair = *(const ints *)(values + 16 * i);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) {
                const bf16 *share = own->shares[first + r] + 32 * b + i;
                sums[r] = add_products(sums[r], pair_in_all_lanes(share), pair);
            }
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) store(own->outputs[first + r] + dim, sums[r]);
}

/* outputs += shares times the values of `blocks` blocks. */
static void weigh_values(struct attention_scratch *own, int rows, const struct stored *stored,
                         int first_block, int blocks) {
#ifdef __AMX_BF16__
    if (has_tiles && rows > FEW_ROWS) {
        for (int row = 0; row < rows; row += TILE_ROWS)
            for (int dim = 0; dim < stored->head_dim; dim += 32) {
                float *outputs = own->outputs[row] + dim;
                _tile_loadd(0, outputs, MOST_HEAD_DIM * 4);
                _tile_loadd(1, outputs + LANES, MOST_HEAD_DIM * 4);
                for (int b = 0; b < blocks; b++) {
                    /* Half of each tile is other values, times shares that are zero. */
                    const bf16 *values = values_of(stored, first_block + b) + BLOCK_TOKENS * dim;
                    _tile_loadd(4, own->shares[row] + 32 * b, 2 * CHUNK * 2);
                    _tile_loadd(6, values, 64);
                    _tile_dpbf16ps(0, 4, 6);
                    _tile_loadd(7, values + BLOCK_TOKENS * LANES, 64);
                    _tile_dpbf16ps(1, 4, 7);
                }
                _tile_stored(0, outputs, MOST_HEAD_DIM * 4);
                _tile_stored(1, outputs + LANES, MOST_HEAD_DIM * 4);
            }
        return;
    }
#endif
    for (int dim = 0; dim < stored->head_dim; dim += LANES)
        for (int row = 0; row < rows; row += 4) {
            switch (rows - row) {
            case 1: weigh_few(1, own, row, stored, first_block, blocks, dim); break;
            case 2: weigh_few(2, own, row, stored, first_block, blocks, dim); break;
            case 3: weigh_few(3, own, row, stored, first_block, blocks, dim); break;
            default: weigh_few(4, own, row, stored, first_block, blocks, dim);
            }
        }
}

/* Ask memory for a block that comes later; a sequence's blocks may lie anywhere. */
INLINE void prefetch_block(const struct stored *stored, int block) {
    for (int i = 0; i < 2 * BLOCK_TOKENS * stored->head_dim; i += 32)
        prefetch(keys_of(stored, block) + i);
}

/* What `rows` query rows [rows, head_dim] attend to, into own->outputs; row i sees the first
   sees[i / group] tokens, and later rows never see fewer than `sees[0]`. */
static void attend(struct attention_scratch *own, const struct stored *stored, const bf16 *queries,
                   int rows, int group, const int32_t *sees) {
    const int head_dim = stored->head_dim;
    const float scale = 1.0f / sqrtf((float)head_dim);
    int longest = 0;
    for (int row = 0; row < rows; row++) {
        own->most[row] = -INFINITY, own->total[row] = 0;
        memset(own->outputs[row], 0, sizeof(float) * head_dim);
        if (sees[row / group] > longest) longest = sees[row / group];
    }
    const int all_blocks = (longest + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    for (int first = 0; first < all_blocks; first += CHUNK / BLOCK_TOKENS) {
        const int after = first + CHUNK / BLOCK_TOKENS;
        const int last = after < all_blocks ? after : all_blocks;
        for (int b = first; b < last; b += 2) {
            const bf16 *keys = keys_of(stored, b);
            const bf16 *next = b + 1 < last ? keys_of(stored, b + 1) : keys;
            if (b + LATER < all_blocks) prefetch_block(stored, b + LATER);
            if (b + LATER + 1 < all_blocks) prefetch_block(stored, b + LATER + 1);
            for (int row = 0; row < rows; row += BLOCK_ROWS) {
                const int some = rows - row < BLOCK_ROWS ? rows - row : BLOCK_ROWS;
                block_product(queries + (long)row * head_dim, head_dim, some, keys, next, head_dim,
                              0, own->scores[row] + BLOCK_TOKENS * (b - first), CHUNK);
            }
        }
        for (int row = 0; row < rows; row++) {
            const int visible = sees[row / group] - first * BLOCK_TOKENS;
            share_out(own, row, last - first, visible, scale, head_dim);
        }
        weigh_values(own, rows, stored, first, last - first);
    }
}
