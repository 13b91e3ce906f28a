// SPDX-License-Identifier: MIT
// The C interface from C: error codes, a cold call, and the bytecode that a cold caller would assemble.
// No driver is needed: nothing is loaded or launched.
#include "cutile_kernels.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[4096];

static const char *last_error(void) {
    cutile_last_error(text, sizeof text);
    return text;
}

#define EXPECT(condition)                                                                                   \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, last_error()); \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

static int32_t call(const TensorDesc *out, const TensorDesc *x, int32_t block, int32_t grid, int32_t hint) {
    return cutile_softmax_rows(out, x, 4, block, 1, grid, 1, 1, hint, hint, hint, 0, 0);
}

int main(void) {
    TensorDesc x = {.ptr = 4096, .ndim = 2, .shape = {64, 1000}, .strides = {1000, 1}, .dtype = CUTILE_DTYPE_F16};
    TensorDesc out = x, bad = x;

    EXPECT(cutile_abi_version() == CUTILE_ABI);
    EXPECT(strlen(cutile_build_id()) > 0);
    EXPECT(strstr(cutile_describe(), "\"softmax_rows\""));
    EXPECT(strstr(cutile_header(), "int32_t cutile_softmax_rows("));

    EXPECT(call(NULL, &x, 1024, 64, 0) == CUTILE_NULL);
    EXPECT(!strcmp(last_error(), "softmax_rows: out: null descriptor"));
    bad.dtype = 14;
    EXPECT(call(&out, &bad, 1024, 64, 0) == CUTILE_UNSUPPORTED);
    EXPECT(strstr(last_error(), "unknown dtype code 14"));
    bad = x;
    bad.ndim = 3;
    EXPECT(call(&out, &bad, 1024, 64, 0) == CUTILE_INVALID);
    bad = x;
    bad.shape[1] = (int64_t)1 << 31;
    EXPECT(call(&out, &bad, 1024, 64, 0) == CUTILE_INVALID);
    EXPECT(strstr(last_error(), "x: extent 2147483648 of axis 1"));
    EXPECT(call(&out, &x, 1024, 0, 0) == CUTILE_OK); // an empty grid
    EXPECT(cutile_test_panic() == CUTILE_PANIC);

    // Cold: the call says so; the specialization has a token; its bytecode is the same for each way to say "default".
    EXPECT(call(&out, &x, 1024, 64, 0) == CUTILE_NOT_LOADED);
    const TensorDesc *descs[] = {&out, &x};
    const int32_t constants[] = {4, 1024, 1};
    int64_t token = cutile_spec("softmax_rows", descs, 2, constants, 3, 0, 0, 0);
    EXPECT(token >= 0);
    EXPECT(cutile_spec("softmax_rows", descs, 2, constants, 3, -1, -1, -1) == token);
    EXPECT(cutile_spec("softmax_rows", descs, 2, constants, 3, 0, 4, 0) != token);
    EXPECT(cutile_loaded(token, 0) == 0);

    int64_t length = cutile_spec_text(token, text, sizeof text);
    EXPECT(length == (int64_t)strlen(text) && strstr(text, "softmax_rows [E=f16 ROWS=4 BLOCK=1024 TMA=true]"));
    printf("%s\n", text);

    uint8_t *bytecode = NULL;
    int64_t size = 0;
    EXPECT(cutile_emit(token, "sm_90", &bytecode, &size) == CUTILE_OK);
    EXPECT(size > 100 && !memcmp(bytecode, "\x7fTileIR", 8));
    printf("%lld bytes of Tile IR\n", (long long)size);
    EXPECT(cutile_load(token, 0, bytecode, size) == CUTILE_INVALID); // not assembled
    EXPECT(strstr(last_error(), "not a complete cubin"));
    cutile_free(bytecode, size);

    void *plan = NULL;
    EXPECT(cutile_plan("softmax_rows", descs, 2, NULL, 0, constants, 3, 64, 1, 1, 0, 0, 0, 0, &plan) == CUTILE_NOT_LOADED);
    EXPECT(plan == NULL);
    EXPECT(cutile_plan("softmax_rows", descs, 2, NULL, 0, constants, 3, 0, 1, 1, 0, 0, 0, 0, &plan) == CUTILE_OK);
    EXPECT(cutile_run_plan(plan, 0, 4096, 4096, 0, 0) == CUTILE_OK); // an empty grid again
    cutile_plan_free(plan);
    puts("ok");
    return 0;
}
