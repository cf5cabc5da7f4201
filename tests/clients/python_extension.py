"""Capsules of an extension that are destroyed at every moment an interpreter has for it.

    python_extension.py FILE      the extension, built from python_extension.c
"""

import atexit
import ctypes
import sys
from ctypes import c_char_p, c_int, c_size_t, c_void_p, py_object, pythonapi

extension = ctypes.CDLL(sys.argv[1])
extension.extension_tensor.argtypes, extension.extension_tensor.restype = [c_int, c_size_t], c_void_p
pythonapi.PyCapsule_New.argtypes, pythonapi.PyCapsule_New.restype = [c_void_p, c_void_p, c_void_p], py_object
NAME = ctypes.addressof(ctypes.c_char.in_dll(extension, "extension_name"))
DESTROY = ctypes.cast(extension.extension_destroy, c_void_p)


def tensor(size):
    return pythonapi.PyCapsule_New(extension.extension_tensor(0, size), NAME, DESTROY)


class Node:
    """Part of a cycle, so that only the collector ends it."""

    def __init__(self, size):
        self.me, self.tensor = self, tensor(size)


assert extension.extension_init() == 0
atexit.register(extension.extension_close)

for size in range(1, 11):
    tensor(size * 1000)  # gone at once, while the runtime is up
weights = [tensor(1 << bit) for bit in range(20)]  # a global
node = Node(777)  # a global in a cycle
Node.shared = tensor(4096)  # of a class
held = lambda capsule=tensor(555): capsule  # in a default argument
lost = tensor(123456)  # nobody's: one reference too many, as a careless extension leaves it
pythonapi.Py_IncRef(py_object(lost))
