// Lets binaries that are linked on a glibc of today start on 2.34: functions that the static libraries of the C++
// runtime and of LLVM take from later ones. All are hidden: only the binary that holds them calls them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

/// glibc 2.36. For std::random_device.
HIDDEN uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) // Linux before 3.17.
      abort();
  return number;
}

// glibc 2.35 has a hypot that sets no errno; the one from before is in every glibc.
double hypotOf2_2_5(double x, double y);
__asm__(".symver hypotOf2_2_5, hypot@GLIBC_2.2.5");
HIDDEN double hypot(double x, double y) { return hypotOf2_2_5(x, y); }

/// What is looked for in the objects of the process: the one that `address` lies in.
struct Search {
  uintptr_t address;
  struct dl_find_object *found;
};

/// A callback for dl_iterate_phdr: anything but 0 ends the iteration.
static int isIn(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  const struct Search *search = data;
  const void *frames = NULL;
  int holds = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == PT_GNU_EH_FRAME)
      frames = (const void *)start;
    if (segment->p_type != PT_LOAD || search->address - start >= segment->p_memsz)
      continue;
    holds = 1;
    search->found->dlfo_map_start = (void *)start;
    search->found->dlfo_map_end = (void *)(start + segment->p_memsz);
  }
  if (!holds)
    return 0;
  search->found->dlfo_eh_frame = (void *)frames;
  return frames ? 1 : -1;
}

/// glibc 2.35. libgcc_eh, the static unwinder of exceptions, asks it for each frame and has no other way; what it did
/// before is done here. Of the answer it reads where the unwind tables are.
HIDDEN int _dl_find_object(void *address, struct dl_find_object *found) {
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(isIn, &search) > 0 ? 0 : -1;
}
