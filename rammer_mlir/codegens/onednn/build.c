/* A region as primitives of oneDNN 3.2, built by a table of 64-bit numbers.

   The library is called through pointers that the host finds, so that no header of it is needed,
   and no other copy of it in the process is met. `table.py` writes the table. */
#pragma GCC optimize("O1") /* the time is spent in the library */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) do { int32_t status_ = (call); if (status_) return status_; } while (0)

typedef struct dnnl_object *object; /* any of the library's opaque pointers */
typedef const int64_t *words;

struct argument { int32_t name; object memory; };

#ifndef THREADS
#define THREADS 1
#endif
#ifdef MATH /* how far products may be rounded; strictly, if it is not defined */
#define MATH_FUNCTION(F) F(int32_t, dnnl_primitive_attr_set_fpmath_mode, (object, int32_t))
#else
#define MATH_FUNCTION(F)
#endif

#define FUNCTIONS(F) \
  MATH_FUNCTION(F) \
  F(int32_t, omp_get_max_threads, (void)) \
  F(void, omp_set_num_threads, (int32_t)) \
  F(int32_t, dnnl_engine_create, (object *, int32_t, size_t)) \
  F(int32_t, dnnl_engine_destroy, (object)) \
  F(int32_t, dnnl_stream_create, (object *, object, uint32_t)) \
  F(int32_t, dnnl_stream_destroy, (object)) \
  F(int32_t, dnnl_memory_create, (object *, object, object, void *)) \
  F(int32_t, dnnl_memory_set_data_handle, (object, void *)) \
  F(int32_t, dnnl_memory_destroy, (object)) \
  F(int32_t, dnnl_memory_desc_create_with_strides, (object *, int32_t, words, int32_t, words)) \
  F(int32_t, dnnl_memory_desc_create_with_tag, (object *, int32_t, words, int32_t, int32_t)) \
  F(int32_t, dnnl_memory_desc_destroy, (object)) \
  F(int32_t, dnnl_memory_desc_equal, (object, object)) \
  F(size_t, dnnl_memory_desc_get_size, (object)) \
  F(int32_t, dnnl_post_ops_create, (object *)) \
  F(int32_t, dnnl_post_ops_append_binary, (object, int32_t, object)) \
  F(int32_t, dnnl_post_ops_append_eltwise, (object, int32_t, float, float)) \
  F(int32_t, dnnl_post_ops_destroy, (object)) \
  F(int32_t, dnnl_primitive_attr_create, (object *)) \
  F(int32_t, dnnl_primitive_attr_set_post_ops, (object, object)) \
  F(int32_t, dnnl_primitive_attr_set_scratchpad_mode, (object, int32_t)) \
  F(int32_t, dnnl_primitive_attr_destroy, (object)) \
  F(int32_t, dnnl_convolution_forward_primitive_desc_create, (object *, object, int32_t, int32_t, \
    object, object, object, object, words, words, words, words, object)) \
  F(int32_t, dnnl_matmul_primitive_desc_create, (object *, object, object, object, object, object, \
    object)) \
  F(int32_t, dnnl_pooling_forward_primitive_desc_create, (object *, object, int32_t, int32_t, \
    object, object, words, words, words, words, words, object)) \
  F(int32_t, dnnl_eltwise_forward_primitive_desc_create, (object *, object, int32_t, int32_t, \
    object, object, float, float, object)) \
  F(int32_t, dnnl_softmax_forward_primitive_desc_create, (object *, object, int32_t, int32_t, \
    object, object, int32_t, object)) \
  F(int32_t, dnnl_binary_primitive_desc_create, (object *, object, int32_t, object, object, object, \
    object)) \
  F(int32_t, dnnl_concat_primitive_desc_create, (object *, object, object, int32_t, int32_t, \
    const object *, object)) \
  F(int32_t, dnnl_resampling_forward_primitive_desc_create, (object *, object, int32_t, int32_t, \
    const float *, object, object, object)) \
  F(int32_t, dnnl_reduction_primitive_desc_create, (object *, object, int32_t, object, object, \
    float, float, object)) \
  F(int32_t, dnnl_reorder_primitive_desc_create, (object *, object, object, object, object, object)) \
  F(object, dnnl_primitive_desc_query_md, (object, int32_t, int32_t)) \
  F(int32_t, dnnl_primitive_desc_query, (object, int32_t, int32_t, void *)) \
  F(int32_t, dnnl_primitive_desc_destroy, (object)) \
  F(int32_t, dnnl_primitive_create, (object *, object)) \
  F(int32_t, dnnl_primitive_execute, (object, object, int32_t, const struct argument *)) \
  F(int32_t, dnnl_primitive_destroy, (object))

