/* Every name under its version node, and what a program sees that loads the library twice: first
 * by its full path, then, without a library path, by its SONAME (report B04). */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct entry {
    const char *name;
    const char *node;
};

static const struct entry entries[] = {
#define SYMBOL(name, node) {#name, node},
#include "symbols.inc"
#undef SYMBOL
};

static int fail(const char *what, const char *detail) {
    fprintf(stderr, "%s: %s\n", what, detail ? detail : "no detail");
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return fail("usage", "dlopen_dlvsym FULL_PATH");
    }
    if (dlopen("libnrt.so.1", RTLD_NOW) != NULL) {
        return fail("libnrt.so.1 was found before anybody loaded it", "unset LD_LIBRARY_PATH");
    }
    void *full = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (full == NULL) {
        return fail("full path", dlerror());
    }
    void *soname = dlopen("libnrt.so.1", RTLD_NOW);
    if (soname == NULL) {
        return fail("SONAME", dlerror());
    }
    if (soname != full) {
        return fail("SONAME", "another handle than the full path");
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *versioned = dlvsym(full, entries[i].name, entries[i].node);
        if (versioned == NULL) {
            return fail(entries[i].node, dlerror());
        }
        if (dlsym(full, entries[i].name) != versioned) {
            return fail(entries[i].name, "the default version is another one");
        }
        /* A name in a node it does not belong to would hide a wrong map. */
        const char *other = strcmp(entries[i].node, "NRT_3.0.0") == 0 ? "NRT_2.0.0" : "NRT_3.0.0";
        if (dlvsym(full, entries[i].name, other) != NULL) {
            return fail(entries[i].name, "is in two nodes");
        }
    }

    /* Other threads may be inside the library when the last handle goes: it must stay mapped, and
     * come back at the same address. */
    void *before = dlvsym(full, "nrt_get_version", "NRT_2.0.0");
    for (int cycle = 0; cycle < 3; cycle++) {
        dlclose(soname);
        dlclose(full);
        Dl_info info;
        if (dladdr(before, &info) == 0) {
            return fail("dlclose", "the library was unmapped");
        }
        full = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
        soname = dlopen("libnrt.so.1", RTLD_NOW);
        if (full == NULL || soname != full || dlvsym(full, "nrt_get_version", "NRT_2.0.0") != before) {
            return fail("dlopen after dlclose", "another library");
        }
    }
    printf("%zu\n", sizeof(entries) / sizeof(entries[0]));
    return 0;
}
