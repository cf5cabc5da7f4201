/* Calls every function with all arguments 0 before nrt_init and prints what it answers, as the
 * whole return register: the test knows how much of it means something. */
#include <stdio.h>

#include "all_headers.inc"

typedef unsigned long (*any_function)(long, long, long, long, long, long, long, long, long);

struct entry {
    const char *name;
    void (*address)(void);
};

static const struct entry entries[] = {
#define SYMBOL(name, node) {#name, (void (*)(void))name},
#include "symbols.inc"
#undef SYMBOL
};

int main(void) {
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        any_function call = (any_function)entries[i].address;
        printf("%s %lu\n", entries[i].name, call(0, 0, 0, 0, 0, 0, 0, 0, 0));
        fflush(stdout);
    }
    return 0;
}
