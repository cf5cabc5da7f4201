/* The two configuration records as a C++ program with the vendor's declarations reads them: real
 * vectors and maps laid over the bytes of opennrt_config_raw. records.inc declares both records
 * from the facts tables and prints every member. */
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "nrt/nrt.h"
#include "nrt/opennrt.h"

enum numerical_error_notification_verbosity_t : uint32_t {};
enum notification_type : uint32_t {};

#define EXPECT(cond)                                                                                                   \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #cond);                                   \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

static std::string show(bool value) { return value ? "1" : "0"; }
static std::string show(uint32_t value) { return std::to_string(value); }
static std::string show(uint64_t value) { return std::to_string(value); }
static std::string show(int64_t value) { return std::to_string(value); }
static std::string show(numerical_error_notification_verbosity_t value) { return std::to_string(value); }
static std::string show(const char *value) { return value ? value : "NULL"; }

template <class List> static std::string joined(const List &list)
{
    std::string text;
    for (auto item : list)
        text += (text.empty() ? "" : ",") + std::to_string(item);
    return text;
}

template <class T, size_t N> static std::string show(const T (&array)[N]) { return joined(array); }
static std::string show(const std::vector<int> &list)
{
    EXPECT(list.capacity() == list.size());
    return joined(std::vector<int>(list));
}

static std::string show(const std::map<notification_type, uint32_t> &map)
{
    std::string text;
    for (const auto &[key, value] : map) {
        EXPECT(map.find(key)->second == value);
        text += (text.empty() ? "" : ",") + std::to_string(key) + ":" + std::to_string(value);
    }
    EXPECT(static_cast<size_t>(std::distance(map.rbegin(), map.rend())) == map.size());
    return text;
}

static std::string show(const cpu_set_t &set)
{
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus.push_back(cpu);
    return joined(cpus);
}

#include "records.inc"

static std::string show(const enc_proxy_histogram_config_t &h)
{
    std::string text = show(h.enable);
    for (size_t number : {h.bucket_usecs, h.num_buckets, h.per_neff_warmup, h.warmup})
        text += " " + std::to_string(number);
    return text + " " + h.output_path;
}

static std::string show(const kbin_fp8_conv_cfg_t &c)
{
    return show(c.fp8_range_extension) + "," + show(c.emax_fp8_e4m3) + "," + show(c.emax_fp8_e5m2) + "," +
           show(c.ocp_sat) + "," + show(c.sis) + "," + show(c.sns);
}

template <class T> static void print(const char *name, const T &member)
{
    std::printf("%s=%s\n", name, show(member).c_str());
}

int main()
{
    const void *cfg_raw, *gcfg_raw;
    size_t cfg_len, gcfg_len;
    EXPECT(opennrt_config_raw(&cfg_raw, &cfg_len, &gcfg_raw, &gcfg_len) == NRT_SUCCESS);
    EXPECT(cfg_len == sizeof(nrt_config_t) && gcfg_raw == nullptr && gcfg_len == 0);
    const auto &cfg = *static_cast<const nrt_config_t *>(cfg_raw);
    EXPECT(cfg.visible_virtual_cores.empty() && cfg.dbg_cc_dma_packet_size.empty());
    EXPECT(cfg.profile_buf_sizes.empty() && cfg.profile_buf_sizes.begin() == cfg.profile_buf_sizes.end());
    EXPECT(!cfg.funtime && cfg.cc_root_comm_id == nullptr && cfg.sim_debug_flags == 0);

    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_SUCCESS);
    EXPECT(opennrt_config_raw(&cfg_raw, &cfg_len, &gcfg_raw, &gcfg_len) == NRT_SUCCESS);
    EXPECT(&cfg == cfg_raw && gcfg_raw != nullptr && gcfg_len == sizeof(nrt_global_config_t));
    const auto &gcfg = *static_cast<const nrt_global_config_t *>(gcfg_raw);

    uint32_t visible = 0;
    nrt_instance_info_t info;
    EXPECT(nrt_get_visible_vnc_count(&visible) == NRT_SUCCESS);
    EXPECT(visible == cfg.visible_virtual_cores.size());
    EXPECT(nrt_get_instance_info(&info, sizeof info) == NRT_SUCCESS);
    EXPECT(info.family == cfg.fake_family && info.size == cfg.fake_size);
    print_all(cfg, gcfg);
    nrt_close();
    return 0;
}
