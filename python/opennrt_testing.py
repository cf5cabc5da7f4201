"""Neuron instances for tests, without Neuron hardware.

    with opennrt_testing.fake("trn2.48xlarge") as neuron:        # simulated inside each process
        neuron.run(["./my-program"], check=True)

    with opennrt_testing.emulated("trn1.32xlarge") as neuron:    # device files; root and /dev/fuse
        neuron.run(["./my-program"], check=True)
        neuron.ctl("fault", "reset-no-ack")

With pytest (`-p opennrt_testing`, or `pytest_plugins = ["opennrt_testing"]` in conftest.py) the fixtures
`neuron_fake`, `neuron_emulated` and `neuron`, which runs a test on both, yield the same objects:

    @pytest.mark.neuron(instance="trn1.32xlarge", cores="0-3")
    def test_counts(neuron_fake):
        nrt = neuron_fake.load()

One process, one instance. `libnrt.so.1` reads the environment of its process when it is first asked, and what it
found then, the instance type above all, holds until the process ends. While a fixture lives, `os.environ` leads to
its instance, so a test may use the library in its own process; but all such tests of one process need the same kind
and type, and another one is refused with `NeuronError`. Tests that only start other processes
(`neuron.run`) may have any instance: mark them `@pytest.mark.neuron(in_process=False)`. Tests that need another
instance in their own process need another process: a call of pytest for each type, or pytest-forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["NeuronError", "NeuronMissing", "Neuron", "fake", "emulated"]

_FAKE = "NEURON_RT_FAKE_INSTANCE_TYPE"
_DEV, _SYS, _HBM = "OPENNRT_DEV_DIR", "OPENNRT_SYS_DIR", "OPENNRT_HBM_MIB"
_CORES = "NEURON_RT_VISIBLE_CORES"
_PATH = "LD_LIBRARY_PATH"

# What chooses an instance and its cores. None of it comes from outside: the same test has the same instance everywhere.
_CHOICE = (
    (_FAKE, _DEV, _SYS, _HBM, _CORES)
    + ("NEURON_RT_NUM_CORES", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
)

_LIBRARY = "libnrt.so.1"
_EMULATOR = "neuron-emu"

_NEXT = "install OpenNRT, set OPENNRT_PREFIX to the folder it is installed in, or give the path ({how})"


class NeuronError(RuntimeError):
    """An instance cannot be had as asked."""


class NeuronMissing(NeuronError):
    """This machine lacks something: OpenNRT itself, root, or /dev/fuse."""


# ---- where things are ------------------------------------------------------------------------------------------------


def _prefixes():
    chosen = os.environ.get("OPENNRT_PREFIX")
    if chosen:
        return [Path(chosen).absolute()]
    folder = Path(__file__).resolve().parent
    installed = folder.parts[-3:] == ("share", "opennrt", "python")
    return [folder.parents[2]] * installed + [Path("/usr"), Path("/opt/opennrt")]


def _find(given, below, how):
    """The file that was given, or the first one below a prefix."""
    name = Path(below).name
    if given is not None:
        path = Path(given).expanduser().absolute()
        if not path.is_file():
            raise NeuronError(f"there is no file {path}; give the path of {name} ({how})")
        return path
    for prefix in _prefixes():
        if (prefix / below).is_file():
            return prefix / below
    return None


def _find_library(given):
    how = "library=, --neuron-library or neuron_library in the ini file"
    path = _find(given, "lib/" + _LIBRARY, how)
    if path is None:
        places = ", ".join(str(prefix / "lib") for prefix in _prefixes())
        raise NeuronMissing(f"there is no {_LIBRARY} in {places}; {_NEXT.format(how=how)}")
    if path.name != _LIBRARY:
        # Programs ask the loader for this name and would get another library, or none.
        raise NeuronError(f"{path} is not named {_LIBRARY}; give the link of that name that `make install` makes beside it")
    return path


def _find_emulator(given, library):
    how = "emulator=, --neuron-emulator or neuron_emulator in the ini file"
    path = _find(given, "bin/" + _EMULATOR, how)
    if path is None:
        beside = library.parent.parent / "bin" / _EMULATOR
        on_path = shutil.which(_EMULATOR)
        path = beside if beside.is_file() else on_path and Path(on_path).absolute()
    if not path:
        places = ", ".join(str(prefix / "bin") for prefix in _prefixes())
        raise NeuronMissing(f"there is no {_EMULATOR} in {places} or PATH; {_NEXT.format(how=how)}")
    return path


# ---- an instance -----------------------------------------------------------------------------------------------------


class Neuron:
    """An instance for as long as its `with` block or its test lasts.

    `kind`      "fake" or "emulated"
    `instance`  type, such as "trn2.48xlarge"
    `library`   path of libnrt.so.1, a str
    `env`       whole environment for other processes; a dict of this object's own, to be changed freely
    """

    def __init__(self, kind, instance, library, variables, env):
        self.kind, self.instance, self.library = kind, instance, str(library)
        path = os.pathsep.join(filter(None, [str(library.parent), os.environ.get(_PATH)]))
        self._variables = {**variables, _PATH: path, **{name: str(value) for name, value in (env or {}).items()}}
        self.env = {name: value for name, value in os.environ.items() if name not in _CHOICE}
        self.env.update(self._variables)
        programs = str(library.parent.parent / "bin")
        if os.path.isdir(programs):
            self.env["PATH"] = os.pathsep.join([self.env.get("PATH", os.defpath), programs])

    def __repr__(self):
        return f"<{self.kind} {self.instance}>"

    def run(self, argv, **options):
        """`subprocess.run` on this instance; `env=` adds variables to its environment."""
        env = {**self.env, **(options.pop("env", None) or {})}
        return subprocess.run(argv, env=env, **options)

    @contextlib.contextmanager
    def in_process(self):
        """`os.environ` leads this process to the instance inside the block. The fixtures do this by themselves.

        Raises NeuronError when this process has used the library on another instance before.
        """
        _process.enter(self)
        names = set(_CHOICE) | set(self._variables)
        before = {name: os.environ.get(name) for name in names}
        try:
            _set_environment({name: self._variables.get(name) for name in names})
            yield self
        finally:
            _process.leave(self)
            _set_environment(before)

    def load(self):
        """The library as a `ctypes.CDLL`, in this process.

        Whatever asks the loader for `libnrt.so.1` afterwards, a framework for instance, gets this one too.
        """
        if _process.active is not self:
            raise NeuronError("os.environ does not lead to this instance; call load() inside `with neuron.in_process():`")
        return ctypes.CDLL(self.library, mode=ctypes.RTLD_GLOBAL)


def _set_environment(values):
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class _Process:
    """What this process has seen: `bound` is the kind and type the library may have found in it."""

    active = None
    bound = None

    def enter(self, neuron):
        wanted = (neuron.kind, neuron.instance)
        if self.active is not None:
            raise NeuronError(
                f"os.environ leads to {self.active} already; use one instance at a time in a process, "
                f"and only run() of {neuron}"
            )
        if self.bound is None:
            backend = _used_before()
            self.bound = backend and (backend, "instance it found before the first test")
        if self.bound not in (None, wanted):
            raise NeuronError(
                f"this process has used libnrt.so.1 on the {' '.join(self.bound)} and cannot use it on the "
                f"{' '.join(wanted)}; start other processes with run() and mark the test "
                "@pytest.mark.neuron(in_process=False), or give it a process of its own (a call of pytest for each type, or "
                "pytest-forked)"
            )
        self.active = neuron

    def leave(self, neuron):
        self.active = None
        if _loaded() is None:
            return
        self.bound = (neuron.kind, neuron.instance)
        library = _handle()
        if neuron.kind == "emulated" and library is not None:
            # A test that failed half-way leaves the library up, on devices that are about to go away.
            library.nrt_close.restype = None
            library.nrt_close()


_process = _Process()


def _loaded():
    """Path of the libnrt in this process, whoever loaded it."""
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and os.path.basename(fields[5]).startswith("libnrt.so"):
                return fields[5]
    return None


def _handle():
    """That library, without loading it; None when it is not there or is not OpenNRT."""
    path = _loaded()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD)
        library.opennrt_backend.restype = ctypes.c_char_p
    except (OSError, AttributeError):
        return None
    return library


def _used_before():
    """The backend that the library holds on to although no variable leads to one, or None."""
    library = _handle()
    if library is None:
        return None
    before = {name: os.environ.get(name) for name in (_FAKE, _DEV)}
    # Without a type, and where no devices are, the answer says what is pinned and the question pins nothing.
    _set_environment({_FAKE: None, _DEV: os.devnull})
    try:
        backend = library.opennrt_backend().decode()
        return None if backend == "none" else backend
    finally:
        _set_environment(before)


# ---- simulated -------------------------------------------------------------------------------------------------------

_PROBE = """
import ctypes, sys
try:
    nrt = ctypes.CDLL(sys.argv[1])
