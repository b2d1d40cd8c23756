/* A stand-in for libnvidia-ml.so.1, compiled by the tests. The environment says how it behaves:
 *   FAKE_NVML=normal|mig|mixed   two GPUs (default), the second with two MIG instances, or two GPUs of different models
 *   FAKE_NVML_FAIL=CALL:CODE[@GPU],...   these calls return that error (CALL without "nvml", "Device", "Get")
 *   FAKE_NVML_BLOCK=CALL[@GPU]           this call never returns: a sleep loop deaf to all that can be ignored
 *   FAKE_NVML_STUCK=CALL[@GPU]           this call never returns and sits in state D (in vfork; only SIGKILL ends it)
 *   FAKE_NVML_CRASH=CALL[@GPU]           this call dies of SIGSEGV
 *   FAKE_NVML_PIDS=PID,PID               the processes on GPU 0 (default: none); the first one's 5 GiB are told, the others' not
 *   FAKE_NVML_USERS=FILE                 the same, as they come and go: lines of PID and MiB
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, INVALID = 2 };

/* A handle points here; MIG instances are devices 2 and 3. */
typedef struct { int index; } Device;
static Device devices[4] = {{0}, {1}, {2}, {3}};
#define GIB (1024ULL * 1024 * 1024)

static int mode_is(const char *name) {
    const char *mode = getenv("FAKE_NVML");
    return mode && strcmp(mode, name) == 0;
}

/* Is `call` on `gpu` (-1: the system) named in the list that this variable holds? The error code after ':' goes to *code. */
static int named(const char *variable, const char *call, int gpu, int *code) {
    const char *list = getenv(variable);
    char copy[1024], *rest = copy, *word;
    if (!list) return 0;
    snprintf(copy, sizeof copy, "%s", list);
    while ((word = strsep(&rest, ","))) {
        char *at = strchr(word, '@'), *colon = strchr(word, ':');
        int only = at ? atoi(at + 1) : -1;
        if (at) *at = 0;
        if (colon) { *colon = 0; if (code) *code = atoi(colon + 1); }
        if (strcmp(word, call) == 0 && (only < 0 || only == gpu)) return 1;
    }
    return 0;
}

static int enter(const char *call, int gpu) {
    int code = OK;
    if (named("FAKE_NVML_CRASH", call, gpu, NULL)) raise(SIGSEGV);
    if (named("FAKE_NVML_BLOCK", call, gpu, NULL)) {
        for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
        for (;;) sleep(1);
    }
    if (named("FAKE_NVML_STUCK", call, gpu, NULL) && vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) sleep(1);
    }
    return named("FAKE_NVML_FAIL", call, gpu, &code) ? code : OK;
}

#define ENTER(call, gpu) do { int refused = enter(call, gpu); if (refused) return refused; } while (0)
#define WHOLE_GPU(d) do { if ((d)->index >= 2) return NOT_SUPPORTED; } while (0)

int nvmlInitWithFlags(unsigned flags) {
    puts("a library may print what it likes");
    fflush(stdout);
    ENTER("Init", -1);
    return OK;
}

int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return "a fake error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) { ENTER("DriverVersion", -1); snprintf(out, size, "580.01"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER("CudaDriverVersion", -1); *out = 13010; return OK; }

int nvmlDeviceGetCount_v2(unsigned *out) { ENTER("Count", -1); *out = mode_is("none") ? 0 : 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **out) {
    ENTER("Handle", (int)index);
    if (index > 1) return INVALID;
    *out = &devices[index];
    return OK;
}

int nvmlDeviceGetUUID(Device *d, char *out, unsigned size) {
    ENTER("UUID", d->index);
    const char *uuids[] = {"GPU-aaaaaaaa-0000", "GPU-aabbbbbb-1111", "MIG-cccccccc-2222", "MIG-dddddddd-3333"};
    snprintf(out, size, "%s", uuids[d->index]);
    return OK;
}

int nvmlDeviceGetName(Device *d, char *out, unsigned size) {
    ENTER("Name", d->index);
    const char *model = d->index >= 2 ? "NVIDIA Fake MIG 1g.10gb" : d->index == 1 && mode_is("mixed") ? "NVIDIA Other" : "NVIDIA Fake";
    snprintf(out, size, "%s", model);
    return OK;
}

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;

