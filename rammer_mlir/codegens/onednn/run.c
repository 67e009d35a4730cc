/* Opening, running and closing of what `build.c` has built. */

static void release(struct state *s, struct context *c) {
  for (int32_t n = 0; n < s->num_slots; n++)
    if (c->memories[n]) s->dnnl_memory_destroy(c->memories[n]);
  if (c->stream) s->dnnl_stream_destroy(c->stream);
  free(c);
}

static struct context *make_context(struct state *s) {
  int64_t memories = s->num_slots * sizeof(object);
  struct context *c = calloc(1, sizeof *c + memories + s->num_uses * sizeof(struct argument));
  if (!c) return NULL;
  c->memories = (object *)(c + 1);
  c->arguments = (struct argument *)((char *)(c + 1) + memories);
  int32_t status = s->dnnl_stream_create(&c->stream, s->engine, IN_ORDER);
  for (int32_t n = 0; n < s->num_slots && !status; n++)
    status = s->dnnl_memory_create(&c->memories[n], s->slots[n].desc, s->engine, s->slots[n].memory);
  for (int32_t n = 0; n < s->num_uses && !status; n++)
    c->arguments[n] = (struct argument){s->uses[n].name, c->memories[s->uses[n].slot]};
  return status ? release(s, c), NULL : c;
}

static struct context *take(struct state *s) {
  for (int32_t n = 0; n < MOST_IDLE; n++) {
    struct context *c = atomic_load_explicit(&s->idle[n], memory_order_relaxed);
    if (c && (c = atomic_exchange(&s->idle[n], NULL))) return c;
  }
  return make_context(s);
}

static void give(struct state *s, struct context *c) {
  for (int32_t n = 0; n < MOST_IDLE; n++) {
    struct context *none = NULL;
    if (atomic_compare_exchange_strong(&s->idle[n], &none, c)) return;
  }
  release(s, c);
}

/* Run the steps of a time; a primitive has ended when its execution returns. */
static int32_t execute(struct state *s, int64_t rtask, void *const *buffers, char *scratch,
                       int32_t when) {
  int32_t before = s->omp_get_max_threads(), status = 0;
  struct context *c = take(s);
  if (!c) return NO_MEMORY;
  if (before != THREADS) s->omp_set_num_threads(THREADS); /* of the calling thread */
  for (int32_t n = 0; n < s->num_slots && !status; n++) {
    const struct slot *slot = &s->slots[n];
    if (slot->kind == OWNED) continue;
    char *start = slot->kind == BUFFER ? buffers[slot->place] : scratch + slot->place;
    status = s->dnnl_memory_set_data_handle(c->memories[n], start + rtask * slot->rtask_bytes);
  }
  for (int32_t n = 0; n < s->num_steps && !status; n++)
    if (s->steps[n].when == when)
      status = s->dnnl_primitive_execute(s->steps[n].primitive, c->stream, s->steps[n].count,
                                         c->arguments + s->steps[n].first);
  if (before != THREADS) s->omp_set_num_threads(before);
  give(s, c);
  return status;
}

static int32_t execute_apart(struct state *s, int64_t rtask, void *const *buffers, int32_t when) {
  char *own = s->needed ? aligned_alloc(ALIGNMENT, s->needed) : NULL;
  int32_t status = own || !s->needed ? execute(s, rtask, buffers, own, when) : NO_MEMORY;
  free(own);
  return status;
}

static int32_t run_region(struct state *s, int64_t rtask, void *const *buffers) {
  /* Planned by the machine that compiled: another processor may take more. */
  if (s->needed > s->planned) return execute_apart(s, rtask, buffers, RUNNING);
  char *scratch = s->needed ? (char *)buffers[s->scratch_buffer] + rtask * s->planned : NULL;
  return execute(s, rtask, buffers, scratch, RUNNING);
}

static void close_region(struct state *s) {
  for (int32_t n = 0; n < MOST_IDLE; n++)
    if (s->idle[n]) release(s, s->idle[n]);
  for (int32_t n = 0; n < s->num_steps; n++) s->dnnl_primitive_destroy(s->steps[n].primitive);
  for (int32_t n = 0; n < s->num_descriptors; n++) s->dnnl_primitive_desc_destroy(s->descriptors[n]);
  for (int32_t n = 0; n < s->num_kept; n++) s->dnnl_memory_desc_destroy(s->kept[n]);
  for (int32_t n = 0; n < s->num_slots; n++) free(s->slots[n].memory);
  if (s->engine) s->dnnl_engine_destroy(s->engine);
  void *lists[] = {s->slots, s->steps, s->uses, s->kept, s->descriptors, s->slot_of, s};
  for (size_t n = 0; n < sizeof lists / sizeof *lists; n++) free(lists[n]);
}

static int32_t open_region(struct state **out, const struct rammer_host *host, words table) {
  struct state *s = calloc(1, sizeof *s);
  if (!s) return NO_MEMORY;
  s->weights = host->weights;
  if (connect(s, host)) return free(s), NO_FUNCTION;
  int32_t before = s->omp_get_max_threads();
  s->omp_set_num_threads(THREADS); /* primitives are made for as many threads as there are now */
  int32_t status = build(s, table);
  s->omp_set_num_threads(before);
  if (!status && s->weights) status = execute_apart(s, 0, s->weights, OPENING);
  if (status) close_region(s);
  else *out = s;
  return status;
}

/* Say how much scratch a region needs, and how many bytes each of its rTasks converts. */
static int32_t ask_region(const struct rammer_host *host, words table, int64_t *answers) {
  struct state *s;
  TRY(open_region(&s, host, table));
  answers[0] = s->needed, answers[1] = s->converted;
  return close_region(s), 0;
}
