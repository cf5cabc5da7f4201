/* Prints the nanoseconds the first dlopen of a library takes. A process of its own, because a library that is loaded already
 * costs nothing, and in C, because this program must not have loaded the library it compares with. */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

int main(int argc, char **argv)
{
    struct timespec before, after;
    if (argc != 2)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &before);
    void *library = dlopen(argv[1], RTLD_NOW);
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    printf("%lld\n", (after.tv_sec - before.tv_sec) * 1000000000LL + after.tv_nsec - before.tv_nsec);
    return 0;
}
