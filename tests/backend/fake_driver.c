// SPDX-License-Identifier: MIT
// A CUDA driver for tests: keeps contexts per device and thread, and notes every launch. Runs nothing.
#include <pthread.h>
#include <stdint.h>
#include <string.h>

typedef struct { uint64_t context, function, stream; uint32_t grid[3]; uint64_t first_param; } Launch;

#define MAX_LAUNCHES 65536
static Launch launches[MAX_LAUNCHES];
static int n_launches, n_loads, fail_next;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static __thread uint64_t current;

int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(uint64_t *context, int device) { *context = 0xC000 + device; return 0; }
int cuCtxGetCurrent(uint64_t *context) { *context = current; return 0; }
int cuCtxSetCurrent(uint64_t context) { current = context; return 0; }
int cuModuleLoadData(uint64_t *module, const void *image) { (void)image; *module = current << 16; return 0; }
int cuModuleGetFunction(uint64_t *function, uint64_t module, const char *name) {
    (void)name;
    pthread_mutex_lock(&guard);
    *function = module | (uint64_t)++n_loads;
    pthread_mutex_unlock(&guard);
    return 0;
}
int cuFuncLoad(uint64_t function) { (void)function; return 0; }
int cuGetErrorName(int error, const char **text) { (void)error; *text = "CUDA_ERROR_FAKE"; return 0; }
int cuGetErrorString(int error, const char **text) { (void)error; *text = "asked to fail"; return 0; }
int cuLaunchKernel(uint64_t function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, uint64_t stream, void **params, void **extra) {
    (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    pthread_mutex_lock(&guard);
    int failing = fail_next;
    fail_next = 0;
    if (!failing && n_launches < MAX_LAUNCHES) {
        Launch launch = {current, function, stream, {x, y, z}, 0};
        memcpy(&launch.first_param, params[0], 8);
        launches[n_launches++] = launch;
    }
    pthread_mutex_unlock(&guard);
    return failing;
}

int fake_launches(void) { return n_launches; }
int fake_loads(void) { return n_loads; }
void fake_launch(int i, Launch *out) { *out = launches[i]; }
void fake_fail_next(int error) { fail_next = error; }
void fake_set_current(uint64_t context) { current = context; }
uint64_t fake_current(void) { return current; }
