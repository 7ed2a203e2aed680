// The GPU code of the measuring programs. They load kernels.ptx, which ptx.sh makes from this file, so the machines
// need no CUDA compiler. The functions are looked up by name, so they are extern "C".

// One step of a dependent chain; the shortest possible kernel.
extern "C" __global__ void lockstep_tiny(unsigned long long* cell) {
  *cell += 1;
}

// Runs until the host sets *flag, at most `limit` nanoseconds. Stands for an endless kernel without blocking the GPU.
extern "C" __global__ void lockstep_spin(const volatile unsigned int* flag, unsigned long long limit) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (*flag == 0 && now - begin < limit);
}

// c = a * b for n x n matrices, with n a multiple of 16, in blocks of 16 x 16. Keeps every multiprocessor busy.
extern "C" __global__ void lockstep_gemm(const float* a, const float* b, float* c, unsigned int n) {
  __shared__ float left[16][16];
  __shared__ float right[16][16];
  const unsigned int row = blockIdx.y * 16 + threadIdx.y;
  const unsigned int column = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (unsigned int tile = 0; tile < n; tile += 16) {
    left[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
    right[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
    __syncthreads();
    for (unsigned int i = 0; i < 16; ++i) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
