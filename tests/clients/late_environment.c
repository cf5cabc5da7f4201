/* A launcher's worker: the library is loaded and has been asked for counts long before the worker
 * learns which cores are its own, and sets the variables just before nrt_init. Breaks when the
 * environment is read at load, when a first answer is kept, and when a later nrt_init does not
 * look again. */
#include "client.h"
#include "nrt/nrt.h"

static uint32_t count(NRT_STATUS (*of)(uint32_t *))
{
    uint32_t n = 0;
    MUST_BE(of(&n), NRT_SUCCESS);
    return n;
}

/* Up with so many cores, numbered from 0, and none behind them. */
static void cycle(uint32_t total, uint32_t visible)
{
    nrt_tensor_t *tensor = NULL;
    unsigned char byte = 7, back = 0;
    MUST_BE(count(nrt_get_visible_vnc_count), visible);
    MUST_BE(nrt_init(NRT_FRAMEWORK_TYPE_PYTORCH, "2.9", ""), NRT_SUCCESS);
    MUST_BE(count(nrt_get_total_vnc_count), total);
    MUST_BE(count(nrt_get_visible_vnc_count), visible);
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, (int)visible - 1, 64, "t", &tensor), NRT_SUCCESS);
    MUST_BE(nrt_tensor_write(tensor, &byte, 63, 1), NRT_SUCCESS);
    MUST_BE(nrt_tensor_read(tensor, &back, 63, 1), NRT_SUCCESS);
    MUST_BE(back, byte);
    nrt_tensor_free(&tensor);
    MUST_BE(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, (int)visible, 64, "t", &tensor), NRT_INVALID);

    /* What is set now is for the next time. */
    const char *was = getenv("NEURON_RT_VISIBLE_CORES");
    char *kept = was != NULL ? strdup(was) : NULL;
    setenv("NEURON_RT_VISIBLE_CORES", visible == 1 ? "0-1" : "0", 1);
    MUST_BE(count(nrt_get_visible_vnc_count), visible);
    if (kept != NULL)
        setenv("NEURON_RT_VISIBLE_CORES", kept, 1);
    else
        unsetenv("NEURON_RT_VISIBLE_CORES");
    free(kept);
    nrt_close();
}

int main(void)
{
    nrt_instance_info_t info;
    uint32_t all = count(nrt_get_total_vnc_count);
    MUST_BE(count(nrt_get_visible_vnc_count), all);
    MUST_BE(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
    MUST(all >= 2);

    setenv("NEURON_RT_NUM_CORES", "1", 1);
    cycle(all, 1);
    setenv("NEURON_RT_VISIBLE_CORES", "0-1", 1);
    cycle(all, 2);
    setenv("NEURON_RT_VISIBLE_CORES", "1", 1);
    cycle(all, 1);
    unsetenv("NEURON_RT_VISIBLE_CORES");
    unsetenv("NEURON_RT_NUM_CORES");
    cycle(all, all);

    /* Trn1 and Inf2 know no core size but 1; the later ones group two by default. */
    int grouped = info.family != NRT_INSTANCE_TRN1 && info.family != NRT_INSTANCE_TRN1N &&
                  info.family != NRT_INSTANCE_INF2 && info.family != NRT_INSTANCE_INF2E;
    uint32_t single = grouped ? 2 * all : all;
    setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
    cycle(single, single);
    setenv("NEURON_RT_VISIBLE_CORES", "0-1", 1);
    cycle(single, 2);
    if (grouped) {
        setenv("NEURON_LOGICAL_NC_CONFIG", "2", 1);
        cycle(all, 2);
    }
    return 0;
}
