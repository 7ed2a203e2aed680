// nccl.h includes this name; the stand-in has no device types to declare.
#ifndef LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_FP16_H_
#define LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_FP16_H_
#endif  // LOCKSTEP_TESTS_STANDIN_INCLUDE_CUDA_FP16_H_
