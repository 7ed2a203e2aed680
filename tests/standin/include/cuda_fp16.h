// nccl.h includes this header. The stand-in declares no device types.
#pragma once
