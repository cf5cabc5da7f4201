/* Touches every public function through a versioned reference. Run with LD_BIND_NOW=1, the loader
 * refuses to start this program when one of them is missing (report B02). */
#include <stdio.h>

#include "all_headers.inc"

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
    size_t count = sizeof(entries) / sizeof(entries[0]);
    for (size_t i = 0; i < count; i++) {
        if (entries[i].address == NULL) {
            fprintf(stderr, "%s has no address\n", entries[i].name);
            return 1;
        }
    }
    printf("%zu\n", count);
    return 0;
}
