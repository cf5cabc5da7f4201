"""The lines of README.md, section "Use it in your CI", as a reader would copy them.

OPENNRT_PREFIX names the installation; OPENNRT_TARBALL and OPENNRT_DEB the packages, if there are any.
"""

import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import opennrt_testing

PREFIX = Path(os.environ["OPENNRT_PREFIX"])
ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "README.md").read_text().split("\n## Use it in your CI\n")[1].split("\n## ")[0]
# Docker gives these to a container, from its documentation.
CONTAINER = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap "
    "net_bind_service net_raw sys_chroot mknod audit_write setfcap"
).split()


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.S | re.M)
    assert found, f"no {language} block in the section"
    return found


@pytest.fixture
def project(tmp_path):
    """A project of its own with the Python files of the section."""
    files = {}
    for block in blocks("python"):
        name, text = re.fullmatch(r"# (\S+\.py)\n(.*)", block, re.S).groups()
        files[name] = text
        (tmp_path / name).write_text(text)
    assert set(files) == {"conftest.py", "test_neuron.py"}
    return tmp_path


@pytest.fixture
def emulation():
    """Whether the tests on device files run; in CI they must."""
    lacks = opennrt_testing._needs_of_emulation()
    assert not (lacks and os.environ.get("CI")), lacks
    return not lacks


def environment(**more):
    """What a fresh machine has, and pytest."""
    tools = os.environ["PYTHONPATH"].split(":")[-1]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "PYTHONPATH": tools, "PYTHONDONTWRITEBYTECODE": "1", **more}