except OSError as error:
    sys.exit(f"cannot load the library: {error}; give the libnrt.so.1 of OpenNRT")
sys.exit(nrt.nrt_get_total_nc_count(ctypes.byref(ctypes.c_uint32())) and 3)
"""


@functools.lru_cache(maxsize=None)
def _check_type(library, instance):
    """The library knows the types. It is asked in another process: its answer would hold for this one."""
    env = {_FAKE: instance, "NEURON_RT_LOG_LEVEL": "ERROR", "NEURON_RT_LOG_LOCATION": "console"}
    command = [sys.executable, "-I", "-S", "-c", _PROBE, library]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode != 0:
        said = done.stdout.strip()
        raise NeuronError(said[said.find(_FAKE):] if _FAKE in said else said or f"{library} fails on {instance}")


@contextlib.contextmanager
def fake(instance="trn2.48xlarge", library=None, hbm_mib=None, env=None, cores=None):
    """A simulated instance: each process that uses the library has its own, whole.

    `library`  path of libnrt.so.1, else the installed one
    `hbm_mib`  device memory of each device in MiB, else what the product has; counted, not touched
    `env`      more variables for its processes
    `cores`    NEURON_RT_VISIBLE_CORES, such as "0-3"

    Raises NeuronError, for an unknown type with the list of those there are; NeuronMissing without a library.
    """
    path = _find_library(library)
    if not instance:
        raise NeuronError('the instance type is empty; give one such as "trn2.48xlarge"')
    _check_type(str(path), instance)
    variables = {_FAKE: instance}
    if hbm_mib is not None:
        variables[_HBM] = str(_whole("hbm_mib", hbm_mib, "MiB"))
    if cores is not None:
        variables[_CORES] = str(cores)
    yield Neuron("fake", instance, path, variables, env)


def _whole(name, value, unit):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise NeuronError(f"{name} is {value!r}; give a whole number of {unit} from 1")
    return value


# ---- emulated --------------------------------------------------------------------------------------------------------


class _Emulated(Neuron):
    """An instance behind device files.

    `dev`, `sys`  folders with neuron0 … and with class/neuron_device, each a str
    `ctl(*words)` asks or changes it as `neuron-emu ctl` does: "status", "trace", "reset-log", "fault" KIND; the answer
                  as Python objects, for a trace and a log a list
    """

    def __init__(self, instance, library, emulator, root, process, said, cores, env):
        self.dev, self.sys = str(root / "dev"), str(root / "sys")
        self._emulator, self._root, self._process, self._said = str(emulator), str(root), process, said
        self._owner = os.getpid()
        variables = {_DEV: self.dev, _SYS: self.sys}
        if cores is not None:
            variables[_CORES] = str(cores)
        super().__init__("emulated", instance, library, variables, env)

    def ctl(self, *words):
        command = [self._emulator, "ctl", "--root", self._root, *words]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        if done.returncode != 0:
            raise NeuronError(done.stderr.strip())
        if words[0] in ("trace", "reset-log"):
            return [json.loads(line) for line in done.stdout.splitlines()]
        return json.loads(done.stdout)

    def _stop(self):
        # A forked child that leaves the block by an exception does not own the emulator.
        if os.getpid() != self._owner:
            return
        ended = self._process.poll()
        _end(self._process)
        if ended is not None:
            raise NeuronError(f"neuron-emu ended during the test with status {ended}: {_tail(self._said)}")


def _end(process):
    process.stdin.close()
    process.terminate()
    try:
        process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        # Its helper takes the mount away.
        process.kill()
        process.wait()


def _tail(file):
    file.seek(0)
    return file.read().decode(errors="replace").strip() or "it said nothing"


def _needs_of_emulation():
    """What this machine lacks for device files, or None."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    if not int(fields["CapEff"], 16) >> 21 & 1:
        return "an emulated instance needs the right to mount (CAP_SYS_ADMIN); run as root, or in `unshare -Urm`"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        next_step = "load the fuse module, or give the container that device"
        return f"an emulated instance needs /dev/fuse ({error.strerror}); {next_step}"
    return None


