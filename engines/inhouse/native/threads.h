/* How threads share a phase of work and wait for each other after it.

   A phase is a number that each thread counts for itself. Within a phase threads take the next unit
   of work until none is left. The threads meet some two hundred times a step, so they spin; after a
   while they offer their core to others, for the one that is waited for may need it. */
#pragma once

#include <sched.h>
#include <stdatomic.h>

#define SPINS 1000

static atomic_int next_unit[2], arrived, turn;

/* Wait for all threads; the last to come opens the next phase. */
static void meet(int threads, int *phase) {
    const int mine = ++*phase;
    if (atomic_fetch_add(&arrived, 1) + 1 == threads) {
        atomic_store(&arrived, 0);
        atomic_store(&next_unit[(mine + 1) & 1], 0);
        atomic_store(&turn, mine);
        return;
    }
    for (int spins = 0; atomic_load(&turn) != mine; spins++) {
        if (spins < SPINS) {
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        } else {
            sched_yield();
        }
    }
}

#define EACH_UNIT(unit, units)                                                                     \
    for (int unit; (unit = atomic_fetch_add(&next_unit[*phase & 1], 1)) < (units);)

/* Before the threads begin; only one group of threads works at a time. */
static void start_phases(void) {
    atomic_store(&next_unit[0], 0);
    atomic_store(&next_unit[1], 0);
    atomic_store(&arrived, 0);
    atomic_store(&turn, 0);
}
