/* A framework that asks how many cores there are and what the instance is, all the time and from
 * many threads, whatever another thread does with the runtime. Breaks when a count is not known
 * before nrt_init, changes with it, or waits for it. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "client.h"
#include "nrt/nrt.h"

enum { THREADS = 4, QUESTIONS = 8, CYCLES = 3 };

static uint32_t total, visible;
static nrt_instance_info_t identity;
static atomic_ulong asked[THREADS];
static atomic_int done;

static void *ask(void *counter)
{
    while (!atomic_load(&done)) {
        uint32_t n = 0;
        nrt_instance_info_t info;
        MUST_BE(nrt_get_total_vnc_count(&n), NRT_SUCCESS);
        MUST_BE(n, total);
        MUST_BE(nrt_get_total_nc_count(&n), NRT_SUCCESS);
        MUST_BE(n, total);
        MUST_BE(nrt_get_visible_vnc_count(&n), NRT_SUCCESS);
        MUST_BE(n, visible);
        MUST_BE(nrt_get_visible_nc_count(&n), NRT_SUCCESS);
        MUST_BE(n, visible);
        MUST_BE(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
        MUST(memcmp(&info, &identity, sizeof info) == 0);
        atomic_fetch_add((atomic_ulong *)counter, 1);
    }
    return NULL;
}

/* Until every thread has asked in the state the runtime is in now. */
static void everybody_has_asked(void)
{
    unsigned long before[THREADS];
    for (int i = 0; i < THREADS; i++)
        before[i] = atomic_load(&asked[i]);
    for (int i = 0; i < THREADS; i++)
        while (atomic_load(&asked[i]) < before[i] + QUESTIONS)
            sched_yield();
}

int main(void)
{
    pthread_t threads[THREADS];
    MUST_BE(nrt_get_total_vnc_count(&total), NRT_SUCCESS);
    MUST_BE(nrt_get_visible_vnc_count(&visible), NRT_SUCCESS);
    MUST_BE(nrt_get_instance_info(&identity, sizeof identity), NRT_SUCCESS);
    MUST(total > 0 && visible == total && identity.family != NRT_INSTANCE_UNKNOWN && identity.arch_name[0] != '\0');
    for (int i = 0; i < THREADS; i++)
        MUST_BE(pthread_create(&threads[i], NULL, ask, &asked[i]), 0);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        everybody_has_asked();
        MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_TENSORFLOW, "2.18", ""), NRT_SUCCESS);
        everybody_has_asked();
        nrt_close();
    }
    everybody_has_asked();
    atomic_store(&done, 1);
    for (int i = 0; i < THREADS; i++)
        MUST_BE(pthread_join(threads[i], NULL), 0);
    return 0;
}
