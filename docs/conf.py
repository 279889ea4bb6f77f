"""How the documentation is built; and the parts of it that are generated from the library.

Directives:
  ``command-help``   what ``gangsched … --help`` prints, or ``kubectl-gang``, run when the page is
                     built;
  ``moves-of``     the moves of ``members`` or of the ``queue``, of the table that is drawn;
  ``public-names``   every name of the façade, with its first sentence and a link;
  ``rules-of``       the rules or invariants at the top of a module.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import importlib
import inspect
import io
import os
import re
import sys
from pathlib import Path
from typing import Any, ClassVar

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).parent))
os.environ["GANGSCHED_NO_EXTENSIONS"] = "1"  # what is compiled has no signatures to show

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.domains.python import PyObject
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import gangsched
from gangsched import cli
from gangsched.cli._kubectl import main as kubectl_gang
from pictures import moves

project = "gangsched"
release = version = gangsched.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_type_aliases = {
    "Effect": "gangsched.events.Effect",
    "Event": "gangsched.events.Event",
    "Notice": "gangsched.events.Notice",
    "Outcome": "gangsched.outcomes.Outcome",
    "Verdict": "gangsched.outcomes.Verdict",
    "QueueSortKey": "gangsched.protocols.QueueSortKey",
}
autodoc_default_options = {"members": True}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

# what is copied can be run: without prompts, and without what is printed
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"
copybutton_selector = "div:not(.highlight-text) > div.highlight > pre"

html_theme = "furo"
html_title = "gangsched"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["gangsched.css"]
pygments_style = "friendly"
pygments_dark_style = "monokai"

_RULES = re.compile(r"^(?:Rules|Invariants.*|Directives):$")
_RULE = re.compile(r"^ {2}(?P<label>[A-Z][0-9]+) +(?P<text>.*)$")
_MORE = re.compile(r"^ {3,}(?P<text>.*)$")
_FUNCTION = re.compile(r"<(?:built-in )?function (\w+)>")
_ALIAS = re.compile(r"TypeAliasForwardRef\('([\w.]+)'\)")


def rules_as_list(lines: list[str]) -> list[str]:
    """Return a docstring's lines with its rules as a list, which markup can show."""
    shown: list[str] = []
    within = False
    for line in lines:
        rule, more = _RULE.match(line), _MORE.match(line)
        if _RULES.match(line):
            within = True
            shown += [line, ""]
        elif within and rule:
            shown.append(f"- **{rule['label']}** {rule['text']}")
        elif within and more:
            shown.append(f"  {more['text']}")
        else:
            if within and line.strip():
                within = False
            shown.append(line)
    return shown


class CommandHelp(SphinxDirective):
    """What the command says of itself."""

    optional_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Return the help as a literal block."""
        words, main = [*self.arguments, "--help"], cli.main
        if words[0] == "kubectl-gang":
            words, main = words[1:], kubectl_gang
        printed = io.StringIO()
        before = dict(os.environ)
        os.environ.update(COLUMNS="80", NO_COLOR="1")
        try:
            with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
                main(words)
        finally:
            os.environ.clear()
            os.environ.update(before)
        text = printed.getvalue().rstrip()
        return [nodes.literal_block(text, text, language="text")]


class MovesOf(SphinxDirective):
    """Every move of a machine, and what makes it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        self.env.note_dependency(inspect.getfile(moves))
        table = {"members": moves.MEMBERS, "queue": moves.QUEUE}[self.arguments[0]]
        rows = ["| from | to | when |", "|---|---|---|"]
        for (start, end), when in table.items():
            rows.append(f"| `{start}` | `{end}` | {when} |")
        return self.parse_text_to_nodes("\n".join(rows))


