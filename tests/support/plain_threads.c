/* plain_threads.c - in the place of libgomp, for the thread sanitizer: what the core needs of
 * it, by POSIX threads. libgomp's threads meet by means that the sanitizer does not see, so it
 * would report races where there are none. To be preloaded after the sanitizer; its functions
 * stand before those of libgomp. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>

typedef struct { int id, count; void (*run)(void *); void *data; } member;
static __thread member here = {.count = 1};

int omp_get_thread_num(void) { return here.id; }
int omp_get_num_threads(void) { return here.count; }

static void *run_member(void *given)
{
    here = *(member *)given;
    here.run(here.data);
    return NULL;
}

/* A parallel region: new threads, which end with it. */
void GOMP_parallel(void (*run)(void *), void *data, unsigned threads, unsigned flags)
{
    member outer = here, members[threads];
    pthread_t ids[threads];
    (void)flags;
    for (unsigned t = 0; t < threads; t++)
        members[t] = (member){(int)t, (int)threads, run, data};
    for (unsigned t = 1; t < threads; t++)
        if (pthread_create(&ids[t], NULL, run_member, &members[t]))
            abort();
    run_member(&members[0]);
    for (unsigned t = 1; t < threads; t++)
        pthread_join(ids[t], NULL);
    here = outer;
}

/* Python's locks wait by this function, which the sanitizer does not know. */
void __tsan_acquire(void *) __attribute__((weak));

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *end)
{
    __typeof__(&sem_clockwait) next = (__typeof__(&sem_clockwait))dlsym(RTLD_NEXT, "sem_clockwait");
    int failed = next(semaphore, clock, end);
    if (!failed && __tsan_acquire)
        __tsan_acquire(semaphore);
    return failed;
}