@contextlib.contextmanager
def emulated(
    instance="trn2.48xlarge",
    driver=None,
    hbm_gib=None,
    fault=None,
    library=None,
    emulator=None,
    env=None,
    cores=None,
    param=None,
):
    """An emulated instance, silicon and kernel driver included, for any number of processes.

    `driver`    release of the kernel driver, such as "2.26.5"
    `hbm_gib`   device memory of each device in GiB, else what the product has
    `fault`     fault from the start, or a list of them; `neuron-emu serve --help` has the kinds
    `library`   path of libnrt.so.1, else the installed one
    `emulator`  path of neuron-emu, else the installed one
    `env`       more variables for its processes
    `cores`     NEURON_RT_VISIBLE_CORES, such as "0-3"
    `param`     NAME=VALUE of the kernel module, or a list of them

    The emulator ends with the block, and when this process dies in whatever way.
    Raises NeuronError with the sentence of neuron-emu; NeuronMissing without OpenNRT, root or /dev/fuse.
    """
    library = _find_library(library)
    emulator = _find_emulator(emulator, library)
    lacks = _needs_of_emulation()
    if lacks:
        raise NeuronMissing(lacks)
    # neuron-emu makes and removes the folder, so nothing is left behind even when this process is killed.
    root = Path(tempfile.gettempdir()) / f"neuron-{secrets.token_hex(8)}"
    command = [str(emulator), "serve", "--until-stdin-closes", "--instance", instance, "--root", str(root)]
    for option, value in (("--driver", driver), ("--hbm-gib", hbm_gib)):
        command += [] if value is None else [option, str(value)]
    for option, values in (("--fault", fault), ("--param", param)):
        for value in [values] if isinstance(values, str) else values or []:
            command += [option, value]
    outside = {name: value for name, value in os.environ.items() if name not in _CHOICE}
    with tempfile.TemporaryFile() as said:
        # A session of its own: Ctrl-C is for the tests, which then stop the emulator in order.
        process = subprocess.Popen(
            command, env=outside, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )
        try:
            with process.stdout as out:
                line = out.readline()
            if not line.startswith(b"ready: "):
                process.wait()
                sentence = _tail(said)
                refused = "cannot mount" in sentence or "cannot open /dev/fuse" in sentence
                raise (NeuronMissing if refused else NeuronError)(sentence)
            neuron = _Emulated(instance, library, emulator, root, process, said, cores, env)
        except BaseException:
            _end(process)
            raise
        try:
            yield neuron
        finally:
            neuron._stop()


