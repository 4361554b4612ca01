/* Runs packs (kfuse pack) from C: libkfuse_runtime needs libc and libm, and for GPUs the NVIDIA driver, which it opens
 * with dlopen. C11. A pack is code: open those that you would run as programs.
 *
 * Functions return KFR_OK or what went wrong, and then write one line to `error`, which is the caller's and may be
 * null. Results are written through the last pointer before it. Nothing is thrown, printed or ended.
 *
 * What is made holds what it was made of: release in any order, each once; null is fine. Packs, programs and weights do
 * not change and may be shared by threads; a session is used by one thread at a time.
 *
 * Structs but kfr_binding begin with their size, so that programs made with this header work with later libraries of
 * the same major version, whose structs may have more at the end.
 *
 * On a GPU all is in the device's primary context, which the CUDA runtime uses, too: streams are of that context. Never
 * write to the file of a pack that is open: replace it by renaming another. */
#ifndef KFUSE_RUNTIME_H
#define KFUSE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KFR_VERSION_MAJOR 1
#define KFR_VERSION_MINOR 1

#define KFR_API __attribute__((visibility("default")))

/* The numbers are the exit statuses of kfuse's commands. */
typedef enum {
  KFR_OK = 0,
  KFR_USAGE = 2,         /* a wrong argument */
  KFR_BAD_PACK = 3,      /* no pack, damaged, or of another version */
  KFR_NO_DEVICE = 4,     /* the device or its driver is missing, or the pack has nothing for it */
  KFR_OUT_OF_MEMORY = 7, /* of the host or the device */
  KFR_IO = 8,            /* a file cannot be read */
  KFR_INTERNAL = 70      /* a bug */
} kfr_code;

typedef struct {
  size_t struct_size; /* sizeof(kfr_error), set by the caller */
  kfr_code code;
  char message[512];
} kfr_error;

/* Two integers of 4 bits share a byte, the first in its low half; a row ends with its byte. */
typedef enum {
  KFR_F32,
  KFR_F16,
  KFR_BF16,
  KFR_I32,
  KFR_I64,
  KFR_BOOL,
  KFR_F8E4M3,
  KFR_F8E5M2,
  KFR_I8,
  KFR_U8,
  KFR_I4,
  KFR_U4
} kfr_type;

/* Inputs are new in each run; parameters are fixed between runs; states are updated in place. */
typedef enum { KFR_INPUT, KFR_PARAMETER, KFR_STATE, KFR_OUTPUT } kfr_role;

/* Dense and row-major. Where runs give lengths, shape and bytes are the largest: kfr_shape() has others. */
typedef struct {
  size_t struct_size;
  const char *name;
  kfr_type type;
  size_t rank;
  const int64_t *shape;
  size_t bytes;
  int in_pack; /* of a parameter: its bytes are in the pack, or in the safetensors file that the pack names */
  int state;   /* of an output: the state that it is after its update in place, or -1 */
} kfr_tensor;

/* A size that each run gives, from low to high. */
typedef struct {
  size_t struct_size;
  const char *name;
  int64_t low;
  int64_t high;
} kfr_dim;

typedef struct kfr_pack kfr_pack;
typedef struct kfr_program kfr_program;
typedef struct kfr_weights kfr_weights;
typedef struct kfr_session kfr_session;

KFR_API uint32_t kfr_version(void); /* the library's: major << 16 | minor */

/* A file, which is mapped; or bytes that stay the caller's and outlive the pack. */
KFR_API kfr_code kfr_open(const char *path, kfr_pack **pack, kfr_error *error);
KFR_API kfr_code kfr_open_memory(const void *bytes, size_t size, kfr_pack **pack, kfr_error *error);
KFR_API void kfr_pack_release(kfr_pack *pack);

#define KFR_AUTO (-2) /* GPU 0 if there is one that the pack has code for, else the CPU */
#define KFR_CPU (-1)

typedef struct {
  size_t struct_size;
  int device;          /* KFR_AUTO, KFR_CPU, or the ordinal of a CUDA device */
  int threads;         /* of the CPU, up to 1024; 0: one for each processor */
  const char *variant; /* the target or the SKU of the code to take, null: $KFUSE_VARIANT, else the best */
  /* Since 1.1: */
  const char *weights; /* a safetensors file of parameters in place of the one that the pack names; null: that one */
  int check_weights;   /* not 0: the SHA-256 of each has to be the pack's, which takes 3 s a GB */
} kfr_load_options;