int nvmlDeviceGetMemoryInfo(Device *d, Memory *out) {
    ENTER("MemoryInfo", d->index);
    out->total = (d->index >= 2 ? 10 : 80) * GIB;
    out->used = (d->index + 2) * GIB; /* with the reserved one */
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory2 *out) {
    ENTER("MemoryInfo", d->index);
    ENTER("MemoryInfo_v2", d->index);
    out->total = (d->index >= 2 ? 10 : 80) * GIB;
    out->used = (d->index + 1) * GIB;
    return OK;
}

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;

int nvmlDeviceGetPciInfo_v3(Device *d, Pci *out) {
    ENTER("PciInfo", d->index);
    memset(out, 0, sizeof *out);
    out->bus = d->index == 0 ? 0x3b : 0x86;
    return OK;
}

typedef struct { unsigned gpu, memory; } Rates;

int nvmlDeviceGetUtilizationRates(Device *d, Rates *out) {
    ENTER("UtilizationRates", d->index);
    WHOLE_GPU(d);
    if (mode_is("mig") && d->index == 1) return NOT_SUPPORTED;
    out->gpu = 90 - d->index; out->memory = 40;
    return OK;
}

int nvmlDeviceGetPowerUsage(Device *d, unsigned *out) { ENTER("PowerUsage", d->index); WHOLE_GPU(d); *out = 350500; return OK; }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *out) { ENTER("EnforcedPowerLimit", d->index); WHOLE_GPU(d); *out = 700000; return OK; }

/* As an old driver: no nvmlDeviceGetTemperatureV here. */
int nvmlDeviceGetTemperature(Device *d, int sensor, unsigned *out) { ENTER("Temperature", d->index); WHOLE_GPU(d); *out = 61; return OK; }

int nvmlDeviceGetCurrentClocksEventReasons(Device *d, unsigned long long *out) {
    ENTER("CurrentClocksEventReasons", d->index);
    WHOLE_GPU(d);
    *out = d->index == 0 ? 0x1 : 0x8 | 0x40; /* idle; hardware slowdown because of heat */
    return OK;
}

int nvmlDeviceGetTotalEccErrors(Device *d, int type, int counter, unsigned long long *out) {
    ENTER("TotalEccErrors", d->index);
    WHOLE_GPU(d);
    *out = type == 1 ? 0 : 3;
    return OK;
}

typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;

static void users_of(const char *path, unsigned room, unsigned *count, Process *out) {
    FILE *file = fopen(path, "r");
    unsigned pid, mib;
    while (file && fscanf(file, "%u %u", &pid, &mib) == 2) {
        if (out && *count < room) { out[*count].pid = pid; out[*count].used = mib * 1024ULL * 1024; }
        ++*count;
    }
    if (file) fclose(file);
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *count, Process *out) {
    ENTER("ComputeRunningProcesses", d->index);
    const char *users = getenv("FAKE_NVML_USERS");
    const char *pids = getenv("FAKE_NVML_PIDS");
    unsigned room = *count;
    char copy[256], *rest = copy, *word;
    *count = 0;
    if (users && d->index == 0) users_of(users, room, count, out);
    if (users) return out || *count == 0 ? OK : INSUFFICIENT_SIZE;
    if (!pids || d->index != 0) return OK;
    snprintf(copy, sizeof copy, "%s", pids);
    while ((word = strsep(&rest, ","))) {
        if (out && *count < room) {
            out[*count].pid = (unsigned)atoi(word);
            out[*count].used = *count == 0 ? 5 * GIB : ~0ULL; /* the second one's is not told */
        }
        ++*count;
    }
    return out ? OK : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *d, unsigned *count, Process *out) {
    ENTER("GraphicsRunningProcesses", d->index);
    *count = 0;
    return OK;
}

int nvmlDeviceGetMigMode(Device *d, unsigned *current, unsigned *pending) {
    ENTER("MigMode", d->index);
    if (!mode_is("mig")) return NOT_SUPPORTED;
    *current = *pending = d->index == 1;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *out) { ENTER("MaxMigDeviceCount", d->index); *out = 7; return OK; }

int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned index, Device **out) {
    ENTER("MigDeviceHandle", (int)index);
    if (index != 0 && index != 3) return NOT_FOUND; /* the slots are sparse */
    *out = &devices[index == 0 ? 2 : 3];
    return OK;
}
