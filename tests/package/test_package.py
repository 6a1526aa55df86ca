"""The package as a whole: what it says runs, what it exports is explained."""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import mercer

README = Path(__file__).parents[2] / "README.md"
WITHOUT_FRAMES = """
import sys
class Absent:  # mercer[cli], which the README installs, brings neither pandas nor Polars
    def find_spec(name, path=None, target=None):
        if name in ("pandas", "polars"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent)
"""
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(mercer.__path__, "mercer.")
    if not module.name.endswith(("_core", "__main__"))
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name, monkeypatch):
    monkeypatch.setattr(mercer.kernels, "_NAMES", dict(mercer.kernels._NAMES))  # one is added
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


@pytest.mark.parametrize("name", ["mercer", "mercer.kernels", "mercer.maps", "mercer.designs",
                                  "mercer.losses", "mercer.penalties", "mercer.solvers",
                                  "mercer.datasets", "mercer.onnx", "mercer.dask"])  # fmt: skip
def test_everything_exported_is_explained(name):
    module = importlib.import_module(name)
    for public in module.__all__:
        item = getattr(module, public)
        if inspect.isclass(item) or inspect.isfunction(item):
            assert inspect.getdoc(item), f"{name}.{public} has no docstring"


def _blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README.read_text(), re.M | re.S)


@pytest.mark.parametrize("example", _blocks("python"), ids=["raw table"])
def test_the_python_examples_of_the_readme_run_and_are_short(example):
    assert len([line for line in example.splitlines() if line.strip()]) <= 8
    command = [sys.executable, "-W", "error", "-c", WITHOUT_FRAMES + example]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) > 0.9


def test_the_readme_holds_its_two_commands():
    shell = "".join(_blocks("sh"))
    assert (
        "python3 -m venv .venv && . .venv/bin/activate && pip install '.[cli]' "
        "&& mercer compare letter\n" in shell
    )
    assert ". .venv/bin/activate && pip install 'mercer[test]' && pytest\n" in shell


def test_importing_mercer_brings_in_nothing_optional():
    """scikit-learn itself imports pandas and rich where they are installed."""
    code = (
        "import sys, mercer.estimators, mercer.datasets; "
        "print([m for m in ('polars', 'matplotlib', 'typer', 'pooch', 'skops', 'dask') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="not a free-threaded Python"
)
def test_importing_mercer_leaves_python_without_its_lock():
    code = "import sys, mercer.estimators, mercer.persistence; print(sys._is_gil_enabled())"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "False", done.stderr


def test_the_bindings_call_what_the_stable_interface_of_python_has():
    """Of what it lacks, the names that are at hand; wheels for 3.12 and later are built for it."""
    outside = re.compile(
        r"\bPy\w+_(?:GET_\w+|AS_\w+|AsUTF8)\(|->tp_\w+|\bPyUnicode_(?:KIND|DATA)\b"
    )
    for source in sorted((README.parent / "cpp").glob("*/*.[ch]pp")):
        assert outside.findall(source.read_text(encoding="utf-8")) == [], source.name


def test_the_package_has_a_version():
    assert re.match(r"\d+\.\d+", mercer.__version__)
    assert set(mercer.__all__) <= set(dir(mercer))
    with pytest.raises(AttributeError, match="no attribute 'KernelClasifier'"):
        _ = mercer.KernelClasifier


def test_the_public_packages_are_attributes_that_load_when_asked_for():
    folder = Path(mercer.__file__).parent
    packages = {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}
    public = {name for name in packages if not name.startswith("_")} - {"cli"} | {"penalties"}
    code = (
        "import sys, mercer\n"
        f"names = {sorted(public)}\n"
        "assert set(names) <= set(dir(mercer)), set(names) - set(dir(mercer))\n"
        "assert 'numpy' not in sys.modules\n"
        "for name in names:\n"
        "    try:\n"
        "        assert getattr(mercer, name).__name__ == 'mercer.' + name\n"
        "    except ImportError as error:\n"
        "        assert 'pip install' in str(error) or 'not installed' in str(error), error\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
