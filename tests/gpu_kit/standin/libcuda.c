// A stand-in for CUDA's driver: its device memory is the host's, a hook executes kernels, and every
// call is a line of the file STANDIN_LOG. STANDIN_BYTES limits its memory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef unsigned long long u64;

enum {
  INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
  TOO_LARGE = 720, CAPTURE_UNSUPPORTED = 900
};
enum { MULTIPROCESSORS = 132, BLOCKS_OF_EACH = 2, MOST_ARGUMENTS = 64, MAGIC_BYTES = 256 };
enum { PRIMARY = 0x1234, MOST_CONTEXTS = 16, DEFAULT_STREAMS = 2 };

typedef struct { const void *image; int unloaded; } Module;
typedef struct { const Module *module; char entry[64]; int arguments; } Function;
typedef struct { Function *function; unsigned blocks, threads; u64 values[MOST_ARGUMENTS]; } Work;
typedef struct { int capturing, works, destroyed; Work *work; } Stream;
typedef struct { int works; Work *work; } Graph;
typedef struct { int timed, recorded, destroyed; double seconds; } Event;

typedef int (*Describe)(const void *image, const char *entry);
typedef int (*Execute)(const void *image, const char *entry, unsigned blocks, unsigned threads,
                       const u64 *values);
static Describe describe;
static Execute execute;
static size_t used;
static _Thread_local void *contexts[MOST_CONTEXTS];
static _Thread_local int depth;

static void say(const char *format, ...) {
  const char *path = getenv("STANDIN_LOG");
  if (!path) return;
  FILE *file = fopen(path, "a");
  va_list given;
  va_start(given, format);
  vfprintf(file, format, given);
  va_end(given);
  fputc('\n', file);
  fclose(file);
}

void standin_hooks(Describe of, Execute with) { describe = of; execute = with; }

static size_t capacity(void) {
  const char *given = getenv("STANDIN_BYTES");
  return given ? strtoull(given, 0, 10) : (size_t)1 << 30;
}

// The status of a call that needs the context of the device: another package's may be current.
static int in_context(void) {
  return depth && contexts[depth - 1] == (void *)PRIMARY ? 0 : INVALID_CONTEXT;
}
// The status of a call on a stream: the default streams are only recorded and awaited.
static int on_stream(const Stream *stream) {
  if (in_context()) return INVALID_CONTEXT;
  return !stream || stream->destroyed ? INVALID_HANDLE : 0;
}
static int is_default(const void *stream) {
  return (u64)stream - 1 < DEFAULT_STREAMS;
}

static int run(const Work *work) {
  const Function *f = work->function;
  if (f->module->unloaded) return INVALID_HANDLE;
  return execute
    ? execute(f->module->image, f->entry, work->blocks, work->threads, work->values) : 0;
}

static int launch(const char *name, Function *f, unsigned blocks, unsigned threads, void *stream,
                  void **parameters) {
  if (on_stream(stream)) return on_stream(stream);
  if (!f) return INVALID_HANDLE;
  Work work = {f, blocks, threads, {0}};
  for (int i = 0; i < f->arguments; i++) work.values[i] = *(u64 *)parameters[i];
  Stream *s = stream;
  say("%s %s %u x %u%s", name, f->entry, blocks, threads, s->capturing ? " captured" : "");
  if (!s->capturing) return run(&work);
  s->work = realloc(s->work, sizeof(Work) * (s->works + 1));
  s->work[s->works++] = work;
  return 0;
}

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number ? 101 : 0; }
int cuDeviceGetName(char *name, int length, int device) {
  (void)device;
  snprintf(name, length, "stand-in");
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 95: *value = 1; break;
    case 16: *value = MULTIPROCESSORS; break;
    case 13: *value = 1980000; break;
    case 36: *value = 2619000; break;
    case 37: *value = 5120; break;
    case 38: *value = 50 << 20; break;
    case 39: *value = 2048; break;
    case 82: *value = 65536; break;
    case 81: *value = 233472; break;
    case 8: *value = 49152; break;
    default: return INVALID_VALUE;
  }
  return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = (void *)PRIMARY;
  return 0;
}
int cuCtxGetCurrent(void **context) {
  *context = depth ? contexts[depth - 1] : 0;
  return 0;
}
int cuCtxSetCurrent(void *context) {
  if (!depth) depth = 1;
  contexts[depth - 1] = context;
  return 0;
}
int cuCtxPushCurrent_v2(void *context) {
  if (!context || depth == MOST_CONTEXTS) return INVALID_CONTEXT;
  contexts[depth++] = context;
  return 0;
}
int cuCtxPopCurrent_v2(void **context) {
  if (!depth) return INVALID_CONTEXT;
  *context = contexts[--depth];
  return 0;
}

