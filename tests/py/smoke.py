"""A Python program on the library: load it in the way the first argument names, ask, compute, close.

    smoke.py path FILE    by its full path
    smoke.py name         by its short name, from the library path
    smoke.py preloaded    by no name at all: it is in the process already

A last argument `emulated` says that this process is on device files of a trn2.48xlarge; without it
the program asks for a simulated one.

Prints nothing; an assertion that fails ends it with a traceback and status 1.
"""

import ctypes
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_void_p

DEVICE = 0
SUCCESS, UNINITIALIZED = 0, 13


def load(how, file=None):
    if how == "preloaded":
        return ctypes.CDLL(None)
    return ctypes.CDLL(file if how == "path" else "libnrt.so.1")


class InstanceInfo(ctypes.Structure):
    _fields_ = [("family", c_uint32), ("size", c_uint32), ("arch_name", ctypes.c_char * 16), ("revision", ctypes.c_char * 8)]


def ok(status):
    assert status == SUCCESS, status


def count(call):
    n = c_uint32(77)
    ok(call(byref(n)))
    return n.value


def main(nrt, emulated):
    nrt.nrt_tensor_allocate.argtypes = [c_int, c_int32, c_size_t, c_char_p, POINTER(c_void_p)]
    nrt.nrt_tensor_write.argtypes = nrt.nrt_tensor_read.argtypes = [c_void_p, c_void_p, c_size_t, c_size_t]
    nrt.nrt_tensor_get_size.argtypes, nrt.nrt_tensor_get_size.restype = [c_void_p], c_size_t
    nrt.nrt_tensor_free.argtypes, nrt.nrt_tensor_free.restype = [POINTER(c_void_p)], None
    nrt.nrt_close.restype = None

    # The environment is read at the first question and not when the library is loaded.
    if not emulated:
        os.environ["NEURON_RT_FAKE_INSTANCE_TYPE"] = "trn2.48xlarge"
    os.environ["NEURON_RT_VISIBLE_CORES"] = "4-7"
    assert count(nrt.nrt_get_total_vnc_count) == count(nrt.nrt_get_total_nc_count) == 64
    assert count(nrt.nrt_get_visible_vnc_count) == count(nrt.nrt_get_visible_nc_count) == 4

    info = InstanceInfo()
    revision = b"A" if emulated else b""  # a simulated instance has no silicon
    assert ctypes.sizeof(info) == 32
    ok(nrt.nrt_get_instance_info(byref(info), ctypes.sizeof(info)))
    assert bytes(info) == b"\x05\0\0\0\x07\0\0\0" + b"trn2".ljust(16, b"\0") + revision.ljust(8, b"\0"), bytes(info)

    tensor = c_void_p()
    ok(nrt.nrt_init(3, b"2.9", b""))
    ok(nrt.nrt_tensor_allocate(DEVICE, 3, 1 << 20, b"weights", byref(tensor)))
    assert nrt.nrt_tensor_get_size(tensor) == 1 << 20
    data = os.urandom(1 << 20)
    back = ctypes.create_string_buffer(len(data))
    ok(nrt.nrt_tensor_write(tensor, data, 0, len(data)))
    ok(nrt.nrt_tensor_read(tensor, back, 0, len(data)))
    assert back.raw == data
    nrt.nrt_tensor_free(byref(tensor))
    assert tensor.value is None
    nrt.nrt_close()
    assert count(nrt.nrt_get_visible_vnc_count) == 4


if __name__ == "__main__":
    emulated = sys.argv[-1] == "emulated"
    main(load(*sys.argv[1 : -1 if emulated else None]), emulated)
