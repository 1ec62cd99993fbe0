"""Names and sentences say it as the field says it: words that were retired do not come back."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "relive").rglob("*.py"))
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if "bench" not in path.parts)

NAMES = {
    "BoxHead": "TanhDeterministic",
    "ChoiceHead": "Categorical or GumbelSoftmax",
    "Deeds": "(obs, action) pairs",
    "Guesses": "inferred policies",
    "Nets": "per-agent networks",
    "Running": "RunningMeanStd",
    "ShareHead": "Simplex",
    "Unrolled": "saved activations",
    "_judge": "eval_env",
    "_judged": "critic inputs",
    "_moments": "obs_rms or reward_rms",
    "embed": "split_critic_input",
    "follow_module": "polyak_update",
    "laid_out": "pack_sequences",
    "mono": "qmix",
    "move_towards": "polyak_update",
    "pace": "learning-rate multiplier, lr_schedule",
    "reweigh": "update_priorities",
    "seers": "observers",
    "settled": "resolved settings",
    "shorten": "clip_grad_norm",
    "shortened": "trim_inactive",
    "slope": "input gradient, dQ/da",
    "target_every": "target_update_interval",
    "tidy": "evict",
    "wanted": "td_target, expected",
    "warmup": "learning_starts",
}
"""Retired identifiers, and what to say. Parts of longer names (``_tidy``, ``tidy_panels``) count too.

Words of WORDS.md that are ordinary English or an API's own (batch, clip, count, found, kept, lanes, line, more, share,
short, taken, ...) are retired as names of one thing only and cannot be listed here.
"""

WORDS = ("anew", "lasting", "lockstep", "reweigh", "seers", "settled", "shorten", "told", "wanted")
"""Words that neither docstrings, comments, help nor errors have any use for."""

PHRASES = (
    "goes? tau of the way",
    "how far the target network goes",
    "how much more often surprising rows",
    "longest gradient",
    "networks? side by side",
    "of what other networks make of",
    "readers look afterwards",
    "rows that say who they are",
    "the sizes of what",
    "with a chance of",
)
"""Home-made sentences, in sources and in pages."""

ALLOWED: dict[str, set[str]] = {
    "src/relive/training/tune.py": {"warmup"},  # Optuna's n_warmup_steps
}
"""Names that are another project's, by file or folder."""


def _allowed(path: str, word: str) -> bool:
    return any(path.startswith(where) and word in words for where, words in ALLOWED.items())


def _tokens(path: Path) -> Iterator[tuple[int, int, str]]:
    with io.StringIO(path.read_text(encoding="utf-8")) as text:
        for token in tokenize.generate_tokens(text.readline):
            yield token.type, token.start[0], token.string


def _parts(name: str) -> set[str]:
    """A name, and its words: ``_tidy_up`` is tidy and up."""
    return {name, name.strip("_"), *name.split("_")}


def offences(path: Path, source: str) -> list[str]:
    """Retired words of a source file, with lines."""
    found = []
    for kind, line, text in _tokens(path):
        if kind == tokenize.NAME:
            bad = [word for word in sorted(_parts(text) & NAMES.keys()) if not _allowed(source, word)]
            found += [f"{source}:{line}: {word}, say {NAMES[word]}" for word in bad]
        elif kind in _TEXTS:
            bad = [word for word in WORDS if re.search(rf"\b{word}\b", text, re.IGNORECASE)]
            bad += [phrase for phrase in PHRASES if re.search(phrase, text, re.IGNORECASE)]
            found += [f"{source}:{line}: {word!r}" for word in bad if not _allowed(source, word)]
    return found


_TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_sources(path: Path) -> None:
    source = path.relative_to(ROOT).as_posix()
    assert not offences(path, source)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert not [phrase for phrase in PHRASES if re.search(phrase, text, re.IGNORECASE)]


def test_docstrings_say_something() -> None:
    """A first sentence is there, and ends."""
    for path in SOURCES:
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert text, path
        assert text.partition("\n\n")[0].rstrip().endswith((".", ":", "``")), path


def test_the_list_bites(tmp_path: Path) -> None:
    """A check that has never failed is none."""
    path = tmp_path / "bad.py"
    path.write_text('"""Weights, drawn anew."""\n\n\ndef _tidy(slope):  # with a chance of half\n    return slope\n')
    said = offences(path, "bad.py")
    assert [each.partition(": ")[2].partition(",")[0] for each in said] == [
        "'anew'",
        "tidy",
        "slope",
        "'with a chance of'",
        "slope",
    ]