#define DECLARE(type, name, parameters) type (*name) parameters;
#define FIND(type, name, parameters) \
  if (!(s->name = (type (*) parameters)host->find(#name))) return NO_FUNCTION;

/* Statuses below 100 are the library's. */
enum { NO_MEMORY = 1, NO_FUNCTION = 100, NO_WEIGHTS, REFUSED, OTHER_TABLE };
enum { F32 = 3, ANY_TAG = 1, CPU = 1, INFERENCE = 96, AUTO = 3, USER_SCRATCHPAD = 1, IN_ORDER = 1 };
enum { INFO = 8, ARGUMENT_MD = 255 };
enum { SRC = 1, DST = 17, SCRATCHPAD = 80 };
enum { FIRST_BINARY = 131056 };
enum { BUFFER, SCRATCH, OWNED };
enum { RUNNING, OPENING };
enum { MOST_ARGUMENTS = 32, MOST_IDLE = 32, ALIGNMENT = 64 };

/* What `table.py` writes: primitives whose reference code is too slow come first. */
enum { CONVOLUTION, MATMUL, POOLING, ELTWISE, SOFTMAX, BINARY, CONCAT, RESAMPLING, REDUCTION,
       REORDER };
enum { NOW, ANY, PLAIN, PACKED };
struct header { int64_t words, num_values, num_nodes, num_inputs, scratch_buffer, scratch_bytes; };
struct value { int64_t rank, dims[6], strides[6], buffer, source, rtask_bytes, tag; };
struct post { int64_t algorithm, alpha, beta; };
struct operand { int64_t name, value, layout; };
struct node {
  int64_t kind, algorithm, axis, alpha, beta;
  int64_t strides[3], dilations[3], low[3], high[3], kernel[3];
  int64_t num_posts, num_main, num_operands; /* what post operations read follows the main ones */
  struct post posts[5];
  struct operand operands[MOST_ARGUMENTS];
};

/* Memory of a run: a buffer, a part of the scratch, or weights that the state holds. Slots of one
   `base` are views of the same memory. */
struct slot {
  object desc;
  int32_t kind, base, first, last;
  int64_t place, bytes, rtask_bytes;
  void *memory;
};
struct use { int32_t name, slot; };
struct step { object primitive; int32_t when, first, count; };

/* What one run at a time may use: a memory of each slot, and an argument of each use. */
struct context { object stream, *memories; struct argument *arguments; };

struct state {
  FUNCTIONS(DECLARE)
  object engine, *kept, *descriptors;
  const struct value *values;
  void *const *weights; /* null while the library is only asked */
  struct slot *slots;
  struct step *steps;
  struct use *uses;
  int32_t num_slots, num_steps, num_uses, num_kept, num_descriptors;
  int32_t *slot_of; /* of each value, -1 for none */
  int64_t needed, planned, scratch_buffer;
  int64_t converted; /* bytes of buffers that a run copies into other layouts, or from them */
  struct context *_Atomic idle[MOST_IDLE];
};

static float number(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

/* Make room for one more element behind `count`; room doubles at each power of two. */
static int32_t grow(void *list, int32_t count, size_t size) {
  void *old, *more;
  if (count & (count - 1)) return 0;
  memcpy(&old, list, sizeof old);
  if (!(more = realloc(old, (count ? 2 * count : 1) * size))) return NO_MEMORY;
  return memcpy(list, &more, sizeof more), 0;
}

static int32_t keep(struct state *s, object desc) {
  if (grow(&s->kept, s->num_kept, sizeof desc))
    return s->dnnl_memory_desc_destroy(desc), NO_MEMORY;
  return s->kept[s->num_kept++] = desc, 0;
}

static int32_t plain(struct state *s, int64_t value, object *desc) {
  const struct value *v = &s->values[value];
  TRY(s->dnnl_memory_desc_create_with_strides(desc, v->rank, v->dims, F32, v->strides));
  return keep(s, *desc);
}

/* A buffer as it lies: by its strides, or in blocks of channels. */
static int32_t given(struct state *s, int64_t value, object *desc) {
  const struct value *v = &s->values[value];
  if (!v->tag) return plain(s, value, desc);
  TRY(s->dnnl_memory_desc_create_with_tag(desc, v->rank, v->dims, F32, v->tag));
  return keep(s, *desc);
}

static int32_t any(struct state *s, int64_t value, object *desc) {
  const struct value *v = &s->values[value];
  TRY(s->dnnl_memory_desc_create_with_tag(desc, v->rank, v->dims, F32, ANY_TAG));
  return keep(s, *desc);
}

static int32_t add_slot(struct state *s, object desc, int32_t kind, int64_t value, int32_t *slot) {
  const struct value *v = &s->values[value];
  int64_t bytes = (s->dnnl_memory_desc_get_size(desc) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  TRY(grow(&s->slots, s->num_slots, sizeof *s->slots));
  s->slots[*slot = s->num_slots++] = (struct slot){desc, kind, *slot, s->num_steps, s->num_steps,
      kind == BUFFER ? v->buffer : 0, bytes, kind == BUFFER ? v->rtask_bytes : 0, NULL};
  return 0;
}

static int32_t add_use(struct state *s, int32_t name, int32_t slot) {
  TRY(grow(&s->uses, s->num_uses, sizeof *s->uses));
  s->slots[s->slots[slot].base].last = s->num_steps;
  return s->uses[s->num_uses++] = (struct use){name, slot}, 0;
}

/* Add a primitive of a descriptor, which the state holds already. */
static int32_t add_step(struct state *s, object pd, int32_t count, const struct use *uses) {
  int32_t pad, first = s->num_uses;
  object scratchpad = s->dnnl_primitive_desc_query_md(pd, ARGUMENT_MD, SCRATCHPAD), primitive;
  for (int32_t n = 0; n < count; n++) TRY(add_use(s, uses[n].name, uses[n].slot));
  if (scratchpad && s->dnnl_memory_desc_get_size(scratchpad)) {
    TRY(add_slot(s, scratchpad, SCRATCH, 0, &pad));
    TRY(add_use(s, SCRATCHPAD, pad));
  }
  TRY(grow(&s->steps, s->num_steps, sizeof *s->steps));
  TRY(s->dnnl_primitive_create(&primitive, pd));
  s->steps[s->num_steps++] = (struct step){primitive, RUNNING, first, s->num_uses - first};
  return 0;
}

static int32_t add_descriptor(struct state *s, object pd) {
  if (grow(&s->descriptors, s->num_descriptors, sizeof pd))
    return s->dnnl_primitive_desc_destroy(pd), NO_MEMORY;
  return s->descriptors[s->num_descriptors++] = pd, 0;
}

/* Make attributes; `read` are the descriptors of what binary post operations read. */
static int32_t attributes(struct state *s, const struct post *p, int64_t count, const object *read,
                          object *attr) {
  object posts = NULL;
  TRY(s->dnnl_primitive_attr_create(attr));
  /* The library's own scratchpad makes a primitive one for a single thread. */
  int32_t status = s->dnnl_primitive_attr_set_scratchpad_mode(*attr, USER_SCRATCHPAD);
#ifdef MATH
  if (!status) status = s->dnnl_primitive_attr_set_fpmath_mode(*attr, MATH);
#endif
  if (!status) status = s->dnnl_post_ops_create(&posts);
  for (const struct post *end = p + count; p < end && !status; p++)
    status = p->algorithm >= FIRST_BINARY
        ? s->dnnl_post_ops_append_binary(posts, p->algorithm, *read++)
        : s->dnnl_post_ops_append_eltwise(posts, p->algorithm, number(p->alpha), number(p->beta));
  if (!status) status = s->dnnl_primitive_attr_set_post_ops(*attr, posts);
  if (posts) s->dnnl_post_ops_destroy(posts);
  if (status) s->dnnl_primitive_attr_destroy(*attr);
  return status;
}

static int32_t reorder(struct state *s, int32_t from, int32_t to) {
  object attr, pd, e = s->engine;
  TRY(attributes(s, NULL, 0, NULL, &attr));
  int32_t status = s->dnnl_reorder_primitive_desc_create(
      &pd, s->slots[from].desc, e, s->slots[to].desc, e, attr);
  s->dnnl_primitive_attr_destroy(attr);
  TRY(status);
  TRY(add_descriptor(s, pd));
  const struct slot *a = &s->slots[from], *b = &s->slots[to];
  if (b->kind != OWNED && (a->kind == BUFFER || b->kind == BUFFER))
    s->converted += a->kind == BUFFER ? a->bytes : b->bytes;
  return add_step(s, pd, 2, (struct use[]){{SRC, from}, {DST, to}});
}

static int32_t slot_of(struct state *s, int64_t value, int32_t *slot);

/* Bring a value into a layout, where it is not in it. */
static int32_t converted(struct state *s, int64_t value, object desc, int32_t *slot) {
  int32_t from;
  TRY(slot_of(s, value, slot));
  if (s->dnnl_memory_desc_equal(s->slots[from = *slot].desc, desc)) return 0;
  TRY(add_slot(s, desc, SCRATCH, value, slot));
  s->slot_of[value] = *slot;
  return reorder(s, from, *slot);
}

/* Find a value; what is another view of a value begins where that lies in row-major order. */
static int32_t slot_of(struct state *s, int64_t value, int32_t *slot) {
  object desc;
  int32_t base;
  if ((*slot = s->slot_of[value]) >= 0) return 0;
  if (s->values[value].source < 0) return OTHER_TABLE;
  TRY(plain(s, s->values[value].source, &desc));
  TRY(converted(s, s->values[value].source, desc, &base));
  TRY(plain(s, value, &desc));
  TRY(add_slot(s, desc, SCRATCH, value, slot));
  s->slots[*slot] = s->slots[base];
  s->slots[*slot].desc = desc;
  s->slot_of[value] = *slot;
  return 0;
}

/* Weights in the layout of a primitive: as they are given, or a copy that is made when opening. */
static int32_t pack(struct state *s, int64_t value, object desc, int32_t *slot) {
  int32_t from;
  TRY(slot_of(s, value, slot));
  if (s->weights && !s->weights[s->values[value].buffer]) return NO_WEIGHTS;
  if (s->dnnl_memory_desc_equal(s->slots[from = *slot].desc, desc)) return 0;
  TRY(add_slot(s, desc, OWNED, value, slot));
  struct slot *to = &s->slots[*slot];
  if (s->weights && !(to->memory = aligned_alloc(ALIGNMENT, to->bytes))) return NO_MEMORY;
  TRY(reorder(s, from, *slot));
  s->steps[s->num_steps - 1].when = OPENING;
  return 0;
}

/* Make a place for a result in a layout: its buffer, if that has it, else a part of the scratch. */
static int32_t result(struct state *s, int64_t value, object desc, int32_t *slot) {
  object wanted;
  TRY(given(s, value, &wanted));
  int is_there = s->values[value].buffer >= 0 && s->dnnl_memory_desc_equal(wanted, desc);
  TRY(add_slot(s, desc, is_there ? BUFFER : SCRATCH, value, slot));
  return s->slot_of[value] = *slot, 0;
}

/* Copy a result into its buffer, if it was computed elsewhere. */
static int32_t deliver(struct state *s, int64_t value) {
  int32_t from = s->slot_of[value], to;
  object wanted;
  if (s->values[value].buffer < 0 || s->slots[from].kind == BUFFER) return 0;
  TRY(given(s, value, &wanted));
  TRY(add_slot(s, wanted, BUFFER, value, &to));
  return reorder(s, from, to);
}

/* Return the descriptors that a primitive is made from; its own layouts may be others. */
static int32_t wanted(struct state *s, const struct operand *o, object *desc) {
  int32_t slot;
  if (o->layout == PLAIN) return plain(s, o->value, desc);
  /* Beside a buffer in blocks the library takes blocks, also where it likes another layout more. */
  if (o->layout == ANY && s->values[o->value].tag) return given(s, o->value, desc);
  if (o->layout != NOW) return any(s, o->value, desc);
  TRY(slot_of(s, o->value, &slot));
  return *desc = s->slots[slot].desc, 0;
}

static int32_t describe(struct state *s, const struct node *n, const object *d, object attr,
                        object *pd) {
  object e = s->engine, bias = n->num_main > 3 ? d[3] : NULL;
  float alpha = number(n->alpha), beta = number(n->beta);
  switch (n->kind) {
  case CONVOLUTION:
    return s->dnnl_convolution_forward_primitive_desc_create(pd, e, INFERENCE, AUTO, d[1], d[2],
        bias, d[0], n->strides, n->dilations, n->low, n->high, attr);
  case MATMUL: return s->dnnl_matmul_primitive_desc_create(pd, e, d[1], d[2], bias, d[0], attr);
  case POOLING:
    return s->dnnl_pooling_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, d[1], d[0],
        n->strides, n->kernel, n->dilations, n->low, n->high, attr);
  case ELTWISE:
    return s->dnnl_eltwise_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, d[1], d[0],
        alpha, beta, attr);
  case SOFTMAX:
    return s->dnnl_softmax_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, d[1], d[0],
        n->axis, attr);
  case BINARY:
    return s->dnnl_binary_primitive_desc_create(pd, e, n->algorithm, d[1], d[2], d[0], attr);
  case CONCAT:
    return s->dnnl_concat_primitive_desc_create(pd, e, d[0], n->num_main - 1, n->axis, d + 1, attr);
  case RESAMPLING:
    return s->dnnl_resampling_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, NULL,
        d[1], d[0], attr);
  case REDUCTION:
    return s->dnnl_reduction_primitive_desc_create(pd, e, n->algorithm, d[1], d[0], alpha, beta,
        attr);
  default: return s->dnnl_reorder_primitive_desc_create(pd, d[1], e, d[0], e, attr);
  }
}

static int32_t add_node(struct state *s, const struct node *n) {
  object attr, pd, descs[MOST_ARGUMENTS];
  struct use uses[MOST_ARGUMENTS];
  const char *name = NULL;
  for (int64_t o = 0; o < n->num_operands; o++) TRY(wanted(s, &n->operands[o], &descs[o]));
  TRY(attributes(s, n->posts, n->num_posts, descs + n->num_main, &attr));
  int32_t status = describe(s, n, descs, attr, &pd);
  s->dnnl_primitive_attr_destroy(attr);
  TRY(status);
  TRY(add_descriptor(s, pd));
  TRY(s->dnnl_primitive_desc_query(pd, INFO, 0, &name));
  /* The library's reference code is right, but slower than any other. */
  if (n->kind <= POOLING && !strncmp(name, "ref", 3)) return REFUSED;
  for (int64_t o = n->num_operands - 1; o >= 0; o--) { /* the result behind what it is made of */
    const struct operand *each = &n->operands[o];
    object desc = s->dnnl_primitive_desc_query_md(pd, ARGUMENT_MD, each->name);
    uses[o].name = each->name;
    TRY((!o ? result : each->layout == PACKED ? pack : converted)(s, each->value, desc,
                                                                  &uses[o].slot));
  }
  TRY(add_step(s, pd, n->num_operands, uses));
  return deliver(s, n->operands[0].value);
}

/* Place what lies in the scratch: what is used at the same time lies apart. */
static void place(struct state *s) {
  for (int32_t n = 0; n < s->num_slots; n++) {
    struct slot *a = &s->slots[n];
    if (a->base != n) a->place = s->slots[a->base].place;
    if (a->kind != SCRATCH || a->base != n) continue;
    for (struct slot *b = s->slots; b < a; b++)
      if (b->kind == SCRATCH && b->first <= a->last && a->first <= b->last &&
          s->slots + b->base == b && b->place < a->place + a->bytes &&
          a->place < b->place + b->bytes) {
        a->place = b->place + b->bytes;
        b = s->slots - 1;
      }
    if (s->needed < a->place + a->bytes) s->needed = a->place + a->bytes;
  }
}

static int32_t connect(struct state *s, const struct rammer_host *host) {
  FUNCTIONS(FIND)
  return 0;
}

static int32_t build(struct state *s, words table) {
  const struct header *h = (const struct header *)table;
  const struct node *nodes;
  int64_t bytes = sizeof *h + h->num_values * sizeof *s->values + h->num_nodes * sizeof *nodes;
  object desc;
  if (8 * h->words != bytes) return OTHER_TABLE;
  s->values = (const struct value *)(h + 1);
  nodes = (const struct node *)(s->values + h->num_values);
  s->planned = h->scratch_bytes;
  s->scratch_buffer = h->scratch_buffer;
  if (!(s->slot_of = malloc(h->num_values * sizeof *s->slot_of))) return NO_MEMORY;
  TRY(s->dnnl_engine_create(&s->engine, CPU, 0));
  for (int64_t n = 0; n < h->num_values; n++) {
    s->slot_of[n] = -1;
    if (s->values[n].buffer < 0 || s->values[n].buffer >= h->num_inputs) continue;
    TRY(given(s, n, &desc));
    TRY(add_slot(s, desc, BUFFER, n, &s->slot_of[n]));
  }
  for (int64_t n = 0; n < h->num_nodes; n++) TRY(add_node(s, &nodes[n]));
  place(s);
  return 0;
}
