/* Products with packed matrices.

   A panel is 16 columns of a matrix, [k/2][16][2]: for each pair of numbers along k, the pairs of
   the 16 columns stand side by side. That is at once what one vector instruction and what one AMX
   tile wants, so weights are packed in panels, and so are the keys of 16 tokens. */
#pragma once

#include "vectors.h"

/* A packed matrix: bfloat16 numbers, or where there are `scales`, one for each column, bytes that
   are to be multiplied with them. */
struct matrix {
    const void *panels;
    const float *scales;
};

#define TILE_ROWS 16
#define BLOCK_ROWS 32 /* rows and columns of a block: two tiles by two tiles */
#define FEW_ROWS 4    /* up to here a tile would mostly multiply nothing */
#define AHEAD 2048    /* numbers between what is multiplied and what is asked from memory */

static int has_tiles; /* set once, by allow_tiles() */

#ifdef __AMX_BF16__
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel lets a process use tiles only when asked (arch_prctl(2), ARCH_REQ_XCOMP_PERM). */
static void allow_tiles(void) { has_tiles = syscall(SYS_arch_prctl, 0x1023, 18) == 0; }

/* Every tile is 16 rows of 64 bytes. Each thread does this for itself. */
static void shape_tiles(void) {
    struct {
        uint8_t palette, start_row, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) shape.row_bytes[i] = 64, shape.rows[i] = TILE_ROWS;
    if (has_tiles) _tile_loadconfig(&shape);
}

static void release_tiles(void) {
    if (has_tiles) _tile_release();
}

INLINE void prefetch_tile(const bf16 *tile) {
    for (int line = 0; line < 16; line++) prefetch(tile + 32 * line);
}

/* Tiles 0-3 sum, 4 and 5 hold rows of a, 6 and 7 columns of the panels. */
static void tile_block(const bf16 *a, long a_stride, int rows, const bf16 *panel0,
                       const bf16 *panel1, int k, long ahead, float *out, long out_stride) {
    const long a_bytes = a_stride * 2, out_bytes = out_stride * 4;
    if (rows > TILE_ROWS) {
        const bf16 *lower = a + TILE_ROWS * a_stride;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int i = 0; i < k; i += 32) {
            _tile_loadd(4, a + i, a_bytes);
            _tile_loadd(6, panel0 + 16 * i, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, panel1 + 16 * i, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, lower + i, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, out, out_bytes);
        _tile_stored(1, out + LANES, out_bytes);
        _tile_stored(2, out + TILE_ROWS * out_stride, out_bytes);
        _tile_stored(3, out + TILE_ROWS * out_stride + LANES, out_bytes);
        return;
    }
    _tile_zero(0);
    _tile_zero(1);
    for (int i = 0; i < k; i += 32) {
        prefetch_tile(panel0 + 16 * i + ahead);
        prefetch_tile(panel1 + 16 * i + ahead);
        _tile_loadd(4, a + i, a_bytes);
        _tile_loadd(6, panel0 + 16 * i, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, panel1 + 16 * i, 64);
        _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, out, out_bytes);
    _tile_stored(1, out + LANES, out_bytes);
}
#else
static void allow_tiles(void) {}
static void shape_tiles(void) {}
static void release_tiles(void) {}
static void tile_block(const bf16 *a, long a_stride, int rows, const bf16 *panel0,
                       const bf16 *panel1, int k, long ahead, float *out, long out_stride) {
    (void)a, (void)a_stride, (void)rows, (void)panel0, (void)panel1, (void)k, (void)ahead;
    (void)out, (void)out_stride;
}
#endif

/* `rows` is a constant where this is inlined, so that the sums stay in registers. */
INLINE void vector_rows(int rows, const bf16 *a, long a_stride, const bf16 *panel0,
                        const bf16 *panel1, int k, long ahead, float *out, long out_stride) {
    floats sums[6][2];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = all(0);
    for (int i = 0; i < k; i += 2) {
        prefetch(panel0 + 16 * i + ahead);
        prefetch(panel1 + 16 * i + ahead);
        const ints w0 = *(const ints *)(panel0 + 16 * i), w1 = *(const ints *)(panel1 + 16 * i);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const ints pair = pair_in_all_lanes(a + r * a_stride + i);
            sums[r][0] = add_products(sums[r][0], pair, w0);
            sums[r][1] = add_products(sums[r][1], pair, w1);
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        store(out + r * out_stride, sums[r][0]);
        store(out + r * out_stride + LANES, sums[r][1]);
    }
}

/* out [rows, 32] = a [rows, k] times two panels; at most BLOCK_ROWS rows. With tiles, whole tiles
   of rows are read and written: both buffers have room for them, and what stands there is free.
   Memory is asked for what stands `ahead` numbers behind what is multiplied: panels that follow. */
static void block_product(const bf16 *a, long a_stride, int rows, const bf16 *panel0,
                          const bf16 *panel1, int k, long ahead, float *out, long out_stride) {
    if (has_tiles && rows > FEW_ROWS) {
        tile_block(a, a_stride, rows, panel0, panel1, k, ahead, out, out_stride);
        return;
    }
#define ROWS(count) vector_rows(count, a, a_stride, panel0, panel1, k, ahead, out, out_stride)
    for (; rows > 0; rows -= 6, a += 6 * a_stride, out += 6 * out_stride) {
        switch (rows) {
        case 1: ROWS(1); break;
        case 2: ROWS(2); break;
        case 3: ROWS(3); break;
        case 4: ROWS(4); break;
        case 5: ROWS(5); break;
        default: ROWS(6);
        }
    }
#undef ROWS
}

/* Two panels of k rows from `column` on, ready to be multiplied; `room` holds those of bytes. The
   second is the first again where the matrix ends. */
static void panels_from(const struct matrix *matrix, int column, int columns, int k, bf16 *room,
                        const bf16 *panels[2]) {
    const long size = (long)LANES * k, at = (long)column * k;
    const int has_second = columns - column > LANES;
    if (!matrix->scales) {
        panels[0] = (const bf16 *)matrix->panels + at;
        panels[1] = has_second ? panels[0] + size : panels[0];
        return;
    }
    const int8_t *bytes = (const int8_t *)matrix->panels + at;
    for (long i = 0; i < (has_second ? 2 * size : size); i += 2 * LANES) {
        prefetch(bytes + i + 2 * AHEAD);
        store_bytes_as_bf16(room + i, bytes + i);
    }
    panels[0] = room;
    panels[1] = has_second ? room + size : room;
}

INLINE void scale_columns(const struct matrix *matrix, int column, int columns, int rows,
                          float *sums) {
    if (!matrix->scales) return;
    const floats left = load(matrix->scales + column);
    const floats right = columns - column > LANES ? load(matrix->scales + column + LANES) : left;
    for (int r = 0; r < rows; r++, sums += BLOCK_ROWS) {
        store(sums, load(sums) * left);
        store(sums + LANES, load(sums + LANES) * right);
    }
}
