/* A region as primitives of oneDNN 3.2, built by a table of 64-bit numbers.

   The library is called through pointers that the host finds, so that no header of it is needed,
   and no other copy of it in the process is met. `table.py` writes the table. */
#pragma GCC optimize("O1") /* the time is spent in the library */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TRY(call) do { int32_t status_ = (call); if (status_) return status_; } while (0)

struct rammer_host {
  int32_t version, num_buffers;
  void *const *weights;
  void *(*find)(const char *);
};

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
  F(int32_t, dnnl_post_ops_append_sum, (object, float, int32_t, int32_t)) \
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
enum { NO_MEMORY = 1, NO_FUNCTION = 100, NO_WEIGHTS, TOO_LARGE, REFUSED, OTHER_TABLE };
enum { F32 = 3, ANY = 1, CPU = 1, INFERENCE = 96, AUTO = 3, USER_SCRATCHPAD = 1, IN_ORDER = 1 };
enum { INFO = 8, SRC_MD = 129, WEIGHTS_MD = 131, DST_MD = 133, SCRATCHPAD_MD = 136 };
enum { SRC = 1, SRC_1 = 2, DST = 17, WEIGHTS = 33, BIAS = 41, SCRATCHPAD = 80 };
enum { CONVOLUTION, MATMUL, POOLING, ELTWISE, SOFTMAX, BINARY };
enum { BUFFER, SCRATCH, OWNED };
enum { RUNNING, OPENING };
enum { MOST_SLOTS = 256, MOST_STEPS = 128, MOST_ARGUMENTS = 6, MOST_KEPT = 640, MOST_IDLE = 32 };
enum { ALIGNMENT = 64, SUM = 0 };

struct header { int64_t words, num_values, num_nodes, scratch_bytes, scratch_buffer; };
struct value { int64_t rank, dims[6], strides[6], buffer, is_input; };
struct post { int64_t algorithm, alpha, beta; };
struct node {
  int64_t kind, algorithm, src, weights, is_packed, bias, sum, dst, axis, alpha, beta;
  int64_t strides[3], dilations[3], low[3], high[3], kernel[3], num_posts;
  struct post posts[4];
};

/* Memory of a run: a buffer, a part of the scratch, or weights that the state holds. */
struct slot { object desc; int32_t kind, first, last; int64_t place, bytes; void *memory; };
struct step { object primitive; int32_t when, count, names[MOST_ARGUMENTS], slots[MOST_ARGUMENTS]; };

/* What one run at a time may use. */
struct context {
  object stream, memories[MOST_SLOTS];
  struct argument arguments[MOST_STEPS][MOST_ARGUMENTS];
};

struct state {
  FUNCTIONS(DECLARE)
  object engine, kept[MOST_KEPT], descriptors[MOST_STEPS];
  const struct value *values;
  void *const *weights; /* null while the library is only asked */
  int32_t num_slots, num_steps, num_kept, num_descriptors, slot_of[MOST_SLOTS];
  int64_t needed, planned, scratch_buffer;
  struct slot slots[MOST_SLOTS];
  struct step steps[MOST_STEPS];
  struct context *_Atomic idle[MOST_IDLE];
};

static float number(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return (float)value;
}

static int32_t keep(struct state *s, object desc) {
  if (s->num_kept == MOST_KEPT) return s->dnnl_memory_desc_destroy(desc), TOO_LARGE;
  s->kept[s->num_kept++] = desc;
  return 0;
}

static int32_t plain(struct state *s, int64_t value, object *desc) {
  const struct value *v = &s->values[value];
  TRY(s->dnnl_memory_desc_create_with_strides(desc, v->rank, v->dims, F32, v->strides));
  return keep(s, *desc);
}

static int32_t any(struct state *s, int64_t value, object *desc) {
  const struct value *v = &s->values[value];
  TRY(s->dnnl_memory_desc_create_with_tag(desc, v->rank, v->dims, F32, ANY));
  return keep(s, *desc);
}