# ---- pytest ----------------------------------------------------------------------------------------------------------

_MARK = (
    'neuron(instance="trn2.48xlarge", cores="0-3", env={...}, hbm_gib=1, in_process=True): the instance of this test; '
    "hbm_mib for a simulated one only; driver, fault and param for an emulated one only"
)
_OPTIONS = (
    ("library", f"path of {_LIBRARY}"),
    ("emulator", f"path of {_EMULATOR}"),
    ("missing", "skip or fail where a test cannot have its instance (default: skip, and fail when CI is set)"),
)
_ONLY = {"fake": {"hbm_mib"}, "emulated": {"driver", "fault", "param"}}
_ANY = {"instance", "cores", "env", "hbm_gib", "in_process"}


def pytest_addoption(parser):
    group = parser.getgroup("neuron", "Neuron instances by OpenNRT")
    for name, text in _OPTIONS:
        group.addoption("--neuron-" + name, metavar=name.upper(), help=text)
        parser.addini("neuron_" + name, text)


def _option(config, name):
    given = config.getoption("--neuron-" + name)
    if given:
        return given
    written = config.getini("neuron_" + name)
    # A path of the ini file is relative to its folder.
    return str(config.rootpath / os.path.expanduser(written)) if written and name != "missing" else written or None


def _fail_when_missing(config):
    choice = _option(config, "missing")
    if choice not in (None, "skip", "fail"):
        raise NeuronError(f"neuron_missing is {choice!r}; set it to skip or fail")
    return choice == "fail" or choice is None and os.environ.get("CI", "").lower() not in ("", "0", "false")


