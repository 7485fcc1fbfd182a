#!/usr/bin/env python3
"""Builds the documentation site with mdBook, and checks every link of what came out.

usage: scripts/book.py MDBOOK [DIR]      MDBOOK: the program; DIR: where the site goes, target/book by default

Pages link to files of the repository that are no pages: tests, layouts, the licence. They go into `source/` of the site, as text. The
pages architecture, contributing and changelog include files of the repository's root, so their links count from there.
Exit status 1: mdBook failed, or a link leads nowhere. Every such link is a line on standard error.
"""
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys
from html import escape, unescape
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Pages that include a file of the root, by that file.
INCLUDED = {"ARCHITECTURE.html": "architecture.html", "CONTRIBUTING.html": "contributing.html",
            "CHANGELOG.html": "changelog.html", "README.html": "index.html", "index.html": "index.html"}
AT_ROOT = {"architecture.html", "contributing.html", "changelog.html"}
# Pages of mdBook's own, whose links are not relative to themselves.
OWN = {"404.html", "toc.html", "print.html"}
LINK = re.compile(r'\b(href|src)="([^"]*)"')


def relative(target):
    """Whether a link leads to a place of this site."""
    parts = urlsplit(target)
    return not parts.scheme and not parts.netloc and bool(parts.path) and not parts.path.startswith("/")


def publish(path, site):
    """Copies a file or directory of the repository into the site. Returns its place there, or None if there is no such file."""
    there = ROOT / path
    if there.is_dir():
        place = f"source/{path}/index.html"
        names = sorted(p.name for p in there.iterdir() if p.is_file() and not p.name.startswith("."))
        for name in names:
            publish(f"{path}/{name}", site)
        items = "".join(f'<li><a href="{escape(n)}.txt">{escape(n)}</a></li>' for n in names)
        text = f'<!DOCTYPE html><meta charset="utf-8"><title>{escape(path)}</title><h1>{escape(path)}</h1><ul>{items}</ul>'
    elif there.is_file():
        place, text = f"source/{path}.txt", there.read_text()
    else:
        return None
    (site / place).parent.mkdir(parents=True, exist_ok=True)
    (site / place).write_text(text)
    return place


def mend(page, site):
    """Links of a page that lead out of the book lead to its copies of the repository's files instead."""
    name = page.relative_to(site).as_posix()
    base = "" if name in AT_ROOT else posixpath.join("docs", posixpath.dirname(name))

    def link(match):
        attribute, target = match.group(1), unescape(match.group(2))
        if not relative(target):
            return match.group(0)
        parts = urlsplit(target)
        path = posixpath.normpath(posixpath.join(base, unquote(parts.path)))
        if path.startswith("docs/"):
            place = path[len("docs/"):]
        elif path in INCLUDED:
            place = INCLUDED[path]
        else:
            # mdBook has made .html of .md; of a file of the repository it is not.
            markdown = path[: -len(".html")] + ".md" if path.endswith(".html") else path
            place = publish(markdown, site) or path
        to = posixpath.relpath(place, posixpath.dirname(name) or ".")
        fragment = f"#{parts.fragment}" if parts.fragment and not place.startswith("source/") else ""
        return f'{attribute}="{escape(to + fragment)}"'

    text = page.read_text()
    begin, end = text.find("<main>"), text.find("</main>")
    if begin >= 0:
        page.write_text(text[:begin] + LINK.sub(link, text[begin:end]) + text[end:])


class Page(HTMLParser):
    """The places that a page has, and the links that it makes."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids.update(values[k] for k in ("id", "name") if values.get(k))
        self.links += [values[k] for k in ("href", "src") if values.get(k)]


def broken(site):
    """Links of the site that lead nowhere, each in words."""
    pages = {p.relative_to(site).as_posix(): Page(p.read_text()) for p in site.rglob("*.html") if p.name not in OWN}
    for name, page in sorted(pages.items()):
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
            if path.endswith("/") or (site / path).is_dir():
                path = posixpath.join(path, "index.html")
            if not (site / path).is_file():
                yield f"{name}: {target}: no such file"
            elif parts.fragment and path in pages and unquote(parts.fragment) not in pages[path].ids:
                yield f"{name}: {target}: no such heading"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    mdbook = os.path.abspath(sys.argv[1]) if os.sep in sys.argv[1] else sys.argv[1]
    site = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else ROOT / "target" / "book").resolve()
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run([mdbook, "build", str(ROOT), "--dest-dir", str(site)], check=True)
    for page in sorted(site.rglob("*.html")):
        if page.name not in OWN:
            mend(page, site)
    wrong = list(broken(site))
    for line in wrong:
        print(f"book.py: {line}", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"{len(list(site.rglob('*.html')))} pages in {site}; every link leads somewhere. Begin with {site / 'index.html'}")


if __name__ == "__main__":
    main()