static int32_t add_slot(struct state *s, object desc, int32_t kind, int64_t place, int32_t *slot) {
  if (s->num_slots == MOST_SLOTS) return TOO_LARGE;
  int64_t bytes = (s->dnnl_memory_desc_get_size(desc) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  s->slots[*slot = s->num_slots++] =
      (struct slot){desc, kind, s->num_steps, s->num_steps, place, bytes, NULL};
  return 0;
}

/* Add a primitive of a descriptor, which the state holds already. */
static int32_t add_step(struct state *s, object pd, int32_t count, const int32_t *names,
                        const int32_t *slots) {
  struct step *step = &s->steps[s->num_steps];
  memcpy(step->names, names, count * sizeof *names);
  memcpy(step->slots, slots, count * sizeof *slots);
  object pad = s->dnnl_primitive_desc_query_md(pd, SCRATCHPAD_MD, 0);
  if (pad && s->dnnl_memory_desc_get_size(pad)) {
    step->names[count] = SCRATCHPAD;
    TRY(add_slot(s, pad, SCRATCH, 0, &step->slots[count++]));
  }
  for (int32_t n = 0; n < count; n++) s->slots[step->slots[n]].last = s->num_steps;
  step->count = count;
  TRY(s->dnnl_primitive_create(&step->primitive, pd));
  s->num_steps++;
  return 0;
}

static int32_t add_descriptor(struct state *s, object pd) {
  if (s->num_descriptors == MOST_STEPS) return s->dnnl_primitive_desc_destroy(pd), TOO_LARGE;
  s->descriptors[s->num_descriptors++] = pd;
  return 0;
}

static int32_t attributes(struct state *s, const struct node *n, object *attr) {
  object posts = NULL;
  TRY(s->dnnl_primitive_attr_create(attr));
  /* The library's own scratchpad makes a primitive one for a single thread. */
  int32_t status = s->dnnl_primitive_attr_set_scratchpad_mode(*attr, USER_SCRATCHPAD);
#ifdef MATH
  if (!status) status = s->dnnl_primitive_attr_set_fpmath_mode(*attr, MATH);
#endif
  if (!status) status = s->dnnl_post_ops_create(&posts);
  for (const struct post *p = n->posts; n && p < n->posts + n->num_posts && !status; p++)
    status = p->algorithm == SUM
        ? s->dnnl_post_ops_append_sum(posts, 1, 0, F32)
        : s->dnnl_post_ops_append_eltwise(posts, p->algorithm, number(p->alpha), number(p->beta));
  if (!status) status = s->dnnl_primitive_attr_set_post_ops(*attr, posts);
  if (posts) s->dnnl_post_ops_destroy(posts);
  if (status) s->dnnl_primitive_attr_destroy(*attr);
  return status;
}

static int32_t reorder(struct state *s, int32_t from, int32_t to) {
  static const struct node nothing;
  object attr, pd, e = s->engine;
  TRY(attributes(s, &nothing, &attr));
  int32_t status = s->dnnl_reorder_primitive_desc_create(
      &pd, s->slots[from].desc, e, s->slots[to].desc, e, attr);
  s->dnnl_primitive_attr_destroy(attr);
  TRY(status);
  TRY(add_descriptor(s, pd));
  return add_step(s, pd, 2, (int32_t[]){SRC, DST}, (int32_t[]){from, to});
}

/* Bring a value into a layout, where it is not in it. */
static int32_t converted(struct state *s, int64_t value, object desc, int32_t *slot) {
  *slot = s->slot_of[value];
  if (s->dnnl_memory_desc_equal(s->slots[*slot].desc, desc)) return 0;
  int32_t from = *slot;
  TRY(add_slot(s, desc, SCRATCH, 0, slot));
  s->slot_of[value] = *slot;
  return reorder(s, from, *slot);
}

/* Weights in the layout of a primitive: as they are given, or a copy that is made when opening. */
static int32_t pack(struct state *s, int64_t value, object desc, int32_t *slot) {
  int32_t from = *slot = s->slot_of[value];
  if (s->weights && !s->weights[s->values[value].buffer]) return NO_WEIGHTS;
  if (s->dnnl_memory_desc_equal(s->slots[from].desc, desc)) return 0;
  TRY(add_slot(s, desc, OWNED, 0, slot));
  struct slot *to = &s->slots[*slot];
  if (s->weights && !(to->memory = aligned_alloc(ALIGNMENT, to->bytes))) return NO_MEMORY;
  TRY(reorder(s, from, *slot));
  s->steps[s->num_steps - 1].when = OPENING;
  return 0;
}

/* Make a place for a result in a layout: its buffer, if that has it, else a part of the scratch. */
static int32_t result(struct state *s, int64_t value, object desc, int32_t *slot) {
  int64_t buffer = s->values[value].buffer;
  object wanted;
  if (buffer >= 0) {
    TRY(plain(s, value, &wanted));
    if (s->dnnl_memory_desc_equal(wanted, desc)) {
      TRY(add_slot(s, wanted, BUFFER, buffer, slot));
      return s->slot_of[value] = *slot, 0;
    }
  }
  TRY(add_slot(s, desc, SCRATCH, 0, slot));
  return s->slot_of[value] = *slot, 0;
}

/* Copy a result into its buffer, if it was computed elsewhere. */
static int32_t deliver(struct state *s, int64_t value) {
  int64_t buffer = s->values[value].buffer;
  int32_t from = s->slot_of[value], to;
  object wanted;
  if (buffer < 0 || s->slots[from].kind == BUFFER) return 0;
  TRY(plain(s, value, &wanted));
  TRY(add_slot(s, wanted, BUFFER, buffer, &to));
  return reorder(s, from, to);
}

/* Add a convolution or a product, with what its bias and its post operations read. */
static int32_t add_weighted(struct state *s, const struct node *n, object pd) {
  int32_t names[] = {SRC, WEIGHTS, DST, BIAS}, slots[4], other;
  TRY(converted(s, n->src, s->dnnl_primitive_desc_query_md(pd, SRC_MD, 0), &slots[0]));
  object weights = s->dnnl_primitive_desc_query_md(pd, WEIGHTS_MD, 0);
  if (n->is_packed) TRY(pack(s, n->weights, weights, &slots[1]));
  else TRY(converted(s, n->weights, weights, &slots[1]));
  if (n->sum >= 0) other = s->slot_of[n->sum];
  TRY(result(s, n->dst, s->dnnl_primitive_desc_query_md(pd, DST_MD, 0), &slots[2]));
  if (n->sum >= 0) TRY(reorder(s, other, slots[2]));
  if (n->bias >= 0) slots[3] = s->slot_of[n->bias];
  return add_step(s, pd, n->bias >= 0 ? 4 : 3, names, slots);
}

static int32_t add_simple(struct state *s, const struct node *n, object pd) {
  int32_t names[] = {SRC, DST, SRC_1}, slots[3];
  TRY(converted(s, n->src, s->dnnl_primitive_desc_query_md(pd, SRC_MD, 0), &slots[0]));
  if (n->kind == BINARY)
    TRY(converted(s, n->weights, s->slots[slots[0]].desc, &slots[2]));
  TRY(result(s, n->dst, s->dnnl_primitive_desc_query_md(pd, DST_MD, 0), &slots[1]));
  return add_step(s, pd, n->kind == BINARY ? 3 : 2, names, slots);
}

/* Between buffers, a product of the channels is faster as it lies than with copies in blocks; any
   other convolution is not. */
static int stays_plain(const struct state *s, const struct node *n) {
  for (int32_t d = 0; d < 3; d++)
    if (n->kernel[d] > 1 || n->strides[d] > 1 || n->low[d] || n->high[d]) return 0;
  return s->slots[s->slot_of[n->src]].kind == BUFFER && s->values[n->dst].buffer >= 0 &&
         s->values[n->weights].rank == s->values[n->src].rank;
}

static int32_t describe(struct state *s, const struct node *n, object attr, object *pd) {
  object e = s->engine, src, weights, bias = NULL, dst, now = s->slots[s->slot_of[n->src]].desc;
  TRY(any(s, n->dst, &dst));
  if (n->bias >= 0) TRY(plain(s, n->bias, &bias));
  switch (n->kind) {
  case CONVOLUTION:
    TRY((stays_plain(s, n) ? plain : any)(s, n->src, &src));
    if (stays_plain(s, n)) TRY(plain(s, n->dst, &dst));
    TRY(any(s, n->weights, &weights));
    return s->dnnl_convolution_forward_primitive_desc_create(pd, e, INFERENCE, AUTO, src, weights,
        bias, dst, n->strides, n->dilations, n->low, n->high, attr);
  case MATMUL:
    TRY(plain(s, n->src, &src));
    TRY(plain(s, n->dst, &dst));
    TRY((n->is_packed ? any : plain)(s, n->weights, &weights));
    return s->dnnl_matmul_primitive_desc_create(pd, e, src, weights, bias, dst, attr);
  case POOLING:
    return s->dnnl_pooling_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, now, dst,
        n->strides, n->kernel, n->dilations, n->low, n->high, attr);
  case ELTWISE:
    return s->dnnl_eltwise_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, now, dst,
        number(n->alpha), number(n->beta), attr);
  case SOFTMAX:
    return s->dnnl_softmax_forward_primitive_desc_create(pd, e, INFERENCE, n->algorithm, now, dst,
        n->axis, attr);
  default:
    return s->dnnl_binary_primitive_desc_create(pd, e, n->algorithm, now, now, dst, attr);
  }
}

