# SPDX-License-Identifier: MIT
"""The C contract as Python declares it; the numbers are those of rust/src/contract.rs."""

from __future__ import annotations

ABI_VERSION = 1

# The fixed functions. Typed exports (`cutile_<kernel>`) are declared one by one on demand: all at once costs 80 ms.
CDEF = """
typedef struct { uint64_t ptr; int32_t ndim; int64_t shape[5]; int64_t strides[5]; int32_t dtype; } TensorDesc;
int32_t cutile_abi_version(void);
const char* cutile_build_id(void);
const char* cutile_describe(void);
const char* cutile_header(void);
int64_t cutile_last_error(char* buf, int64_t cap);
int64_t cutile_spec(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const int32_t* constants,
    int32_t n_constants, int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps);
int64_t cutile_spec_text(int64_t token, char* buf, int64_t cap);
int32_t cutile_emit(int64_t token, const char* arch, uint8_t** out, int64_t* len);
void cutile_free(uint8_t* p, int64_t len);
int32_t cutile_load(int64_t token, int32_t device, const uint8_t* cubin, int64_t len);
int32_t cutile_loaded(int64_t token, int32_t device);
int32_t cutile_plan(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const uint64_t* scalars,
    int32_t n_scalars, const int32_t* constants, int32_t n_constants, int32_t grid_x, int32_t grid_y, int32_t grid_z,
    int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps, int32_t device_id, void** plan);
int32_t cutile_run_plan(const void* plan, uint64_t raw_stream, uint64_t p0, uint64_t p1, uint64_t p2, uint64_t p3);
int32_t cutile_run_plan_array(const void* plan, uint64_t raw_stream, const uint64_t* pointers, int32_t n_pointers,
    const uint64_t* scalars, int32_t n_scalars);
void cutile_plan_free(void* plan);
"""

RC_MEANING = {
    1: "the kernel is not loaded",
    -2: "unsupported dtype or enum value",
    -3: "launch or compile error",
    -4: "device or stream error",
    -5: "null descriptor",
    -6: "invalid arguments",
    -7: "panic caught in the library",
}