def finished(argv, cwd, env):
    """Exit status and both streams."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "universal_newlines": True}
    done = subprocess.run(argv, cwd=cwd, env=env, **streams)
    return done.returncode, done.stdout


def pytest_in(project, env, *before):
    code, text = finished([*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs"], project, env)
    outcomes = re.findall(r"(\d+) (passed|skipped|failed|error)", text.splitlines()[-1])
    return code, {word: int(number) for number, word in outcomes}, text


def shell(script, cwd, env):
    code, text = finished(["bash", "-euo", "pipefail", "-c", script], cwd, env)
    assert code == 0, f"{script}\n{text}"
    return text


def test_the_python_lines_work_with_an_installed_file(project, emulation):
    tools = environment()["PYTHONPATH"]
    env = environment(PYTHONPATH=f"{PREFIX}/share/opennrt/python:{tools}")
    code, outcomes, text = pytest_in(project, env)
    assert (code, outcomes) == (0, {"passed": 4} if emulation else {"passed": 2, "skipped": 2}), text


def test_the_python_lines_work_after_pip_install(project, emulation, tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    tools = environment()["PYTHONPATH"]
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("pip install ./python")]
    assert len(lines) == 1
    # Where the reader has a virtual environment and a network there are a folder and what was fetched before.
    offline = f"pip3 -q install --no-build-isolation --no-deps --target {site}"
    command = lines[0].split("#")[0].replace("pip install", offline)
    shell(command, ROOT, environment(PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore"))
    env = environment(PYTHONPATH=f"{site}:{tools}", OPENNRT_PREFIX=str(PREFIX))
    # With the line of conftest.py beside the entry point, and without it.
    for _ in range(2):
        code, outcomes, text = pytest_in(project, env)
        assert code == 0 and outcomes["passed"] == (4 if emulation else 2), text
        (project / "conftest.py").write_text("")


def version_in(file):
    return re.search(r'^version = "(.*)"', (ROOT / file).read_text(), re.M).group(1)


def test_the_version_is_that_of_the_project():
    assert version_in("Cargo.toml") == version_in("python/pyproject.toml")


def steps():
    """Scripts of a GitHub-style job."""
    (yaml,) = blocks("yaml")
    for match in re.finditer(r"^( +)(?:- )?run: (?:\|\n((?:\1 {2,}.*\n)+)|(.*)\n)", yaml, re.M):
        yield re.sub(r"^ +", "", match.group(2) or match.group(3), flags=re.M)


def test_the_steps_of_a_runner_work(project, emulation, tmp_path_factory):
    work = tmp_path_factory.mktemp("runner")
    tarball = os.environ.get("OPENNRT_TARBALL")
    if not tarball:
        tarball = work / "opennrt.tar.gz"
        argv = ["tar", "-C", PREFIX.parent, "-I", "gzip -1", "-chf", tarball, "--transform", "s,^[^/]*,opennrt,"]
        subprocess.run([*argv, PREFIX.name], check=True)
    exported = work / "env"
    exported.touch()
    # A runner's sudo forgets the environment.
    (work / "sudo").write_text("#!/bin/sh\nexec env -i PATH=/usr/bin:/bin \"$@\"\n")
    (work / "sudo").chmod(0o755)
    tools = environment()["PYTHONPATH"]
    env = environment(HOME=str(work), GITHUB_ENV=str(exported), OPENNRT_TARBALL=str(tarball), CI="true")
    env["PATH"] = f"{work}:{env['PATH']}"
    scripts = list(steps())
    assert len(scripts) == 4, scripts
    ran = []
    for script in scripts:
        if "pip install" in script:  # needs a network
            continue
        if "sudo" in script and not emulation:
            continue
        ran.append(shell(script, project, env))
        exports = dict(line.split("=", 1) for line in exported.read_text().splitlines())
        assert set(exports) == {"PYTHONPATH"}
        env["PYTHONPATH"] = f"{exports['PYTHONPATH']}:{tools}"
    assert "4 passed" in ran[-1] if emulation else "2 passed, 2 skipped" in ran[-1], ran


def test_the_lines_of_the_dockerfile_fit_the_package():
    (dockerfile,) = blocks("dockerfile")
    lines = [line.split(None, 1) for line in dockerfile.splitlines()]
    assert [word for word, _ in lines] == ["FROM", "COPY", "RUN", "ENV", "ENV"]
    (_, (_, copied), (_, run), (_, path), (_, fake)) = lines
    pattern, target = copied.split()
    assert fnmatch.fnmatch(f"opennrt_{version_in('Cargo.toml')}_amd64.deb", pattern)
    assert f"apt-get install -y {target}{pattern}" in run
    subprocess.run(["bash", "-n", "-c", run], check=True)
    name, value = fake.split("=")
    assert name == "NEURON_RT_FAKE_INSTANCE_TYPE"
    with opennrt_testing.fake(value):
        pass
    assert path == "PYTHONPATH=/usr/share/opennrt/python"
    assert '"usr/share/opennrt/python/"' in (ROOT / "Cargo.toml").read_text()
    deb = os.environ.get("OPENNRT_DEB")
    if deb:
        held = subprocess.run(["dpkg-deb", "-c", deb], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        assert "./usr/share/opennrt/python/opennrt_testing.py\n" in held and "./usr/bin/neuron-emu\n" in held


def in_a_container(*more):
    """Root with the rights a container has."""
    rights = ",".join(["-all"] + ["+" + right for right in [*CONTAINER, *more]])
    return ["setpriv", f"--bounding-set={rights}", "--inh-caps=-all"]


def test_the_rights_of_the_docker_line_suffice(project, emulation):
    (line,) = [line for block in blocks("sh") for line in block.split("\n\n") if "--device" in line]
    assert "--device /dev/fuse" in line
    added = [right.lower() for right in re.findall(r"--cap-add (\S+)", line)]
    assert added == ["sys_admin", "sys_ptrace"]
    if not emulation:
        pytest.skip("needs root and /dev/fuse")
    tools = environment()["PYTHONPATH"]
    env = environment(PYTHONPATH=f"{PREFIX}/share/opennrt/python:{tools}")
    env["NEURON_RT_FAKE_INSTANCE_TYPE"] = "trn2.48xlarge"
    code, outcomes, text = pytest_in(project, env, *in_a_container(*added))
    assert (code, outcomes) == (0, {"passed": 4}), text
    code, outcomes, text = pytest_in(project, env, *in_a_container())
    assert (code, outcomes) == (0, {"passed": 2, "skipped": 2}), text
    assert "needs the right to mount (CAP_SYS_ADMIN)" in text
