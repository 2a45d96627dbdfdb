#!/usr/bin/env python3
"""Builds the documentation as a site that works from a folder, without a network.

docs/site.toml orders the pages; they stay where they are in docs/, and links from them to sources become copies in the site. The
pages of commands come from the command's own manual pages, those of the API from Doxygen. Before anything is built, each page of
docs/ must be in the navigation and each link must lead to a file. Afterwards each link and anchor of the site must resolve, and
nothing may be loaded from elsewhere.

usage: site_pages.py --check                      the navigation and the links of the pages alone; needs Python and nothing else
       site_pages.py --out FOLDER --command FILE  the site; needs mkdocs, doxygen, mandoc, and the `rpcrdma` command
"""
import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^\s*```")
CODE = re.compile(r"(`[^`]*`)")
ELSEWHERE = ("http:", "https:", "mailto:", "//")
INSIDE = ("data:", "javascript:")  # no file
GENERATED = "generated:"
API = "api-pages"
JQUERY = pathlib.Path("/usr/share/javascript/jquery/jquery.min.js")
# The theme styles the tables of this class alone.
TABLES = "document.querySelectorAll('.rst-content table').forEach((table) => table.classList.add('docutils'));\n"
# The theme keeps each cell of a table in one line, which it scrolls, and leaves a third of a wide window empty.
STYLE = """.wy-nav-content { max-width: 1100px; }
.wy-table-responsive table td, .wy-table-responsive table th { white-space: normal; }
.wy-table-responsive table code { white-space: normal; }
.manual-text h2 a.permalink, .manual-text h3 a.permalink { color: inherit; }
"""
STYLE_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


def sections(root):
    """Pairs of a title and the pages below it, by their paths from the root of the tree."""
    with open(root / "docs/site.toml", "rb") as file:
        return [(each["title"], each["pages"]) for each in tomllib.load(file)["section"]]


def is_generated(page):
    return page.startswith(GENERATED)


def place_of(page):
    """The path of a page within the site's sources."""
    if is_generated(page):
        return page.removeprefix(GENERATED) + ".md"
    if page == "README.md":
        return "index.md"
    return page.removeprefix("docs/") if page.startswith("docs/") else "project/" + page.lower()


def title_of(text, page):
    found = re.search(r"^# (.+)$", text, re.M)
    return found[1].replace("`", "") if found else page


def is_elsewhere(target):
    return target.startswith(ELSEWHERE)


def replace_links(text, replace):
    """The text with each target of a link replaced; code is left alone."""
    lines, is_code = [], False
    for line in text.split("\n"):
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            line = "".join(part if part.startswith("`") else LINK.sub(lambda at: at[1] + replace(at[2]) + at[3], part)
                           for part in CODE.split(line))
        lines.append(line)
    return "\n".join(lines)


def links_of(text):
    found = []
    replace_links(text, lambda target: found.append(target) or target)
    return [target for target in found if not is_elsewhere(target)]


def check_sources(root):
    """What is wrong with the navigation, and with links of the pages in it."""
    findings, seen = [], []
    for title, pages in sections(root):
        for page in pages:
            if page in seen:
                findings.append(f"site.toml: {page} is in the navigation twice, again in '{title}'")
            seen.append(page)
            if not is_generated(page) and not (root / page).is_file():
                findings.append(f"site.toml: '{title}' names {page}, which there is not")
    for path in sorted((root / "docs").rglob("*.md")):
        page = str(path.relative_to(root))
        if page not in seen:
            findings.append(f"{page} is not in the navigation of docs/site.toml")
    for page in seen:
        if is_generated(page) or not (root / page).is_file():
            continue
        for target in links_of((root / page).read_text(encoding="utf-8")):
            path = urllib.parse.unquote(target.split("#")[0])
            if path and not ((root / page).parent / path).exists():
                findings.append(f"{page}: its link to {target} leads nowhere")
    return findings


