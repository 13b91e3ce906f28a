/* Version of this interface; 1. */
int32_t cutile_abi_version(void);
/* The id that the build was given (CUTILE_BUILD_ID), or "dev". */
const char* cutile_build_id(void);
/* Every kernel's parameters, generics and C declaration, as JSON. */
const char* cutile_describe(void);
/* The text of this file. */
const char* cutile_header(void);
/* Text of this thread's last negative code: returns its length, writes at most cap bytes with the final NUL. */
int64_t cutile_last_error(char* buf, int64_t cap);

/* Specialization -> token >= 0, or a negative code. constants: dtype codes of free type generics, int and bool
   const generics, in declaration order. Hints <= 0 are the compiler's default. Launches nothing, needs no GPU. */
int64_t cutile_spec(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const int32_t* constants,
                    int32_t n_constants, int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps);
/* One stable line that names all that decides the bytecode besides the library's sources and the arch.
   Returns its length, writes at most cap bytes with the final NUL. */
int64_t cutile_spec_text(int64_t token, char* buf, int64_t cap);
/* Tile IR bytecode 13.4 for arch ("sm_90"); a pure function of token and arch. Free with cutile_free. */
int32_t cutile_emit(int64_t token, const char* arch, uint8_t** out, int64_t* len);
void cutile_free(uint8_t* p, int64_t len);
/* Loads the assembled image into the device's primary context; a second call for the same pair does nothing. */
int32_t cutile_load(int64_t token, int32_t device, const uint8_t* cubin, int64_t len);
/* 1 loaded, 0 not, or a negative code. */
int32_t cutile_loaded(int64_t token, int32_t device);

/* An immutable launch: shapes, strides, scalars, constants, grid, hints, device. 0 and *plan, 1 when the
   specialization is not loaded on device_id, or a negative code. Any thread may run a plan; free it once. */
int32_t cutile_plan(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const uint64_t* scalars,
                    int32_t n_scalars, const int32_t* constants, int32_t n_constants, int32_t grid_x, int32_t grid_y,
                    int32_t grid_z, int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps,
                    int32_t device_id, void** plan);
/* Pointers in parameter order, unused ones 0; for plans of at most 4 tensors. 1 when a pointer is 16-byte
   aligned where the plan's was not, or the reverse. */
int32_t cutile_run_plan(const void* plan, uint64_t raw_stream, uint64_t p0, uint64_t p1, uint64_t p2, uint64_t p3);
/* scalars NULL: the plan's own. */
int32_t cutile_run_plan_array(const void* plan, uint64_t raw_stream, const uint64_t* pointers, int32_t n_pointers,
                              const uint64_t* scalars, int32_t n_scalars);
void cutile_plan_free(void* plan);

/* For tests: panics inside, returns CUTILE_PANIC. */
int32_t cutile_test_panic(void);
