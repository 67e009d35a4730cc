/* Opening, running and closing of what `build.c` has built. */

static void release(struct state *s, struct context *c) {
  for (int32_t n = 0; n < s->num_slots; n++)
    if (c->memories[n]) s->dnnl_memory_destroy(c->memories[n]);
  if (c->stream) s->dnnl_stream_destroy(c->stream);
  free(c);
}

static struct context *make_context(struct state *s) {
  struct context *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  int32_t status = s->dnnl_stream_create(&c->stream, s->engine, IN_ORDER);
  for (int32_t n = 0; n < s->num_slots && !status; n++)
    status = s->dnnl_memory_create(&c->memories[n], s->slots[n].desc, s->engine, s->slots[n].memory);
  for (int32_t n = 0; n < s->num_steps && !status; n++)
    for (int32_t a = 0; a < s->steps[n].count; a++)
      c->arguments[n][a] =
          (struct argument){s->steps[n].names[a], c->memories[s->steps[n].slots[a]]};
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
static int32_t execute(struct state *s, void *const *buffers, char *scratch, int32_t when) {
  int32_t before = s->omp_get_max_threads(), status = 0;
  struct context *c = take(s);
  if (!c) return NO_MEMORY;
  if (before != THREADS) s->omp_set_num_threads(THREADS); /* of the calling thread */
  for (int32_t n = 0; n < s->num_slots && !status; n++) {
    const struct slot *slot = &s->slots[n];
    if (slot->kind == OWNED) continue;
    void *start = slot->kind == BUFFER ? buffers[slot->place] : scratch + slot->place;
    status = s->dnnl_memory_set_data_handle(c->memories[n], start);
  }
  for (int32_t n = 0; n < s->num_steps && !status; n++)
    if (s->steps[n].when == when)
      status = s->dnnl_primitive_execute(s->steps[n].primitive, c->stream, s->steps[n].count,
                                         c->arguments[n]);
  if (before != THREADS) s->omp_set_num_threads(before);
  give(s, c);
  return status;
}

static int32_t execute_apart(struct state *s, void *const *buffers, int32_t when) {
  char *own = s->needed ? aligned_alloc(ALIGNMENT, s->needed) : NULL;
  int32_t status = own || !s->needed ? execute(s, buffers, own, when) : NO_MEMORY;
  free(own);
  return status;
}

static int32_t run_region(struct state *s, void *const *buffers) {
  /* Planned by the machine that compiled: another processor may take more. */
  if (s->needed > s->planned) return execute_apart(s, buffers, RUNNING);
  return execute(s, buffers, s->needed ? buffers[s->scratch_buffer] : NULL, RUNNING);
}

static void close_region(struct state *s) {
  for (int32_t n = 0; n < MOST_IDLE; n++)
    if (s->idle[n]) release(s, s->idle[n]);
  for (int32_t n = 0; n < s->num_steps; n++) s->dnnl_primitive_destroy(s->steps[n].primitive);
  for (int32_t n = 0; n < s->num_descriptors; n++) s->dnnl_primitive_desc_destroy(s->descriptors[n]);
  for (int32_t n = 0; n < s->num_kept; n++) s->dnnl_memory_desc_destroy(s->kept[n]);
  for (int32_t n = 0; n < s->num_slots; n++) free(s->slots[n].memory);
  if (s->engine) s->dnnl_engine_destroy(s->engine);
  free(s);
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
  if (!status && s->weights) status = execute_apart(s, s->weights, OPENING);
  if (status) close_region(s);
  else *out = s;
  return status;
}