class Stage:
    """The site's sources: the pages with their links as the site needs them, and copies of the files that they lead to."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.places = {page: place_of(page) for _, pages in sections(root) for page in pages}

    def write(self, place, text):
        path = self.folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def copy_source(self, path):
        """The place of a copy of a file, or of the list of a folder, as text, which every browser shows."""
        page = path.relative_to(self.root)
        if path.is_dir():
            place = f"sources/{page}/index.txt"
            self.write(place, "\n".join(sorted(each.name for each in path.iterdir())) + "\n")
        elif path.suffix == ".svg":
            place = str(page)
            (self.folder / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.folder / place)
        else:
            place = f"sources/{page}.txt"
            self.write(place, path.read_text(encoding="utf-8"))
        return place

    def target_from(self, page, target):
        if is_elsewhere(target) or target.startswith("#"):
            return target
        name, mark, anchor = target.partition("#")
        path = pathlib.Path(os.path.normpath((self.root / page).parent / urllib.parse.unquote(name)))
        linked = str(path.relative_to(self.root))
        place = self.places.get(linked) or self.copy_source(path)
        return os.path.relpath(place, pathlib.Path(self.places[page]).parent) + mark + anchor

    def add_pages(self):
        for page, place in self.places.items():
            if not is_generated(page):
                text = (self.root / page).read_text(encoding="utf-8")
                self.write(place, replace_links(text, lambda target, page=page: self.target_from(page, target)))

    def add_manual(self, command):
        """A page for each page of the manual, from the command itself."""
        names = ["", *names_of_manual(command)]
        index = ["# Manual pages", "", "The command prints these pages itself (`man rpcrdma-serve` shows one where it is installed).", ""]
        for name in names:
            page = f"rpcrdma-{name}(1)" if name and "." not in name else f"{name}(5)" if name else "rpcrdma(1)"
            text = run([command, "manual", *([name] if name else [])])
            fragment = below_title(run(["mandoc", "-T", "html", "-O", "fragment"], text))
            self.write(f"manual/{name or 'rpcrdma'}.md", f"# {page}\n\n<div>\n{fragment}</div>\n")
            index.append(f"- [{page}](manual/{name or 'rpcrdma'}.md)")
        self.write("manual.md", "\n".join(index) + "\n")

    def add_headers(self):
        """A page that leads from each public header to its page of Doxygen."""
        lines = ["# The headers", "", "A page for each installed header, made from its comments. [api.md](api.md) explains them in order.",
                 ""]
        for path in sorted((self.root / "include/rpcrdma").glob("*.h")):
            first = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("//").strip()
            page = path.name.replace("_", "__").replace(".", "_8")
            lines.append(f"- [{path.name}]({API}/{page}.html): {first}")
        self.write("headers.md", "\n".join(lines) + "\n")
        settings = (self.root / "docs/Doxyfile").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            run(["doxygen", "-"], f"{settings}\nOUTPUT_DIRECTORY = \"{folder}\"\n", cwd=self.root)
            shutil.copytree(f"{folder}/html", self.folder / API)

    def navigation(self):
        result = []
        for title, pages in sections(self.root):
            entries = []
            for page in pages:
                text = (self.folder / self.places[page]).read_text(encoding="utf-8")
                entries.append({title_of(text, page): self.places[page]})
            result.append({title: entries} if len(entries) > 1 else {title: self.places[pages[0]]})
        return result


def below_title(fragment):
    """A manual page of mandoc as a part of a page that has a title: its sections are below that, and its head and foot, which say
    the title again, are gone."""
    fragment = re.sub(r'<table class="(head|foot)">.*?</table>\n?', "", fragment, flags=re.S)
    for level in (2, 1):  # the lower one first
        fragment = re.sub(rf"<(/?)h{level}\b", rf"<\1h{level + 1}", fragment)
    return re.sub(r"\n\s*\n", "\n", fragment)  # an empty line would end the block of HTML


def run(words, text=None, cwd=None):
    result = subprocess.run(words, input=text, capture_output=True, text=True, cwd=cwd, check=False)
    if result.returncode != 0:
        sys.exit(f"site: {' '.join(map(str, words))} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def names_of_manual(command):
    """The names of the manual's pages but for the first: subcommands, and the file of settings."""
    page = run([command, "manual"]).split(".SH OPTIONS", 1)[0]
    names = [name.replace("\\", "") for name in re.findall(r"^\.BR rpcrdma\\-(\S+) \(1\)$", page, re.M)]
    return [*names, "serve.toml"]


class Page(html.parser.HTMLParser):
    """What a page of the site links to, what it loads, and its anchors."""

    def __init__(self, text):
        super().__init__()
        self.links, self.assets, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        facts = dict(attrs)
        self.anchors |= {facts[key] for key in ("id", "name") if facts.get(key)}
        if tag == "a" and facts.get("href"):
            self.links.append(facts["href"])
        if tag == "link" and facts.get("href") and facts.get("rel") != "canonical":
            self.assets.append(facts["href"])
        if tag in ("script", "img", "iframe", "source", "object", "embed") and (facts.get("src") or facts.get("data")):
            self.assets.append(facts.get("src") or facts["data"])


