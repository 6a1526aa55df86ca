"""Settings of the documentation site: ``sphinx-build -W -b html docs build/docs``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import matplotlib

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext")]
matplotlib.use("agg")

import mercer  # noqa: E402  (after the backend of Matplotlib is chosen)

project = "mercer"
author = "The mercer developers"
copyright = "the mercer developers, BSD-3-Clause"
release = mercer.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "mathml",
    "inherited",
    "installation",
    "records",
    "reference",
]
exclude_patterns = ["_build", "_ext"]
templates_path = ["_templates"]
root_doc = "index"
default_role = None
# A name of mercer's that does not exist stops the build; those of others need a network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!mercer\.).*")]

# --- API pages -----------------------------------------------------------------------------

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # numpydoc says types in words
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_use_plots = False
add_module_names = False

# --- Elsewhere -----------------------------------------------------------------------------

# Other projects' inventories are asked for only where the network may be reached:
# MERCER_DOCS_ONLINE=1. Without them links to NumPy, SciPy and scikit-learn are plain names.
_ONLINE = bool(os.environ.get("MERCER_DOCS_ONLINE"))
intersphinx_mapping = (
    {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
    }
    if _ONLINE
    else {}
)

# --- Pages, figures, examples --------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "plain"

html_math_renderer = "mathml"
plot_include_source = True
plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 110)]
plot_rcparams = {
    "figure.figsize": (6.4, 3.4),
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
plot_apply_rcparams = True
doctest_global_setup = """
import importlib.util
import numpy as np
np.set_printoptions(precision=4, suppress=True)
has_xgboost = importlib.util.find_spec("xgboost") is not None
"""
doctest_test_doctest_blocks = "default"
trim_doctest_flags = True


sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "reference_url": {"mercer": None},
    "doc_module": ("mercer",),
    "backreferences_dir": "gallery/backreferences",  # for the foot of pages of the reference
    "abort_on_example_error": True,
    "min_reported_time": 60,
    "show_memory": False,
    "show_signature": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "subsection_order": ["../examples/gallery/questions", "../examples/gallery/methods"],
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", "conf_hooks.reset"),
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("__repr__",),
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_logo = "_static/logo.svg"
html_theme_options = {
    "logo": {"text": "mercer"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# The switch of versions, where ``.ci/site`` makes the pages of all of them.
if _SITE := os.environ.get("MERCER_DOCS_URL"):
    _OWN = os.environ.get("MERCER_DOCS_VERSION", "main")
    html_theme_options |= {
        "switcher": {"json_url": f"{_SITE}/versions.json", "version_match": _OWN},
        "check_switcher": False,  # the list is written after the pages
        "show_version_warning_banner": True,
        "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    }
html_sidebars = {"index": [], "changelog": [], "versions": [], "glossary": [], "references": []}
# Of ``sphinx-build -b linkcheck``, which needs a network; -D linkcheck_ignore='https?://.*' does
# without and looks at the links within this site.
linkcheck_ignore = [r"https://doi\.org/.*"]  # publishers answer robots with 403
linkcheck_timeout, linkcheck_retries = 20, 2