int cuModuleLoadData(void **module, const void *image) {
  if (in_context()) return INVALID_CONTEXT;
  const char *magic = image;
  say("cuModuleLoadData %.3s", magic + (magic[0] == 0x7f));
  Module *m = calloc(1, sizeof *m);
  m->image = image;
  *module = m;
  return 0;
}
// Modules and streams stay in memory, so that a use after their end is found.
int cuModuleUnload(void *module) {
  if (in_context()) return INVALID_CONTEXT;
  Module *m = module;
  if (m->unloaded) return INVALID_HANDLE;
  say("cuModuleUnload");
  return m->unloaded = 1, 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  Function *f = calloc(1, sizeof *f);
  f->module = module;
  snprintf(f->entry, sizeof f->entry, "%s", name);
  f->arguments = describe ? describe(f->module->image, name) : 0;
  if (f->arguments < 0 || f->arguments > MOST_ARGUMENTS) return 500;
  *function = f;
  return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  *value = attribute == 4 ? 100 : attribute == 1 ? 16384 : 0;
  return 0;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, void *f, int threads, size_t shared) {
  if (!f || threads < 1 || shared) return INVALID_VALUE;
  *count = BLOCKS_OF_EACH;
  return 0;
}

int cuMemGetInfo_v2(size_t *left, size_t *total) {
  *total = capacity();
  *left = *total - used;
  return 0;
}
int cuMemAlloc_v2(u64 *address, size_t size) {
  if (in_context()) return INVALID_CONTEXT;
  if (!size) return INVALID_VALUE;
  say("cuMemAlloc %zu", size);
  if (size > capacity() - used) return OUT_OF_MEMORY;
  void *memory;
  if (posix_memalign(&memory, 256, size + 256)) return OUT_OF_MEMORY;
  *(size_t *)memory = size;
  used += size;
  memset((char *)memory + 256, 0xCD, size);
  *address = (u64)memory + 256;
  return 0;
}
int cuMemFree_v2(u64 address) {
  if (in_context()) return INVALID_CONTEXT;
  char *memory = (char *)address - 256;
  used -= *(size_t *)memory;
  free(memory);
  return 0;
}
int cuMemsetD8Async(u64 address, unsigned char value, size_t size, void *stream) {
  if (on_stream(stream)) return on_stream(stream);
  memset((void *)address, value, size);
  return 0;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t size, void *stream) {
  if (on_stream(stream)) return on_stream(stream);
  say("cuMemcpyHtoDAsync %zu", size);
  memcpy((void *)to, from, size);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t size, void *stream) {
  if (on_stream(stream)) return on_stream(stream);
  memcpy(to, (void *)from, size);
  return 0;
}

int cuLaunchCooperativeKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                              unsigned tz, unsigned shared, void *stream, void **parameters) {
  if (y != 1 || z != 1 || ty != 1 || tz != 1 || shared) return INVALID_VALUE;
  if (x > MULTIPROCESSORS * BLOCKS_OF_EACH) return TOO_LARGE;
  return launch("cuLaunchCooperativeKernel", f, x, tx, stream, parameters);
}
int cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
                   unsigned tz, unsigned shared, void *stream, void **parameters, void **extra) {
  if (y != 1 || z != 1 || ty != 1 || tz != 1 || shared || extra) return INVALID_VALUE;
  return launch("cuLaunchKernel", f, x, tx, stream, parameters);
}