def _arguments(request, kind):
    wanted = {}
    for mark in reversed(list(request.node.iter_markers("neuron"))):
        if mark.args:
            raise NeuronError(f"@pytest.mark.neuron takes names only; write instance={mark.args[0]!r}")
        wanted.update(mark.kwargs)
    (other,) = set(_ONLY) - {kind}
    for name in wanted:
        if name in _ONLY[other]:
            raise NeuronError(f"@pytest.mark.neuron({name}=…) needs neuron_{other} and this is neuron_{kind}; use that one")
        if name not in _ANY | _ONLY[kind]:
            known = ", ".join(sorted(_ANY | _ONLY[kind]))
            raise NeuronError(f"@pytest.mark.neuron knows no {name}; give some of {known}")
    if kind == "fake" and "hbm_gib" in wanted:
        wanted["hbm_mib"] = 1024 * _whole("hbm_gib", wanted.pop("hbm_gib"), "GiB")
    wanted["library"] = _option(request.config, "library")
    if kind == "emulated":
        wanted["emulator"] = _option(request.config, "emulator")
    return wanted


def pytest_configure(config):
    import pytest

    config.addinivalue_line("markers", _MARK)

    def provide(request, kind):
        wanted = _arguments(request, kind)
        in_process = wanted.pop("in_process", True)
        with contextlib.ExitStack() as stack:
            try:
                neuron = stack.enter_context({"fake": fake, "emulated": emulated}[kind](**wanted))
                if in_process:
                    stack.enter_context(neuron.in_process())
            except NeuronMissing as error:
                if _fail_when_missing(config):
                    raise
                pytest.skip(str(error))
            yield neuron

    class Fixtures:
        @pytest.fixture
        def neuron_fake(self, request):
            """A simulated instance; @pytest.mark.neuron says which."""
            yield from provide(request, "fake")

        @pytest.fixture
        def neuron_emulated(self, request):
            """An emulated instance, for which this needs root and /dev/fuse; @pytest.mark.neuron says which."""
            yield from provide(request, "emulated")

        @pytest.fixture(params=["fake", "emulated"])
        def neuron(self, request):
            """Both in turn."""
            yield from provide(request, request.param)

    config.pluginmanager.register(Fixtures(), "opennrt_testing.fixtures")
