/* What the programs of this folder share: they say where they stopped and end with 1 there, and
 * fill buffers so that bytes of another place or another round do not match. None of them names a
 * backend: the environment they are started with does. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* _exit: a thread that gives up must not run the handlers a program here is about. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(2, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);                                        \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

#define MUST_BE(have, want)                                                                                            \
    do {                                                                                                               \
        long long have_ = (long long)(have), want_ = (long long)(want);                                                \
        if (have_ != want_) {                                                                                          \
            dprintf(2, "%s:%d: %s is %lld, expected %s = %lld\n", __FILE__, __LINE__, #have, have_, #want, want_);     \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

static inline unsigned char client_byte(uint64_t seed, size_t at)
{
    return (unsigned char)(seed * 0x9d + at * 31 + (at >> 8) + (at >> 16) * 7);
}

static inline void client_fill(void *bytes, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at++)
        ((unsigned char *)bytes)[at] = client_byte(seed, at);
}

static inline int client_holds(const void *bytes, size_t size, uint64_t seed)
{
    for (size_t at = 0; at < size; at++)
        if (((const unsigned char *)bytes)[at] != client_byte(seed, at))
            return 0;
    return 1;
}

#endif
