/* A job that takes all device memory of its last core and is then killed, or that goes on with a
 * second life after it was asked to: what it got is printed, so that the next one can be compared.
 * Breaks when memory or a core of a dead process does not come back.
 *
 * A line "held COUNT of 8 MiB, used BYTES", then it waits for a line or the end of its input: a
 * line means everything once more, the end means to end without a close. */
#include "client.h"
#include "nrt/nrt.h"

enum { MOST = 4096, BLOCK = 8 << 20 };

static nrt_tensor_t *held[MOST];

int main(void)
{
    char line[64];
    do {
        uint32_t cores = 0;
        nrt_vnc_memory_stats_t stats;
        int n = 0;
        NRT_STATUS status = NRT_SUCCESS;
        MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
        MUST_BE(nrt_get_visible_vnc_count(&cores), NRT_SUCCESS);
        while (n < MOST) {
            status = nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, (int)cores - 1, BLOCK, "held", &held[n]);
            if (status != NRT_SUCCESS)
                break;
            MUST_BE(nrt_tensor_write(held[n], &n, BLOCK - sizeof n, sizeof n), NRT_SUCCESS);
            n++;
        }
        MUST_BE(status, NRT_RESOURCE);
        MUST_BE(nrt_get_vnc_memory_stats(cores - 1, &stats, sizeof stats, NULL), NRT_SUCCESS);
        printf("= held %d of 8 MiB, used %zu\n", n, stats.bytes_used);
        fflush(stdout);
        if (fgets(line, sizeof line, stdin) == NULL)
            return 0;
        for (int i = 0; i < n; i += 2)
            nrt_tensor_free(&held[i]);
        nrt_close();
        for (int i = 0; i < n; i++)
            nrt_tensor_free(&held[i]);
    } while (1);
}
