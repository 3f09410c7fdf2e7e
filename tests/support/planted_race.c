/* planted_race.c - does the thread sanitizer see through the core's barrier, and through nothing
 * else? Threads write a value each and read their neighbour's: after the barrier, or, with an
 * argument, without waiting.
 */
#include "../../csrc/common.h"
#include <stdio.h>

int main(int count, char **arguments)
{
    thread_barrier barrier = {0};
    int waits = count == 1, values[4] = {0}, sum = 0;
    (void)arguments;
    #pragma omp parallel num_threads(4)
    {
        thread_team here = nn_this_team(&barrier);
        for (int round = 1; round <= 100; round++) {
            values[here.id] = round;
            if (waits)
                barrier_wait(here);
            __atomic_fetch_add(&sum, values[(here.id + 1) % here.count], __ATOMIC_RELAXED);
            if (waits)
                barrier_wait(here);
        }
    }
    printf("%d\n", sum);
    return 0;
}
