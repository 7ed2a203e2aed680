// nccl.h includes this header; the stand-in has no device types to declare.
#pragma once