class PublicNames(SphinxDirective):
    """Every name that ``import gangsched`` gives, with its first sentence."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        rows = ["| name | what it is |", "|---|---|"]
        for name in gangsched.__all__:
            if name.startswith("__"):
                continue
            rows.append(f"| {{py:obj}}`{name} <{_entry(name)}>` | {_summary(name)} |")
        return self.parse_text_to_nodes("\n".join(rows))


class RulesOf(SphinxDirective):
    """The docstring of a module, without an entry for the module."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"heading": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """Return the rules as a list."""
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(inspect.getfile(module))
        lines = rules_as_list(inspect.getdoc(module).splitlines())
        start = next((n for n, line in enumerate(lines) if _RULES.match(line)), len(lines))
        return self.parse_text_to_nodes("\n".join(lines[start:]))


def _entry(name: str) -> str:
    """Return under which full name a name of the façade is documented."""
    value = getattr(gangsched, name)
    if inspect.ismodule(value):
        return value.__name__
    home = _HOMES.get(name) or getattr(value, "__module__", "")
    public = home.startswith("gangsched")
    # what a private module defines is documented in the package that offers it
    return f"{home.partition('._')[0] if public else 'gangsched'}.{name}"


_HOMES = {
    name: module
    for module, names in {
        "gangsched.events": ("Effect", "Event", "Notice"),
        "gangsched.outcomes": ("Outcome", "Verdict"),
        "gangsched.model": ("GroupKey", "NodeName", "PodUID"),
    }.items()
    for name in names
}
_SAID = {
    "Effect": "What a call returns: effects and notices in one flat order.",
    "Event": "A change in the cluster that is reported to the scheduler.",
    "HeapHandle": "What ``PriorityHeap.push`` returns: good for one item, while it is in there.",
    "GroupKey": "The key of a group: ``namespace/name``.",
    "NodeName": "The name of a node.",
    "Notice": "What was decided, and needs no action.",
    "Outcome": "What an extension point decides about one pod.",
    "PodUID": "The identity of a pod.",
    "Verdict": "What an extension point decides about a whole group.",
    "heap_implementation": "Which build of the heap is in use.",
}


def _summary(name: str) -> str:
    text = _SAID.get(name) or inspect.getdoc(getattr(gangsched, name)) or ""
    first = text.partition("\n\n")[0].replace("\n", " ")
    return first.replace("|", "\\|")


def _before_napoleon(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    if not any(lines) or _is_of_a_builtin(lines):
        lines[:] = _of_a_constant(name, obj)
    if not any(lines) or _is_of_a_builtin(lines):
        _log.warning("%s %s has no docstring of its own", what, name)
    lines[:] = rules_as_list(lines)
    if what in _ONE_SENTENCE:
        _kept[name] = list(lines)


def _after_napoleon(
    app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]
) -> None:
    # it takes what precedes a colon for a type
    if what in _ONE_SENTENCE:
        lines[:] = _kept.pop(name)


def _of_a_constant(name: str, obj: object) -> list[str]:
    """Return what is written below a constant, in the module that defines it.

    A constant that another module imports has the docstring of its type there.
    """
    last = name.rpartition(".")[2]
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("gangsched") and getattr(module, last, None) is obj:
            found = ModuleAnalyzer.for_module(module_name).find_attr_docs().get(("", last))
            if found:
                return list(found)
    return []


def _is_of_a_builtin(lines: list[str]) -> bool:
    return "\n".join(lines).strip() in _BUILTIN


_BUILTIN = {
    inspect.cleandoc(text).strip()
    for kind in (*vars(builtins).values(), enum.Enum, enum.IntEnum, enum.Flag)
    if isinstance(kind, type)
    for value in (kind, *vars(kind).values())
    if isinstance(text := getattr(value, "__doc__", None), str)
}
_log = logging.getLogger(__name__)
_ONE_SENTENCE = ("attribute", "data", "property")
_kept: dict[str, list[str]] = {}


def _plain_signature(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: Any,
    given: str | None,
    returned: str | None,
) -> tuple[str | None, str | None]:
    return _plain(given), _plain(returned)


def _plain(signature: str | None) -> str | None:
    return signature and _ALIAS.sub(r"~\1", _FUNCTION.sub(r"\1", signature))


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("command-help", CommandHelp)
    app.add_directive("moves-of", MovesOf)
    app.add_directive("public-names", PublicNames)
    app.add_directive("rules-of", RulesOf)
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.connect("autodoc-process-docstring", _before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", _after_napoleon, priority=600)
    app.connect("autodoc-process-signature", _plain_signature)
