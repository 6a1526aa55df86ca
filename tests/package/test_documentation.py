"""Docstrings of public estimators are whole: entries that several share are written once."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import mercer
import mercer.dask
from mercer import maps
from mercer._runtime import documentation as _documentation
from mercer.dask._documentation import documented_as
from mercer.estimators._documentation import documented, entries

ROOT = Path(__file__).parents[2]
# Words that point to another line or stand for a missing noun, with the most of each per 1000
# words: present shares, rounded up, to be lowered as the sentences improve.
POINTERS = {
    "docstrings": {
        "those": 1.65,
        "these": 0.9,
        "of which": 0.25,
        r"what [^.;:]*?\b(?:is|are)": 0.55,
    },
    "cpp": {"those": 3.0, "these": 1.0, "of which": 0.65, r"what [^.;:]*?\b(?:is|are)": 2.9},
}
CLASSES = [cls for name in mercer.__all__ if inspect.isclass(cls := getattr(mercer, name))]
CLASSES += [getattr(mercer.dask, name) for name in mercer.dask.__all__]


def _section(doc, title):
    """Names and texts of the entries of a section, one for each of several names."""
    section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n[A-Z]\w+\n-|\Z)", doc, re.M | re.S)
    texts = {}
    for entry in re.split(r"\n(?=\S)", section[1]):
        for name in entry.partition(" : ")[0].split(", "):
            texts[name] = entry
    return texts


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_parameter_is_explained_in_the_order_of_the_signature(cls):
    doc = inspect.getdoc(cls)
    assert not re.search(r"^\s*\{", doc, re.M)
    assert list(_section(doc, "Parameters")) == list(inspect.signature(cls).parameters)
    for name in ("Attributes", "Raises", "Examples"):
        assert f"\n{name}\n{'-' * len(name)}\n" in doc


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_are_those_of_the_signature(cls):
    texts = _section(inspect.getdoc(cls), "Parameters")
    for name, parameter in inspect.signature(cls).parameters.items():
        told = re.match(r"[^\n]*default=([^\n]*)", texts[name])
        if parameter.default is not parameter.empty and told:
            assert eval(told[1]) == parameter.default


def test_a_place_is_filled_in_its_order():
    @documented(entries("two : int\n    More.\none : int"))
    class Example:
        """An example.

        Attributes
        ----------
        {one, two}
        three : int
        """

    assert _section(Example.__doc__, "Attributes") == {
        "one": "one : int",
        "two": "two : int\n    More.",
        "three": "three : int",
    }


def test_diagrams_link_to_the_api_reference_where_the_package_states_an_address(monkeypatch):
    monkeypatch.setattr(_documentation, "site", lambda: "https://example.org/stable/")
    pages = "https://example.org/stable/api/generated/"
    assert (
        mercer.KernelRegressor("binning")._get_doc_link() == f"{pages}mercer.KernelRegressor.html"
    )
    assert maps.RandomFourier()._get_doc_link() == f"{pages}mercer.maps.RandomFourier.html"
    assert pages in mercer.TablePreparer()._repr_html_()
    monkeypatch.setattr(_documentation, "site", lambda: "")
    assert mercer.KernelRegressor("binning")._get_doc_link() == ""


def test_addresses_of_the_reference_are_where_classes_are_imported_from():
    for cls in CLASSES:
        assert _documentation._public_name(cls) == f"mercer.{cls.__name__}"
    assert _documentation._public_name(type("Own", (mercer.KernelRegressor,), {})) == ""


def test_the_address_is_that_of_the_installed_package(monkeypatch):
    class Stated:
        def get_all(self, name):
            return ["Source, https://example.org/code", "Documentation, https://example.org/docs"]

    monkeypatch.setattr(_documentation, "metadata", lambda name: Stated())
    _documentation.site.cache_clear()
    assert _documentation.site() == "https://example.org/docs/"
    _documentation.site.cache_clear()


def _docstrings():
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in (ROOT / "src" / "mercer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kinds):
                yield ast.get_docstring(node) or ""


def _comments():
    for path in (ROOT / "cpp").rglob("*.[hc]pp"):
        yield "\n".join(re.findall(r"//+ ?(.*)", path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("texts", "kind"), [(_docstrings, "docstrings"), (_comments, "cpp")])
def test_words_that_point_elsewhere_do_not_become_more(texts, kind):
    text = "\n".join(texts())
    thousands = len(re.findall(r"\w+", text)) / 1000
    shares = {p: len(re.findall(rf"\b{p}\b", text, re.I)) / thousands for p in POINTERS[kind]}
    assert thousands > 10
    assert {p: share for p, share in shares.items() if share > POINTERS[kind][p]} == {}


@pytest.mark.parametrize("doc", [None, "Local(gamma: 'float' = 1.0)"])
def test_models_over_a_cluster_need_no_docstrings_as_under_python_OO(doc):
    local, own = (type(name, (), {"__doc__": doc}) for name in ("Local", "Own"))
    assert documented_as(local, "By workers.")(own) is own
    assert own.__doc__ == doc