def check_style(path, out):
    found = [a or b for a, b in STYLE_URL.findall(path.read_text(encoding="utf-8", errors="replace"))]
    for target in found:
        if is_elsewhere(target):
            yield f"{path.relative_to(out)} loads {target} from the network"
        elif not target.startswith(("data:", "#")) and not (path.parent / re.split("[?#]", target)[0]).exists():
            yield f"{path.relative_to(out)} loads {target}, which there is not"


def check_link(pages, path, target):
    """Why a link leads nowhere, or None."""
    name, _, anchor = target.partition("#")
    name = urllib.parse.unquote(name.split("?")[0])
    to = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
    if to.is_dir():
        to = to / "index.html"
    if not to.exists():
        return "leads nowhere"
    anchor = urllib.parse.unquote(anchor)
    is_doxygens = not name and path.parent.name == API  # it links to summaries that some of its pages lack
    if anchor and not is_doxygens and to in pages and anchor not in pages[to].anchors:
        return "has an anchor that is not in the page"
    return None


def check_site(out):
    """What is wrong with a built site."""
    findings = []
    pages = {path: Page(path.read_text(encoding="utf-8", errors="replace")) for path in sorted(out.rglob("*.html"))}
    for path, page in pages.items():
        where = path.relative_to(out)
        for target in page.assets:
            if is_elsewhere(target):
                findings.append(f"{where} loads {target} from the network")
            elif not target.startswith(INSIDE) and check_link(pages, path, target.split("#")[0]):
                findings.append(f"{where} loads {target}, which there is not")
        for target in page.links:
            if is_elsewhere(target) or target.startswith(INSIDE):
                continue
            if fault := check_link(pages, path, target):
                findings.append(f"{where}: its link to {target} {fault}")
    for path in sorted(out.rglob("*.css")):
        findings += check_style(path, out)
    return findings, len(pages)


def add_scripts(out):
    """Adds the scripts that pages of Debian's mkdocs 1.4 load, and that its theme has by other names or not at all."""
    for target in Page((out / "index.html").read_text(encoding="utf-8")).assets:
        path = out / target
        if re.fullmatch(r"js/jquery-[\d.]+\.min\.js", target) and not path.exists():
            shutil.copy(JQUERY, path)
        elif target == "js/theme_extra.js" and not path.exists():
            path.write_text(TABLES, encoding="utf-8")


def build(root, out, command):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        stage = Stage(root, folder / "pages")
        stage.add_pages()
        stage.add_manual(command)
        stage.add_headers()
        stage.write("site.css", STYLE)
        settings = {"site_name": "rpcrdma", "docs_dir": str(folder / "pages"), "site_dir": str(out), "use_directory_urls": False,
                    "theme": {"name": "readthedocs", "highlightjs": False, "navigation_depth": 2}, "plugins": [],
                    "extra_css": ["site.css"], "nav": stage.navigation()}
        (folder / "mkdocs.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        run(["mkdocs", "build", "--quiet", "--clean", "-f", str(folder / "mkdocs.yml")])
    (out / "404.html").unlink(missing_ok=True)  # for web servers; its links are those of a site at the root of a server
    add_scripts(out)


def report(findings, text):
    for finding in findings:
        print(finding)
    print(f"site: {text}, {len(findings)} findings")
    return 1 if findings else 0


def main():
    parser = argparse.ArgumentParser(description="Builds the documentation as a site, or checks its pages.")
    parser.add_argument("--check", action="store_true", help="check the navigation and the links of the pages alone")
    parser.add_argument("--out", type=pathlib.Path, help="the folder of the site")
    parser.add_argument("--command", type=pathlib.Path, help="the rpcrdma command, which prints its manual pages")
    arguments = parser.parse_args()
    if not arguments.check and (arguments.out is None or arguments.command is None):
        parser.error("give --check, or --out and --command")
    findings = check_sources(ROOT)
    if findings or arguments.check:
        return report(findings, f"{sum(len(pages) for _, pages in sections(ROOT))} pages in the navigation")
    out = arguments.out.resolve()
    build(ROOT, out, arguments.command.resolve())
    findings, pages = check_site(out)
    return report(findings, f"{pages} pages in {arguments.out}")


if __name__ == "__main__":
    sys.exit(main())