int cuStreamCreate(void **stream, unsigned flags) {
  if (in_context()) return INVALID_CONTEXT;
  if (flags) return INVALID_VALUE;
  *stream = calloc(1, sizeof(Stream));
  return 0;
}
int cuStreamDestroy_v2(void *stream) {
  if (on_stream(stream)) return on_stream(stream);
  say("cuStreamDestroy");
  return ((Stream *)stream)->destroyed = 1, 0;
}
int cuStreamSynchronize(void *stream) {
  if (on_stream(stream)) return on_stream(stream);
  return ((Stream *)stream)->capturing ? CAPTURE_UNSUPPORTED : 0;
}
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  if (!is_default(stream) && on_stream(stream)) return on_stream(stream);
  return ((Event *)event)->destroyed || flags ? INVALID_HANDLE : 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode) {
  Stream *s = stream;
  if (!s || s->capturing || mode != 1) return INVALID_VALUE;
  s->capturing = 1;
  return 0;
}
int cuStreamEndCapture(void *stream, void **graph) {
  Stream *s = stream;
  if (!s->capturing) return INVALID_VALUE;
  Graph *g = calloc(1, sizeof *g);
  g->works = s->works;
  g->work = s->work;
  s->capturing = s->works = 0;
  s->work = 0;
  *graph = g;
  return 0;
}
int cuGraphInstantiateWithFlags(void **executable, void *graph, u64 flags) {
  if (flags) return INVALID_VALUE;
  *executable = graph;
  say("cuGraphInstantiate %d", ((Graph *)graph)->works);
  return 0;
}
int cuGraphDestroy(void *graph) { return graph ? 0 : INVALID_HANDLE; }
int cuGraphExecDestroy(void *executable) {
  if (!executable) return INVALID_HANDLE;
  say("cuGraphExecDestroy %d", ((Graph *)executable)->works);
  return 0;
}
int cuGraphLaunch(void *executable, void *stream) {
  Graph *g = executable;
  if (on_stream(stream)) return on_stream(stream);
  if (!g) return INVALID_HANDLE;
  say("cuGraphLaunch %d", g->works);
  for (int i = 0; i < g->works; i++) {
    int status = run(g->work + i);
    if (status) return status;
  }
  return 0;
}

int cuEventCreate(void **event, unsigned flags) {
  if (in_context()) return INVALID_CONTEXT;
  Event *e = calloc(1, sizeof *e);
  e->timed = !(flags & 2);
  *event = e;
  return 0;
}
int cuEventRecord(void *event, void *stream) {
  Event *e = event;
  if (!is_default(stream) && on_stream(stream)) return on_stream(stream);
  if (e->destroyed) return INVALID_HANDLE;
  if (is_default(stream)) say("cuEventRecord %p", stream);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  e->seconds = now.tv_sec + 1e-9 * now.tv_nsec;
  e->recorded = 1;
  return 0;
}
// Events stay in memory, so that a use after their end is found.
int cuEventDestroy_v2(void *event) {
  Event *e = event;
  if (e->destroyed) return INVALID_HANDLE;
  return e->destroyed = 1, 0;
}
int cuEventElapsedTime(float *milliseconds, void *begin, void *end) {
  Event *a = begin, *b = end;
  if (a->destroyed || b->destroyed || !a->timed || !b->timed || !a->recorded || !b->recorded)
    return INVALID_HANDLE;
  *milliseconds = (float)(1e3 * (b->seconds - a->seconds));
  say("cuEventElapsedTime");
  return 0;
}
int cuEventElapsedTime_v2(float *milliseconds, void *begin, void *end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

int cuGetErrorName(int status, const char **name) { (void)status; *name = "stand-in"; return 0; }
int cuGetErrorString(int status, const char **text) { (void)status; *text = "stand-in"; return 0; }

int cuGetProcAddress_v2(const char *name, void **address, int version, u64 flags, int *found) {
  (void)version, (void)flags;
  static const char *endings[] = {"_v2", "", "WithFlags"};
  Dl_info own;
  dladdr((void *)cuInit, &own);
  void *library = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  *address = 0;
  for (int i = 0; i < 3 && !*address; i++) {
    char symbol[MAGIC_BYTES];
    snprintf(symbol, sizeof symbol, "%s%s", name, endings[i]);
    *address = dlsym(library, symbol);
  }
  if (found) *found = *address ? 0 : 1;
  return *address ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **address, int version, u64 flags) {
  return cuGetProcAddress_v2(name, address, version, flags, 0);
}
