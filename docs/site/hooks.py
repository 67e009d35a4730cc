"""Add the files outside of docs/ that pages link to, so that the site is complete by itself.

A Markdown file becomes a page, a picture a file, a folder a list, any other text a page of code.
All of them are below `source/`, and links are changed to lead there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
PREFIX = "source/"

_FENCE = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_PICTURES = {".svg", ".png"}
_LANGUAGES = {".py": "python", ".mlir": "mlir", ".c": "c", ".toml": "toml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the linked files, and those that they link to."""
    waiting = [DOCS / file.src_uri for file in files.documentation_pages()]
    waiting += [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    seen: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        if not path.is_relative_to(DOCS):
            files.append(_file(path, config))
        if path.suffix == ".md":
            waiting.extend(target for target, _ in _targets(path.read_text(), path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with links to the places that the files have in the site."""
    origin = _origin(page.file.src_uri)

    def changed(match: re.Match[str]) -> str:
        target = _resolved(match["path"], origin)
        place = os.path.relpath(_place(target), PurePosixPath(page.file.src_uri).parent)
        return f"{place}{match['anchor'] or ''}"

    return "".join(
        text if is_code else _LINK.sub(changed, text) for is_code, text in _parts(markdown)
    )


def _origin(uri: str) -> Path:
    """Return the file of the repository that a page of the site was made of."""
    if not uri.startswith(PREFIX):
        return DOCS / uri
    path = ROOT / uri.removeprefix(PREFIX)
    return path if path.exists() else path.with_suffix("")


def _place(path: Path) -> str:
    """Return the place of a file of the repository in the site."""
    if path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS))
    uri = f"{PREFIX}{path.relative_to(ROOT)}"
    return uri if path.suffix in {".md", *_PICTURES} else f"{uri}.md"


def _file(path: Path, config: MkDocsConfig) -> File:
    if path.suffix in {".md", *_PICTURES}:
        return File.generated(config, _place(path), abs_src_path=str(path))
    name = str(path.relative_to(ROOT))
    if path.is_dir():
        entries = sorted(
            each.name for each in path.iterdir() if not each.name.startswith(("_", "."))
        )
        text = f"# {name}\n\n" + "\n".join(f"- `{entry}`" for entry in entries)
    else:
        language = _LANGUAGES.get(path.suffix, "text")
        text = f"# {name}\n\n````{language}\n{path.read_text()}\n````\n"
    return File.generated(config, _place(path), content=text)


def _targets(markdown: str, origin: Path) -> Iterator[tuple[Path, str]]:
    for is_code, text in _parts(markdown):
        if not is_code:
            for match in _LINK.finditer(text):
                yield _resolved(match["path"], origin), match["anchor"] or ""


def _resolved(link: str, origin: Path) -> Path:
    return Path(os.path.normpath(origin.parent / link))


def _parts(markdown: str) -> Iterator[tuple[bool, str]]:
    """Yield the text outside of fenced code, and the code, in order."""
    end = 0
    for match in _FENCE.finditer(markdown):
        yield False, markdown[end : match.start()]
        yield True, match.group()
        end = match.end()
    yield False, markdown[end:]
