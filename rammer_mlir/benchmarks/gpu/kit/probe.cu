// What a device does, measured: shared addresses, bandwidth by bytes in flight, hand-off between
// blocks. Every parameter has 64 bits.
typedef unsigned long long u64;

// Loads from a shared address that is a register below zero and an immediate above it.
extern "C" __global__ void wrap(int *out, u64 below) {
  __shared__ int s[1024];
  for (int i = threadIdx.x; i < 1024; i += 256) s[i] = i;
  __syncthreads();
  unsigned base = (unsigned)__cvta_generic_to_shared(s);
  unsigned address = base + 4u * threadIdx.x - (unsigned)below;
  int value;
  asm volatile("ld.shared.b32 %0,[%1+8192];" : "=r"(value) : "r"(address));
  out[threadIdx.x] = value;
}

// Reads n elements of 16 bytes, with LOADS of them in flight in each thread.
template <int LOADS>
__device__ void read(const uint4 *p, u64 n, uint4 *out) {
  uint4 a = {0, 0, 0, 0};
  u64 stride = (u64)gridDim.x * blockDim.x;
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i + (LOADS - 1) * stride < n;
       i += LOADS * stride) {
    uint4 v[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; k++)
      asm volatile("ld.global.v4.u32 {%0,%1,%2,%3},[%4];"
                   : "=r"(v[k].x), "=r"(v[k].y), "=r"(v[k].z), "=r"(v[k].w)
                   : "l"(p + i + k * stride));
#pragma unroll
    for (int k = 0; k < LOADS; k++) {
      a.x ^= v[k].x;
      a.y ^= v[k].y;
      a.z ^= v[k].z;
      a.w ^= v[k].w;
    }
  }
  // Never true of memory that was filled with one byte; the compiler cannot know.
  if (a.x == 0x12345) out[threadIdx.x] = a;
}
extern "C" __global__ void read1(const uint4 *p, u64 n, uint4 *out) { read<1>(p, n, out); }
extern "C" __global__ void read4(const uint4 *p, u64 n, uint4 *out) { read<4>(p, n, out); }
extern "C" __global__ void read16(const uint4 *p, u64 n, uint4 *out) { read<16>(p, n, out); }

// Passes 256 numbers from block to block; POLL 0 acquires and sleeps, 1 acquires, 2 relaxes.
template <int POLL>
__device__ void pass(u64 *counters, float *data, u64 steps) {
  u64 b = blockIdx.x, n = gridDim.x;
  for (u64 s = b; s < steps; s += n) {
    if (s) {
      if (threadIdx.x == 0) {
        u64 *p = counters + 16 * ((s - 1) % n), wanted = (s - 1) / n + 1, v;
        for (;;) {
          if (POLL == 2)
            asm volatile("ld.relaxed.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
          else
            asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
          if (v >= wanted) break;
          if (POLL == 0) __nanosleep(64);
        }
        if (POLL == 2) asm volatile("fence.acq_rel.gpu;" ::: "memory");
      }
      __syncthreads();
    }
    float x = s ? data[256 * (s - 1) + threadIdx.x] : 0;
    data[256 * s + threadIdx.x] = x + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      u64 v = s / n + 1;
      asm volatile("st.release.gpu.global.u64 [%0],%1;" ::"l"(counters + 16 * b), "l"(v) : "memory");
    }
  }
}
extern "C" __global__ void pass_sleeping(u64 *c, float *d, u64 n) { pass<0>(c, d, n); }
extern "C" __global__ void pass_acquiring(u64 *c, float *d, u64 n) { pass<1>(c, d, n); }
extern "C" __global__ void pass_relaxed(u64 *c, float *d, u64 n) { pass<2>(c, d, n); }

// All blocks wait for each other, again and again.
extern "C" __global__ void meet(u64 *counter, u64 times) {
  for (u64 i = 1; i <= times; i++) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("red.release.gpu.global.add.u64 [%0],1;" ::"l"(counter) : "memory");
      u64 v;
      do {
        asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(counter) : "memory");
      } while (v < i * gridDim.x);
    }
    __syncthreads();
  }
}