static int32_t add_node(struct state *s, const struct node *n) {
  object attr, pd;
  const char *name = NULL;
  if (s->num_steps + 8 > MOST_STEPS) return TOO_LARGE;
  TRY(attributes(s, n, &attr));
  int32_t status = describe(s, n, attr, &pd);
  s->dnnl_primitive_attr_destroy(attr);
  TRY(status);
  TRY(add_descriptor(s, pd));
  TRY(s->dnnl_primitive_desc_query(pd, INFO, 0, &name));
  /* The library's reference code is right, but slower than any other. */
  if (n->kind <= POOLING && !strncmp(name, "ref", 3)) return REFUSED;
  TRY((n->kind <= MATMUL ? add_weighted : add_simple)(s, n, pd));
  return deliver(s, n->dst);
}

/* Place what lies in the scratch: what is used at the same time lies apart. */
static void place(struct state *s) {
  for (struct slot *a = s->slots; a < s->slots + s->num_slots; a++) {
    if (a->kind != SCRATCH) continue;
    for (struct slot *b = s->slots; b < a; b++)
      if (b->kind == SCRATCH && b->first <= a->last && a->first <= b->last &&
          b->place < a->place + a->bytes && a->place < b->place + b->bytes) {
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
  if (8 * h->words != bytes || h->num_values > MOST_SLOTS) return OTHER_TABLE;
  s->values = (const struct value *)(h + 1);
  nodes = (const struct node *)(s->values + h->num_values);
  s->planned = h->scratch_bytes;
  s->scratch_buffer = h->scratch_buffer;
  TRY(s->dnnl_engine_create(&s->engine, CPU, 0));
  for (int64_t n = 0; n < h->num_values; n++) {
    object desc;
    if (!s->values[n].is_input) continue;
    TRY(plain(s, n, &desc));
    TRY(add_slot(s, desc, BUFFER, s->values[n].buffer, &s->slot_of[n]));
  }
  for (int64_t n = 0; n < h->num_nodes; n++) TRY(add_node(s, &nodes[n]));
  place(s);
  return 0;
}
