"""A program of CUDA's driver alone, as a task runs it: `python3 cuda.py devices|busy|fault`."""

from __future__ import annotations

import ctypes
import sys
import time
import uuid

GIB = 1 << 30
_FAULT = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry fault() {
    .reg .u64 %a;
    .reg .u32 %v;
    mov.u64 %a, 8;
    mov.u32 %v, 1;
    st.global.u32 [%a], %v;
    ret;
}
"""


class Cuda:
    """Calls end the program where the driver does not answer with success."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")

    def __call__(self, name: str, *arguments: object) -> None:
        code = getattr(self._driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(text))
            sys.exit(f"{name}: {(text.value or b'?').decode()}")


def main(action: str) -> None:
    cuda = Cuda()
    cuda("cuInit", 0)
    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    cuda("cuDeviceGetCount", ctypes.byref(count))
    if action == "devices":
        for number in range(count.value):
            cuda("cuDeviceGet", ctypes.byref(device), number)
            own = (ctypes.c_ubyte * 16)()
            cuda("cuDeviceGetUuid_v2", own, device)
            print(f"GPU-{uuid.UUID(bytes=bytes(own))}", flush=True)
        return
    cuda("cuDeviceGet", ctypes.byref(device), 0)
    cuda("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    cuda("cuCtxSetCurrent", context)
    if action == "busy":
        _busy(cuda)
    elif action == "fault":
        _fault(cuda)


def _busy(cuda: Cuda) -> None:
    """Fill a GiB of its memory again and again, until somebody ends this program."""
    memory = ctypes.c_uint64()
    cuda("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(GIB))
    print("busy", flush=True)
    ends = time.monotonic() + 600
    while time.monotonic() < ends:
        for _ in range(200):
            cuda("cuMemsetD32_v2", memory, 7, ctypes.c_size_t(GIB // 4))
        cuda("cuCtxSynchronize")


def _fault(cuda: Cuda) -> None:
    """Write where no memory is: the driver reports an Xid, and ends what this program does."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cuModuleLoadData", ctypes.byref(module), _FAULT)
    cuda("cuModuleGetFunction", ctypes.byref(function), module, b"fault")
    cuda("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    cuda("cuCtxSynchronize")


if __name__ == "__main__":
    main(sys.argv[1])
