/* Runs a pack that kfuse pack wrote: deploy FILE.kfp FOLDER. Reads each tensor that the model takes from
 * FOLDER/NAME.bin, dense and row-major, and writes each output to FOLDER/NAME.out.
 *   gcc -std=c11 -Wall -Werror -pedantic deploy.c -lkfuse_runtime */
#include <kfuse/runtime.h>

#include <stdio.h>
#include <stdlib.h>

static kfr_error error = {.struct_size = sizeof error};

static void check(kfr_code code) {
  if (code == KFR_OK)
    return;
  fprintf(stderr, "deploy: %s\n", error.message);
  exit(code);
}

/* Moves a tensor's bytes between a file and the device, where it has memory that is never freed: the program ends. */
static void *move(kfr_program *program, const kfr_tensor *tensor, const char *folder, const char *ending,
                  void *memory) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%s", folder, tensor->name, ending);
  const int reads = memory == NULL;
  void *host = malloc(tensor->bytes + 1);
  if (reads)
    check(kfr_allocate(program, tensor->bytes, &memory, &error));
  else
    check(kfr_download(program, host, memory, tensor->bytes, &error));
  FILE *file = fopen(path, reads ? "rb" : "wb");
  size_t moved = !file ? 0 : reads ? fread(host, 1, tensor->bytes, file) : fwrite(host, 1, tensor->bytes, file);
  if (!file || moved != tensor->bytes || fclose(file) != 0) {
    fprintf(stderr, "deploy: %s: expected %zu bytes of '%s'\n", path, tensor->bytes, tensor->name);
    exit(KFR_IO);
  }
  if (reads)
    check(kfr_upload(program, memory, host, tensor->bytes, &error));
  free(host);
  return memory;
}

int main(int count, char **words) {
  kfr_pack *pack = NULL;
  kfr_program *program = NULL;
  kfr_weights *weights = NULL;
  kfr_session *session = NULL;
  kfr_binding parameters[256];
  size_t given = 0;
  void *outputs[256] = {NULL};
  if (count != 3)
    return fprintf(stderr, "deploy FILE.kfp FOLDER\n"), KFR_USAGE;
  check(kfr_open(words[1], &pack, &error));
  check(kfr_load(pack, NULL, &program, &error)); /* The code for the device that is here. */
  const kfr_tensor *tensor;
  for (size_t i = 0; (tensor = kfr_tensor_at(program, KFR_PARAMETER, i)) && given < 256; ++i)
    if (!tensor->in_pack)
      parameters[given++] = (kfr_binding){tensor->name, move(program, tensor, words[2], "bin", NULL), tensor->bytes};
  check(kfr_prepare(program, parameters, given, &weights, &error)); /* Once. */
  check(kfr_session_new(weights, NULL, 0, &session, &error));       /* One for each stream. */
  for (kfr_role role = KFR_INPUT; role <= KFR_STATE; role += KFR_STATE - KFR_INPUT)
    for (size_t i = 0; (tensor = kfr_tensor_at(program, role, i)); ++i)
      check(kfr_bind_at(session, role, i, move(program, tensor, words[2], "bin", NULL), tensor->bytes, &error));
  for (size_t i = 0; (tensor = kfr_tensor_at(program, KFR_OUTPUT, i)) && i < 256; ++i)
    if (tensor->state < 0) { /* The others are updated in the state's memory. */
      check(kfr_allocate(program, tensor->bytes, &outputs[i], &error));
      check(kfr_bind_at(session, KFR_OUTPUT, i, outputs[i], tensor->bytes, &error));
    }
  check(kfr_run(session, NULL, &error));
  check(kfr_synchronize(program, NULL, &error));
  for (size_t i = 0; (tensor = kfr_tensor_at(program, KFR_OUTPUT, i)) && i < 256; ++i)
    if (outputs[i])
      move(program, tensor, words[2], "out", outputs[i]);
  printf("ran %s\n", kfr_target(program));
  kfr_session_release(session);
  kfr_weights_release(weights);
  kfr_program_release(program);
  kfr_pack_release(pack);
  return 0;
}
