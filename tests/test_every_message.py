"""Every sentence that an error can say, in one table: whoever changes a sentence sees it beside all the others.

``python tests/test_every_message.py`` writes the table again.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from relive import errors

SOURCES = Path(__file__).parents[1] / "src" / "relive"
TABLE = Path(__file__).with_name("every_message.txt")
PARTS = ("name", "rule", "got", "remedy")


def kinds(trees: dict[str, ast.Module]) -> set[str]:
    """Errors of one problem, those that are derived from them, and the problem itself."""
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.OptionError.__base__)  # type: ignore[arg-type]
    } | {"Problem"}
    classes = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    found |= {
        node.name for node in classes if any(isinstance(base, ast.Name) and base.id in found for base in node.bases)
    }
    return found - {"JournalError"}


def words(node: ast.expr | None, known: dict[str, ast.expr]) -> str:
    """A string as it is written, with its places in braces."""
    if node is None:
        return ""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name) and node.id in known:
        return words(known[node.id], {name: value for name, value in known.items() if name != node.id})
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"  # type: ignore[attr-defined]
            for part in node.values
        )
    if isinstance(node, ast.IfExp):
        return f"({words(node.body, known)} | {words(node.orelse, known)})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return words(node.left, known) + words(node.right, known)
    return "{" + ast.unparse(node) + "}"


def sentences(tree: ast.Module, kinds: set[str]) -> Iterator[str]:
    """What the errors of a module say, in the order in which they stand there."""
    scopes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.Module))]
    seen: set[ast.Call] = set()
    for scope in reversed(scopes):  # what is inside comes first
        known: dict[str, list[ast.expr]] = {}
        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                known.setdefault(node.targets[0].id, []).append(node.value)
        single = {name: values[0] for name, values in known.items() if len(values) == 1}
        single = {
            name: value for name, value in single.items() if isinstance(value, (ast.JoinedStr, ast.Constant, ast.IfExp))
        }
        for node in ast.walk(scope):
            if not isinstance(node, ast.Call) or node in seen or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in kinds or any(isinstance(part, ast.Starred) for part in node.args):
                continue
            seen.add(node)
            given = dict(zip(PARTS, node.args, strict=False)) | {
                part.arg: part.value for part in node.keywords if part.arg
            }
            name, rule, got, remedy = (words(given.get(part), single) for part in PARTS)
            yield f"{node.lineno:6} {node.func.id}: {name} must {rule}, got {got}" + (f". {remedy}" if remedy else "")


def table() -> str:
    trees = {
        path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py"))
    }
    known, found = kinds(trees), []
    for path, tree in trees.items():
        lines = sorted(sentences(tree, known))
        if lines:
            found += [path, *(f"    {line[7:]}" for line in lines), ""]
    return "\n".join(found)


@pytest.mark.skipif(not SOURCES.exists(), reason="the tests of a wheel have no sources")
def test_every_message_is_in_the_table() -> None:
    assert table() == TABLE.read_text(), "see whether the new sentences are good, then write the table again"


if __name__ == "__main__":
    TABLE.write_text(table())
