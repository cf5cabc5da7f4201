"""The fixtures and context managers of python/opennrt_testing.py, as other people's tests use them.

Every test that loads the library does so in a pytest of its own: a process has one instance for its whole life.
"""

import ast
import os
import select
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import opennrt_testing
from opennrt_testing import NeuronError, NeuronMissing

pytest_plugins = ["pytester"]

PREFIX = Path(os.environ["OPENNRT_PREFIX"])
COUNT = """
import ctypes
import os
import pytest

def count(nrt, call="nrt_get_visible_nc_count"):
    n = ctypes.c_uint32()
    assert getattr(nrt, call)(ctypes.byref(n)) == 0
    return n.value
"""
# Prints the number of cores, in a process of its own.
COUNTER = COUNT + "print(count(ctypes.CDLL('libnrt.so.1')))"


def cores(neuron):
    done = neuron.run([sys.executable, "-c", COUNTER], stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


@pytest.fixture
def emulation():
    """Tests that need device files; in CI there must be some."""
    lacks = opennrt_testing._needs_of_emulation()
    if lacks:
        assert not os.environ.get("CI"), lacks
        pytest.skip(lacks)


@pytest.fixture
def inner(pytester):
    """Runs a test file in a pytest of its own."""

    def run(source, *options):
        pytester.makepyfile(COUNT + textwrap.dedent(source))
        return pytester.runpytest_subprocess("-p", "opennrt_testing", "--strict-markers", *options)

    return run


def said(result):
    return result.stdout.str() + result.stderr.str()


def mounted(folder):
    return f" {folder} " in Path("/proc/self/mountinfo").read_text()


# ---- simulated -------------------------------------------------------------------------------------------------------


def test_processes_see_the_simulated_instance_they_are_started_on():
    with opennrt_testing.fake("trn1.2xlarge") as small, opennrt_testing.fake("trn2.48xlarge", cores="4-7") as large:
        assert (cores(small), cores(large)) == (2, 4)
        assert cores(large) == 4, "a second process as well"
    assert "NEURON_RT_FAKE_INSTANCE_TYPE" not in os.environ


def test_the_outer_environment_does_not_choose_the_instance(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "0")
    monkeypatch.setenv("OPENNRT_HBM_MIB", "nonsense")
    monkeypatch.setenv("NEURON_RT_LOG_LEVEL", "WARN")
    with opennrt_testing.fake("trn1.2xlarge", env={"NEURON_RT_NUM_CORES": 1}) as neuron:
        assert neuron.env["NEURON_RT_LOG_LEVEL"] == "WARN"
        assert "OPENNRT_HBM_MIB" not in neuron.env
        assert cores(neuron) == 1
        neuron.env["NEURON_RT_NUM_CORES"] = "2"
        assert cores(neuron) == 2


def test_run_adds_variables_and_finds_the_programs():
    with opennrt_testing.fake("trn2.48xlarge") as neuron:
        argv = ["nrt-info", "--json"]
        done = neuron.run(argv, env={"NEURON_RT_VISIBLE_CORES": "0-1"}, stdout=subprocess.PIPE, check=True)
        assert b"trn2.48xlarge" in done.stdout


def test_device_memory_is_as_large_as_asked(inner):
    result = inner(
        """
        @pytest.mark.neuron(hbm_mib=64, instance="trn1.2xlarge")
        def test_memory(neuron_fake):
            nrt = neuron_fake.load()
            assert nrt.nrt_init(3, b"", b"") == 0
            tensor = ctypes.c_void_p()
            for size, status in ((128 << 20, 4), (1 << 20, 0)):
                assert nrt.nrt_tensor_allocate(0, 0, ctypes.c_size_t(size), b"", ctypes.byref(tensor)) == status
            nrt.nrt_close()
        """
    )
    result.assert_outcomes(passed=1)
    for bad in (0, -1, 1.5, "64", True):
        with pytest.raises(NeuronError, match="hbm_mib is .*; give a whole number of MiB from 1"):
            with opennrt_testing.fake(hbm_mib=bad):
                pass


def test_a_test_uses_the_library_in_its_own_process(inner, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere")
    result = inner(
        """
        @pytest.mark.neuron(instance="trn1.32xlarge", cores="0-3")
        class TestCounts:
            def test_of_the_class(self, neuron_fake):
                assert count(neuron_fake.load()) == 4

            @pytest.mark.neuron(cores="8-9")
            def test_nearer_marks_win(self, neuron_fake):
                assert neuron_fake.instance == "trn1.32xlarge"
                neuron_fake.load()
                # By its short name too, as a framework asks for it.
                assert count(ctypes.CDLL("libnrt.so.1")) == 2

        def test_afterwards_the_environment_is_as_before():
            for name in ("NEURON_RT_FAKE_INSTANCE_TYPE", "NEURON_RT_VISIBLE_CORES"):
                assert name not in os.environ
            assert os.environ["LD_LIBRARY_PATH"] == "/somewhere"
        """
    )
    result.assert_outcomes(passed=3)


def test_a_second_type_in_one_process_is_refused_and_other_processes_may_have_it(inner):
    result = inner(
        """
        def test_first(neuron_fake):
            assert count(neuron_fake.load()) == 64

        @pytest.mark.neuron(instance="trn1.2xlarge")
        def test_second(neuron_fake):
            pass

        @pytest.mark.neuron(instance="trn1.2xlarge", in_process=False)
        def test_other_processes(neuron_fake):
            argv = ["nrt-info", "--json"]
            assert b"trn1.2xlarge" in neuron_fake.run(argv, stdout=-1, check=True).stdout
            with pytest.raises(RuntimeError, match="in_process"):
                neuron_fake.load()

        def test_the_first_type_again(neuron_fake):
            assert count(neuron_fake.load()) == 64
        """
    )
    result.assert_outcomes(passed=3, errors=1)
    assert (
        "this process has used libnrt.so.1 on the fake trn2.48xlarge and cannot use it on the fake trn1.2xlarge; start other "
        "processes with run() and mark the test @pytest.mark.neuron(in_process=False), or give it a process of its own"
    ) in said(result)


def test_types_that_only_other_processes_use_do_not_bind_this_one(inner):
    result = inner(
        """
        @pytest.mark.neuron(instance="trn1.2xlarge")
        def test_first(neuron_fake):
            neuron_fake.run(["nrt-info"], check=True)

        def test_second(neuron_fake):
            assert count(neuron_fake.load()) == 64
        """
    )
    result.assert_outcomes(passed=2)


def test_a_library_that_found_an_instance_before_the_first_test_is_noticed(inner):
    source = """
        import opennrt_testing
        nrt = ctypes.CDLL(opennrt_testing._find_library(None))
        if USE:
            os.environ["NEURON_RT_FAKE_INSTANCE_TYPE"] = "trn1.2xlarge"
            count(nrt)
            del os.environ["NEURON_RT_FAKE_INSTANCE_TYPE"]

        def test_counts(neuron_fake):
            assert count(nrt) == 64
        """
    inner(source.replace("USE", "False")).assert_outcomes(passed=1)
    result = inner(source.replace("USE", "True"))
    result.assert_outcomes(errors=1)
    assert "this process has used libnrt.so.1 on the fake instance it found before the first test" in said(result)


def test_one_process_has_one_instance_at_a_time():
    with opennrt_testing.fake() as one, opennrt_testing.fake("trn1.2xlarge") as two, one.in_process():
        assert os.environ["NEURON_RT_FAKE_INSTANCE_TYPE"] == "trn2.48xlarge"
        refusal = "leads to <fake trn2.48xlarge> already; .* only run.. of <fake trn1.2xlarge>"
        with pytest.raises(NeuronError, match=refusal):
            with two.in_process():
                pass
        assert cores(two) == 2
    assert "NEURON_RT_FAKE_INSTANCE_TYPE" not in os.environ


# ---- what is refused, and how ----------------------------------------------------------------------------------------


def test_an_unknown_type_is_told_the_known_ones(emulation):
    for kind in (opennrt_testing.fake, opennrt_testing.emulated):
        with pytest.raises(NeuronError, match="trn9.*trn1.2xlarge, .*trn2.48xlarge") as told:
            with kind("trn9.large"):
                pass
        assert len(str(told.value).splitlines()) == 1
    with pytest.raises(NeuronError, match="the instance type is empty"):
        with opennrt_testing.fake(""):
            pass


def test_a_path_that_was_given_must_be_right(tmp_path):
    file = tmp_path / "libnrt.so.1"
    for kind in (opennrt_testing.fake, opennrt_testing.emulated):
        with pytest.raises(NeuronError, match=f"there is no file {file}; give the path of libnrt.so.1") as told:
            with kind(library=file):
                pass
        assert not isinstance(told.value, NeuronMissing)
    file.write_text("no library")
    with pytest.raises(NeuronError, match="cannot load the library: .*; give the libnrt.so.1 of OpenNRT"):
        with opennrt_testing.fake(library=file):
            pass
    other = tmp_path / "libnrt.so"
    other.touch()
    with pytest.raises(NeuronError, match="is not named libnrt.so.1"):
        with opennrt_testing.fake(library=other):
            pass


def test_where_nothing_is_installed_a_test_is_skipped_and_in_ci_it_fails(inner, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENNRT_PREFIX", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.delenv("CI", raising=False)
    source = """
        def test_simulated(neuron_fake):
            pass

        def test_emulated(neuron_emulated):
            pass
        """
    result = inner(source, "-rs")
    result.assert_outcomes(skipped=2)
    reason = f"there is no libnrt.so.1 in {tmp_path}/lib; install OpenNRT, set OPENNRT_PREFIX to"
    assert reason in said(result)
    inner(source, "--neuron-missing=fail").assert_outcomes(errors=2)
    monkeypatch.setenv("CI", "true")
    result = inner(source)
    result.assert_outcomes(errors=2)
    assert reason in said(result)
    inner(source, "-o", "neuron_missing=skip").assert_outcomes(skipped=2)
    assert "neuron_missing is 'sometimes'; set it to skip or fail" in said(inner(source, "--neuron-missing=sometimes"))

    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libnrt.so.1").symlink_to(PREFIX / "lib/libnrt.so.1")
    result = inner(source, "--neuron-missing=skip", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert f"there is no neuron-emu in {tmp_path}/bin or PATH" in said(result)


def test_the_places_come_from_the_ini_file_or_the_command_line(inner, pytester, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENNRT_PREFIX", str(tmp_path))
    source = """
        def test_counts(neuron_fake):
            assert count(neuron_fake.load()) == 64
        """
    library = PREFIX / "lib/libnrt.so.1"
    (pytester.path / "here").symlink_to(library.parent)
    pytester.makeini("[pytest]\nneuron_library = here/libnrt.so.1\n")
    inner(source).assert_outcomes(passed=1)
    pytester.makeini("[pytest]\nneuron_library = nowhere/libnrt.so.1\n")
    inner(source).assert_outcomes(errors=1)
    inner(source, f"--neuron-library={library}").assert_outcomes(passed=1)


def test_a_mark_that_has_no_meaning_is_refused(inner):
    result = inner(
        """
        @pytest.mark.parametrize("marks", [0])
        @pytest.mark.neuron(core="0")
        def test_misspelt(neuron_fake, marks):
            pass

        @pytest.mark.neuron("trn1.2xlarge")
        def test_without_a_name(neuron_fake):
            pass

        @pytest.mark.neuron(fault="dma-stuck")
        def test_of_another_kind(neuron_fake):
            pass
        """
    )
    result.assert_outcomes(errors=3)
    for text in ("knows no core; give some of cores, env,", "write instance='trn1.2xlarge'", "needs neuron_emulated"):
        assert text in said(result), text


# ---- emulated --------------------------------------------------------------------------------------------------------


def test_processes_see_the_emulated_instance(emulation):
    with opennrt_testing.emulated("trn1.2xlarge", hbm_gib=1, driver="2.26.5") as neuron:
        assert mounted(Path(neuron.dev).parent)
        assert sorted(os.listdir(neuron.dev)) == ["neuron0"]
        assert os.path.isdir(neuron.sys + "/class/neuron_device/neuron0")
        assert cores(neuron) == 2
        status = neuron.ctl("status")
        assert (status["instance"], status["driver"]) == ("trn1.2xlarge", "2.26.5.0")
        assert status["hbm_mib_per_device"] == 1024
        assert isinstance(neuron.ctl("trace"), list) and isinstance(neuron.ctl("reset-log"), list)
        neuron.ctl("fault", "dma-stuck")
        with pytest.raises(NeuronError, match="nonsense"):
            neuron.ctl("fault", "nonsense")
        with pytest.raises(ZeroDivisionError), opennrt_testing.emulated("trn1.2xlarge", hbm_gib=1) as second:
            assert second.dev != neuron.dev
            1 / 0
        assert not os.path.exists(second.dev) and os.path.exists(neuron.dev)
    assert not mounted(Path(neuron.dev).parent) and not Path(neuron.dev).parent.exists()


def test_a_fault_is_there_from_the_start(emulation):
    with opennrt_testing.emulated("trn1.32xlarge", "2.26.5", 1, fault=["no-dram-bar@3", "no-dram-bar@5"]) as neuron:
        assert len(neuron.ctl("status")["failed_probes"]) == 2
    with opennrt_testing.emulated("trn1.32xlarge", "2.26.5", 1, fault="no-dram-bar@3") as neuron:
        assert len(neuron.ctl("status")["failed_probes"]) == 1
    with pytest.raises(NeuronError, match="no-such-fault"):
        with opennrt_testing.emulated("trn1.2xlarge", fault="no-such-fault"):
            pass


def test_a_test_uses_emulated_devices_in_its_own_process(emulation, inner):
    result = inner(
        """
        pytestmark = pytest.mark.neuron(instance="trn1.2xlarge", hbm_gib=1)

        def test_up(neuron_emulated):
            nrt = neuron_emulated.load()
            assert nrt.nrt_init(3, b"", b"") == 0
            assert count(nrt) == 2
            assert neuron_emulated.ctl("status")["open_files"] > 0
            assert False, "with the library up"

        def test_the_next_instance_of_that_type(neuron_emulated):
            nrt = neuron_emulated.load()
            assert nrt.nrt_init(3, b"", b"") == 0
            assert neuron_emulated.ctl("status")["open_files"] > 0
            nrt.nrt_close()

        def test_a_simulated_one(neuron_fake):
            pass
        """
    )
    result.assert_outcomes(passed=1, failed=1, errors=1)
    assert "on the emulated trn1.2xlarge and cannot use it on the fake trn1.2xlarge" in said(result)


def test_one_test_runs_on_both(emulation, inner):
    result = inner(
        """
        @pytest.mark.neuron(instance="trn1.2xlarge", hbm_gib=1)
        def test_counts(neuron):
            assert b"trn1.2xlarge" in neuron.run(["nrt-info", "--json"], stdout=-1, check=True).stdout
        """,
        "-v",
    )
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_counts[[]fake] PASSED*", "*test_counts[[]emulated] PASSED*"])


def test_a_failed_test_leaves_nothing_behind(emulation, inner, pytester):
    result = inner(
        """
        def test_fails(neuron_emulated):
            with open("left", "w") as file:
                print(neuron_emulated._root, neuron_emulated._process.pid, file=file)
            assert os.path.ismount(neuron_emulated._root)
            assert False
        """
    )
    result.assert_outcomes(failed=1)
    root, pid = (pytester.path / "left").read_text().split()
    assert not mounted(root) and not os.path.exists(root) and not os.path.exists(f"/proc/{pid}")


def waiting(pytester):
    """A pytest in a session of its own that waits in a test: the process, the root and the process id of its emulator."""
    pytester.makepyfile(
        """
        import signal, sys

        def test_waits(neuron_emulated):
            print(neuron_emulated._root, neuron_emulated._process.pid, file=sys.stdout, flush=True)
            signal.pause()
        """
    )
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "opennrt_testing"]
    tests = subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        universal_newlines=True,
        start_new_session=True,
        # A shell starts its background jobs with this signal ignored, and so everything below them.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    root, pid = tests.stdout.readline().split()
    assert mounted(root)
    return tests, root, int(pid)


def test_a_killed_pytest_leaves_nothing_behind(emulation, pytester):
    tests, root, pid = waiting(pytester)
    emulator = os.pidfd_open(pid)
    tests.kill()
    tests.wait()
    select.select([emulator], [], [])
    assert not mounted(root) and not os.path.exists(root)


def test_an_interrupted_pytest_stops_the_emulator_in_order(emulation, pytester):
    tests, root, pid = waiting(pytester)
    # As Ctrl-C does: to everything the terminal has.
    os.killpg(tests.pid, signal.SIGINT)
    tests.stdout.read()
    assert tests.wait() == pytest.ExitCode.INTERRUPTED
    assert not mounted(root) and not os.path.exists(root) and not os.path.exists(f"/proc/{pid}")


def test_an_emulator_that_dies_during_a_test_is_an_error(emulation):
    with pytest.raises(NeuronError, match="neuron-emu ended during the test with status -9"):
        with opennrt_testing.emulated("trn1.2xlarge", hbm_gib=1) as neuron:
            neuron._process.kill()
            neuron._process.wait()


# ---- the file itself -------------------------------------------------------------------------------------------------


def test_the_module_is_python_3_8_and_does_not_need_pytest():
    file = Path(opennrt_testing.__file__)
    ast.parse(file.read_text(), feature_version=(3, 8))
    code = "import sys; sys.path.insert(0, sys.argv[1]); import opennrt_testing; assert 'pytest' not in sys.modules"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, str(file.parent)], check=True)
