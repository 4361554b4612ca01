/* Runs a model that is in this program twice, as C source (first.c) and as an object (second.o): emitted FOLDER. Reads
 * NAME.bin of ffn_tiny's tensors from FOLDER and writes y.first and y.second. */
#include "first.h"
#include "second.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Alignas(256) unsigned char session_memory[FIRST_SESSION_BYTES];
static const int64_t shape[FIRST_X_RANK] = FIRST_X_SHAPE;

static kfr_error error = {.struct_size = sizeof error};

static void check(kfr_code code) {
  if (code == KFR_OK)
    return;
  fprintf(stderr, "emitted: %s\n", error.message);
  exit(code);
}

static FILE *open_file(const char *folder, const char *name, const char *mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, mode);
  if (!file)
    exit(KFR_IO);
  return file;
}

static void *read_tensor(const char *folder, const char *name, size_t bytes) {
  void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
  FILE *file = open_file(folder, name, "rb");
  if (!memory || fread(memory, 1, bytes, file) != bytes)
    exit(KFR_IO);
  fclose(file);
  return memory;
}

/* The same functions under two names. */
#define DEFINE_RUN(name, NAME, session_bytes)                                                                          \
  static void run_##name(const char *folder) {                                                                         \
    kfr_program *program = NULL;                                                                                       \
    kfr_weights *weights = NULL;                                                                                       \
    kfr_session *session = NULL;                                                                                       \
    const kfr_load_options options = {.struct_size = sizeof options, .device = KFR_CPU};                               \
    check(name##_load(&options, &program, &error));                                                                    \
    const name##_parameters parameters = {                                                                             \
        .up_weight = read_tensor(folder, "up.weight.bin", NAME##_UP_WEIGHT_BYTES),                                     \
        .up_bias = read_tensor(folder, "up.bias.bin", NAME##_UP_BIAS_BYTES),                                           \
        .down_weight = read_tensor(folder, "down.weight.bin", NAME##_DOWN_WEIGHT_BYTES),                               \
        .down_bias = read_tensor(folder, "down.bias.bin", NAME##_DOWN_BIAS_BYTES),                                     \
        .norm_weight = read_tensor(folder, "norm.weight.bin", NAME##_NORM_WEIGHT_BYTES),                               \
        .norm_bias = read_tensor(folder, "norm.bias.bin", NAME##_NORM_BIAS_BYTES)};                                    \
    check(name##_prepare(program, &parameters, &weights, &error));                                                     \
    check(kfr_session_new(weights, session_bytes ? session_memory : NULL, session_bytes, &session, &error));           \
    static _Alignas(64) unsigned char y[NAME##_Y_BYTES];                                                               \
    check(name##_run(session, NULL, &(name##_tensors){.x = read_tensor(folder, "x.bin", NAME##_X_BYTES), .y = y},      \
                     &error));                                                                                         \
    FILE *file = open_file(folder, "y." #name, "wb");                                                                  \
    if (fwrite(y, 1, sizeof y, file) != sizeof y || fclose(file) != 0)                                                 \
      exit(KFR_IO);                                                                                                    \
    kfr_session_release(session);                                                                                      \
    kfr_weights_release(weights);                                                                                      \
    kfr_program_release(program);                                                                                      \
  }

DEFINE_RUN(first, FIRST, FIRST_SESSION_BYTES)
DEFINE_RUN(second, SECOND, 0)

int main(int count, char **words) {
  if (count != 2 || shape[0] * shape[1] * (int64_t)sizeof(float) != FIRST_X_BYTES)
    return KFR_USAGE;
  run_first(words[1]);
  run_second(words[1]);
  return 0;
}