/* Chooses the code for the device, checks its seals and loads it. `options` null: KFR_AUTO. */
KFR_API kfr_code kfr_load(kfr_pack *pack, const kfr_load_options *options, kfr_program **program, kfr_error *error);
KFR_API void kfr_program_release(kfr_program *program);
KFR_API const char *kfr_target(const kfr_program *program); /* what the code was made for: "sm_90a for NVIDIA H200" */
KFR_API int kfr_device(const kfr_program *program);         /* KFR_CPU or the ordinal */

KFR_API size_t kfr_count(const kfr_program *program, kfr_role role);
/* Null where there is none. They live as long as the program. */
KFR_API const kfr_tensor *kfr_tensor_at(const kfr_program *program, kfr_role role, size_t index);
KFR_API const kfr_tensor *kfr_tensor_named(const kfr_program *program, kfr_role role, const char *name);

/* Sizes that each run gives, and a tensor's shape in a run of these lengths; `shape` has room for its rank. Null, and
 * 0, where all are fixed. */
KFR_API size_t kfr_dim_count(const kfr_program *program);
KFR_API const kfr_dim *kfr_dim_at(const kfr_program *program, size_t index);
KFR_API kfr_code kfr_shape(const kfr_program *program, kfr_role role, size_t index, const int64_t *lengths,
                           size_t count, int64_t *shape, kfr_error *error);

/* Memory of the device, aligned to 256 bytes, until kfr_free() or the program and what is made of it are released;
 * copies that have ended when they return. Other memory of the device, 16-byte aligned, does as well wherever a pointer
 * is taken. */
KFR_API kfr_code kfr_allocate(kfr_program *program, size_t bytes, void **memory, kfr_error *error);
KFR_API void kfr_free(kfr_program *program, void *memory);
KFR_API kfr_code kfr_upload(kfr_program *program, void *device, const void *host, size_t bytes, kfr_error *error);
KFR_API kfr_code kfr_download(kfr_program *program, void *host, const void *device, size_t bytes, kfr_error *error);
KFR_API kfr_code kfr_synchronize(kfr_program *program, void *stream, kfr_error *error); /* a CUstream; null: default */

typedef struct {
  const char *name;
  const void *data; /* of the device */
  size_t bytes;     /* must be the tensor's */
} kfr_binding;

/* Prepares parameters, which stay the caller's and in place: many are used where they are. Those that are not among the
 * `count` bindings come from the pack, or from the safetensors file. It works on the default stream and waits for it:
 * uploads on others must have ended. */
KFR_API kfr_code kfr_prepare(kfr_program *program, const kfr_binding *parameters, size_t count, kfr_weights **weights,
                             kfr_error *error);
KFR_API void kfr_weights_release(kfr_weights *weights);

/* What a session needs for values between kernels; and a session in that memory (256-byte aligned, the caller's, it
 * outlives the session), or with `memory` null in memory of its own. Its kernels are loaded anew, a few megabytes. One
 * for each stream. */
KFR_API size_t kfr_session_bytes(const kfr_program *program);
KFR_API kfr_code kfr_session_new(kfr_weights *weights, void *memory, size_t bytes, kfr_session **session,
                                 kfr_error *error);
KFR_API void kfr_session_release(kfr_session *session);

/* Sets the memory of an input, which is only read, a state or an output for the runs to come. An output that is a state
 * needs none. Of inputs and outputs that follow lengths it is enough for those of the runs; a state is always whole. */
KFR_API kfr_code kfr_bind(kfr_session *session, kfr_role role, const char *name, void *memory, size_t bytes,
                          kfr_error *error);
KFR_API kfr_code kfr_bind_at(kfr_session *session, kfr_role role, size_t index, void *memory, size_t bytes,
                             kfr_error *error);

/* Enqueues a run on a CUstream, null: the default one. On the CPU it has ended when this returns. Inside a capture of
 * the stream its launches are recorded. */
KFR_API kfr_code kfr_run(kfr_session *session, void *stream, kfr_error *error);

/* The same where runs give lengths, those of kfr_dim_at() in order. What follows them is dense in their shapes at the
 * beginning of its memory; nothing behind is read or written. Of a state the first sequences are those of a run. */
KFR_API kfr_code kfr_run_lengths(kfr_session *session, void *stream, const int64_t *lengths, size_t count,
                                 kfr_error *error);

#ifdef __cplusplus
}
#endif

#endif
