/* Four things of the standard library that ThreadSanitizer does not see, told to it; scripts/sanitize.sh puts them in place.
 *
 * The reference counts of Arc end an object with an acquire fence after the decrement. The sanitizer takes no notice of
 * fences; the library's own build for it has loads instead. Here a fence takes over what was released to the number that
 * the thread counted down last, which is what the fence means.
 *
 * A mutex that is taken after a wait is taken in code that was compiled without the sanitizer. Here that taking is
 * told: what the last owner released belongs to the new one. So is a wait for a condition, which gives the mutex away
 * and takes it again.
 *
 * What a Once (the lock of OnceLock) does once belongs to everybody who sees that it is done. */
#include <stdint.h>

extern void __tsan_acquire(void *at);
extern void __tsan_release(void *at);

#ifdef MUTEX

/* `&self` of std's Mutex on Linux, whose first and only part is the futex. */
void CONTENDED(__real_)(uint32_t *mutex);
void CONTENDED(__wrap_)(uint32_t *mutex);

void CONTENDED(__wrap_)(uint32_t *mutex)
{
    CONTENDED(__real_)(mutex);
    __tsan_acquire(mutex);
}

/* `&self` of its Condvar, and the mutex that belongs to it. */
void WAIT(__real_)(uint32_t *condvar, uint32_t *mutex);
void WAIT(__wrap_)(uint32_t *condvar, uint32_t *mutex);

void WAIT(__wrap_)(uint32_t *condvar, uint32_t *mutex)
{
    __tsan_release(mutex);
    WAIT(__real_)(condvar, mutex);
    __tsan_acquire(mutex);
}

/* `&self` of its Once, the two words of the `&mut dyn FnMut` that does it, and where the call is. */
void ONCE(__real_)(uint32_t *once, _Bool poisoned, void *data, void *const *table, const void *place);
void ONCE(__wrap_)(uint32_t *once, _Bool poisoned, void *data, void *const *table, const void *place);

/* Of such a table: how to drop, size, alignment, and the two ways to call. */
enum { CALL_MUT = 4, TABLE };

struct doing {
    uint32_t *once;
    void *data;
    void (*call)(void *data, void *state);
};

static void do_and_tell(void *data, void *state)
{
    struct doing *doing = data;
    doing->call(doing->data, state);
    __tsan_release(doing->once);
}

void ONCE(__wrap_)(uint32_t *once, _Bool poisoned, void *data, void *const *table, const void *place)
{
    struct doing doing = {once, data, (void (*)(void *, void *))table[CALL_MUT]};
    void *told[TABLE] = {table[0], table[1], table[2], table[3], (void *)do_and_tell};
    ONCE(__real_)(once, poisoned, &doing, told, place);
    __tsan_acquire(once);
}

#else

enum { RELAXED = 0, RELEASE = 3 }; /* memory orders as the instrumented code spells them */

extern uint64_t real_tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t value, int order);
extern void real_tsan_atomic_thread_fence(int order);
uint64_t __tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t value, int order);
void __tsan_atomic_thread_fence(int order);

static __thread volatile uint64_t *counted;

uint64_t __tsan_atomic64_fetch_sub(volatile uint64_t *at, uint64_t value, int order)
{
    counted = at;
    return real_tsan_atomic64_fetch_sub(at, value, order);
}

void __tsan_atomic_thread_fence(int order)
{
    real_tsan_atomic_thread_fence(order);
    if (order != RELAXED && order != RELEASE && counted != 0)
        __tsan_acquire((void *)counted);
}

#endif
