/* How threads share a phase of work and wait for each other after it.

   In a phase each thread takes units of work from a range of its own, in order, so that what it
   asks from memory ahead of its work is what it works on next; one that has none left takes from
   the others' ranges. A thread whose core is taken away for a while is waited for one unit, not for
   its share. The threads meet some two hundred times a step, so they spin; after a while they offer
   their core to others, for the one that is waited for may need it. */
#pragma once

#include <sched.h>
#include <stdatomic.h>

#define SPINS 1000

/* Units that were taken of a thread's range, in the phase that is on and in the next one. */
struct range {
    _Alignas(64) atomic_int taken[2];
};

/* A thread among those that work together. Phases are numbers that each thread counts for itself. */
struct seat {
    int thread, threads, phase;
    struct range *ranges; /* one for each thread, zeroed before the first phase */
};

static atomic_int arrived, turn;

/* Before the threads begin; only one group of threads works at a time. */
static void start_phases(void) {
    atomic_store(&arrived, 0);
    atomic_store(&turn, 0);
}

/* Wait for all threads; the last to come opens the next phase. */
static void meet(struct seat *own) {
    const int ended = own->phase++;
    if (atomic_fetch_add(&arrived, 1) + 1 == own->threads) {
        atomic_store(&arrived, 0);
        for (int t = 0; t < own->threads; t++) atomic_store(&own->ranges[t].taken[ended & 1], 0);
        atomic_store(&turn, own->phase);
        return;
    }
    for (int spins = 0; atomic_load(&turn) != own->phase; spins++) {
        if (spins < SPINS) {
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
        } else {
            sched_yield();
        }
    }
}

/* The next of `units` units for this thread, or -1 when all are taken. */
static int take_unit(const struct seat *own, int units) {
    for (int i = 0; i < own->threads; i++) {
        const int owner = (own->thread + i) % own->threads;
        const int first = (int)((long)units * owner / own->threads);
        const int end = (int)((long)units * (owner + 1) / own->threads);
        const int unit = first + atomic_fetch_add(&own->ranges[owner].taken[own->phase & 1], 1);
        if (unit < end) return unit;
    }
    return -1;
}

#define EACH_UNIT(unit, units) for (int unit; (unit = take_unit(seat, units)) >= 0;)
