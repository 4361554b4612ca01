/* Times a pack on a GPU: timed FILE.kfp FOLDER, with the tensors that deploy.c reads. Prints what it takes from
 * kfr_open() to the first result, beyond the driver's start, the context and the upload of parameters, and the medians
 * of runs as `kfuse bench block` takes them. What the process has mapped by then is in FOLDER/maps. */
#include <kfuse/runtime.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_RUNS = 1000, FLUSH_BYTES = 256 << 20 };

static kfr_error error = {.struct_size = sizeof error};

static void check(kfr_code code) {
  if (code == KFR_OK)
    return;
  fprintf(stderr, "timed: %s\n", error.message);
  exit(code);
}

/* The driver's functions that the library does not hand out. */
static int (*init)(unsigned), (*retain)(void **, int), (*set_current)(void *), (*new_stream)(void **, unsigned),
    (*new_event)(void **, unsigned), (*record)(void *, void *), (*wait_for)(void *),
    (*elapsed)(float *, void *, void *), (*fill)(void *, unsigned char, size_t, void *);

static void driver(int status) {
  if (status == 0)
    return;
  fprintf(stderr, "timed: the driver fails with CUresult %d\n", status);
  exit(KFR_NO_DEVICE);
}

static void open_driver(void) {
  const struct {
    const char *name;
    void *function;
  } functions[] = {{"cuInit", &init},
                   {"cuDevicePrimaryCtxRetain", &retain},
                   {"cuCtxSetCurrent", &set_current},
                   {"cuStreamCreate", &new_stream},
                   {"cuEventCreate", &new_event},
                   {"cuEventRecord", &record},
                   {"cuEventSynchronize", &wait_for},
                   {"cuEventElapsedTime", &elapsed},
                   {"cuMemsetD8Async", &fill}};
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void *found = library ? dlsym(library, functions[i].name) : NULL;
    if (!found) {
      fprintf(stderr, "timed: no driver with %s\n", functions[i].name);
      exit(KFR_NO_DEVICE);
    }
    memcpy(functions[i].function, &found, sizeof found);
  }
  void *context = NULL;
  driver(init(0));
  driver(retain(&context, 0));
  driver(set_current(context));
}

static double milliseconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* A tensor's bytes from FOLDER/NAME.bin, in memory that is never freed: the program ends. */
static void *read_tensor(const kfr_tensor *tensor, const char *folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.bin", folder, tensor->name);
  void *host = malloc(tensor->bytes + 1);
  FILE *file = fopen(path, "rb");
  if (!file || fread(host, 1, tensor->bytes, file) != tensor->bytes || fclose(file) != 0) {
    fprintf(stderr, "timed: %s: expected %zu bytes\n", path, tensor->bytes);
    exit(KFR_IO);
  }
  return host;
}

static void *to_device(kfr_program *program, const void *host, size_t bytes) {
  void *memory = NULL;
  check(kfr_allocate(program, bytes, &memory, &error));
  if (host)
    check(kfr_upload(program, memory, host, bytes, &error));
  return memory;
}

static void write_maps(const char *folder) {
  char path[4096], line[4096];
  snprintf(path, sizeof path, "%s/maps", folder);
  FILE *from = fopen("/proc/self/maps", "r"), *to = fopen(path, "w");
  while (from && to && fgets(line, sizeof line, from))
    fputs(line, to);
  if (!from || !to || fclose(from) != 0 || fclose(to) != 0)
    exit(KFR_IO);
}

/* The median of runs for 120 ms after 30 ms, each behind a flush of the cache, or behind another run. */
static float median_us(kfr_session *session, void *stream, void *flushed) {
  static float us[MOST_RUNS];
  size_t runs = 0;
  void *start = NULL, *stop = NULL;
  driver(new_event(&start, 0));
  driver(new_event(&stop, 0));
  for (const double begin = milliseconds(); runs < MOST_RUNS && milliseconds() < begin + 150;) {
    if (flushed)
      driver(fill(flushed, 0, FLUSH_BYTES, stream));
    else
      check(kfr_run(session, stream, &error));
    driver(record(start, stream));
    check(kfr_run(session, stream, &error));
    driver(record(stop, stream));
    driver(wait_for(stop));
    driver(elapsed(&us[runs], start, stop));
    runs += milliseconds() > begin + 30;
  }
  qsort(us, runs, sizeof *us, compare);
  return runs ? 1e3f * us[runs / 2] : 0;
}

int main(int count, char **words) {
  if (count != 3)
    return fprintf(stderr, "timed FILE.kfp FOLDER\n"), KFR_USAGE;
  const double begin = milliseconds();
  open_driver();
  const double started = milliseconds();
  kfr_pack *pack = NULL;
  kfr_program *program = NULL;
  kfr_weights *weights = NULL;
  kfr_session *session = NULL;
  check(kfr_open(words[1], &pack, &error));
  check(kfr_load(pack, NULL, &program, &error));
  const double loaded = milliseconds();

  kfr_binding parameters[256];
  size_t given = 0;
  const kfr_tensor *tensor;
  for (size_t i = 0; (tensor = kfr_tensor_at(program, KFR_PARAMETER, i)) && given < 256; ++i) {
    void *host = read_tensor(tensor, words[2]);
    parameters[given++] = (kfr_binding){tensor->name, to_device(program, host, tensor->bytes), tensor->bytes};
    free(host);
  }
  void *inputs[2][64];
  for (int role = 0; role < 2; ++role)
    for (size_t i = 0; (tensor = kfr_tensor_at(program, role ? KFR_STATE : KFR_INPUT, i)) && i < 64; ++i)
      inputs[role][i] = read_tensor(tensor, words[2]);
  void *output = malloc(1 << 20);
  const double uploaded = milliseconds();

  check(kfr_prepare(program, parameters, given, &weights, &error));
  check(kfr_session_new(weights, NULL, 0, &session, &error));
  for (int role = 0; role < 2; ++role)
    for (size_t i = 0; (tensor = kfr_tensor_at(program, role ? KFR_STATE : KFR_INPUT, i)) && i < 64; ++i)
      check(kfr_bind_at(session, role ? KFR_STATE : KFR_INPUT, i, to_device(program, inputs[role][i], tensor->bytes),
                        tensor->bytes, &error));
  void *memory = NULL;
  size_t bytes = 0;
  for (size_t i = 0; (tensor = kfr_tensor_at(program, KFR_OUTPUT, i)); ++i)
    if (tensor->state < 0) {
      memory = to_device(program, NULL, bytes = tensor->bytes);
      check(kfr_bind_at(session, KFR_OUTPUT, i, memory, bytes, &error));
    }
  check(kfr_run(session, NULL, &error));
  check(kfr_download(program, output, memory, bytes < 1 << 20 ? bytes : 1 << 20, &error)); /* It waits for the run. */
  const double first = milliseconds();

  void *stream = NULL;
  driver(new_stream(&stream, 0));
  void *flushed = to_device(program, NULL, FLUSH_BYTES);
  const float cold = median_us(session, stream, flushed), warm = median_us(session, stream, NULL);
  write_maps(words[2]);
  printf("%s: driver and context %.1f ms, open to first %.1f ms, cold %.1f us, warm %.1f us\n", kfr_target(program),
         started - begin, loaded - started + first - uploaded, (double)cold, (double)warm);
  return 0;
}
