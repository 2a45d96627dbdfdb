#!/usr/bin/env python3
"""Tests of scripts/site_pages.py on small trees: its faults are named, and its links lead where they should. Needs no mkdocs."""
import pathlib
import tempfile
import unittest

import site_pages as site


class SiteTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.put("docs/site.toml", '[[section]]\ntitle = "Home"\npages = ["README.md", "docs/a.md", "docs/adr/1.md"]\n')
        self.put("README.md", "# Home\n[a](docs/a.md#part)\n")
        self.put("docs/a.md", "# `A`\n[one](adr/1.md) [code](../src/x.cc) [folder](../src) [far](https://example.org/)\n")
        self.put("docs/adr/1.md", "# One\n[`A`](../a.md)\n```\n[no](nowhere.md)\n```\n`[no](nowhere.md)`\n")
        self.put("src/x.cc", "int x;\n")

    def put(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def staged(self, place):
        stage = site.Stage(self.root, self.root / "staged")
        stage.add_pages()
        return (self.root / "staged" / place).read_text(encoding="utf-8")

    def test_a_whole_tree_has_no_findings(self):
        self.assertEqual(site.check_sources(self.root), [])

    def test_a_page_outside_the_navigation_is_named(self):
        self.put("docs/adr/2.md", "# Two\n")
        self.assertEqual(site.check_sources(self.root), ["docs/adr/2.md is not in the navigation of docs/site.toml"])

    def test_a_page_that_is_gone_or_comes_twice_is_named(self):
        self.put("docs/site.toml", '[[section]]\ntitle = "Home"\n'
                 'pages = ["README.md", "docs/a.md", "docs/a.md", "docs/b.md", "docs/adr/1.md"]\n')
        self.assertEqual(site.check_sources(self.root), [
            "site.toml: docs/a.md is in the navigation twice, again in 'Home'",
            "site.toml: 'Home' names docs/b.md, which there is not"])

    def test_a_link_to_nowhere_is_named(self):
        self.put("docs/adr/1.md", "# One\n[x](../b.md)\n")
        self.assertEqual(site.check_sources(self.root), ["docs/adr/1.md: its link to ../b.md leads nowhere"])

    def test_links_between_pages_follow_them(self):
        self.assertIn("[a](a.md#part)", self.staged("index.md"))
        self.assertIn("[`A`](../a.md)", self.staged("adr/1.md"))
        self.assertIn("[one](adr/1.md)", self.staged("a.md"))
        self.assertIn("[far](https://example.org/)", self.staged("a.md"))

    def test_links_in_code_stay_as_they_are(self):
        self.assertEqual(self.staged("adr/1.md").count("[no](nowhere.md)"), 2)

    def test_manual_page_is_below_the_title_of_its_page(self):
        fragment = ('<table class="head">\n<tr><td>X(1)</td></tr>\n</table>\n<section class="Sh">\n<h1 class="Sh" id="NAME">NAME</h1>\n'
                    '\n<h2 class="Ss">Part</h2>\n<table class="tbl"><tr><td>kept</td></tr></table>\n</section>\n'
                    '<table class="foot">\n<tr><td>today</td></tr>\n</table>\n')
        self.assertEqual(site.below_title(fragment), '<section class="Sh">\n<h2 class="Sh" id="NAME">NAME</h2>\n'
                         '<h3 class="Ss">Part</h3>\n<table class="tbl"><tr><td>kept</td></tr></table>\n</section>\n')

    def test_sources_become_copies_that_a_browser_shows(self):
        self.assertIn("[code](sources/src/x.cc.txt) [folder](sources/src/index.txt)", self.staged("a.md"))
        self.assertEqual(self.staged("sources/src/x.cc.txt"), "int x;\n")
        self.assertEqual(self.staged("sources/src/index.txt"), "x.cc\n")

    def test_files_of_the_root_have_a_folder_of_their_own(self):
        self.assertEqual(site.place_of("SECURITY.md"), "project/security.md")
        self.assertEqual(site.place_of("docs/security.md"), "security.md")

    def findings(self, page, style=""):
        self.put("out/index.html", f'<p id="here">{page}</p>')
        self.put("out/other.html", '<h2 id="part">Part</h2>')
        self.put("out/style.css", style)
        return site.check_site(self.root / "out")[0]

    def test_a_whole_site_has_no_findings(self):
        self.assertEqual(self.findings('<link rel="stylesheet" href="style.css"><a href="other.html#part">x</a><a href="#here">x</a>'
                                       '<a href="https://example.org/">x</a>', "p { background: url(data:x) }"), [])

    def test_broken_links_and_anchors_of_the_site_are_named(self):
        self.assertEqual(self.findings('<a href="gone.html">x</a><a href="other.html#gone">x</a><a href="#gone">x</a>'), [
            "index.html: its link to gone.html leads nowhere",
            "index.html: its link to other.html#gone has an anchor that is not in the page",
            "index.html: its link to #gone has an anchor that is not in the page"])

    def test_what_comes_from_the_network_is_named(self):
        self.assertEqual(self.findings('<script src="https://cdn.example/x.js"></script><img src="//cdn.example/x.png">'
                                       '<link rel="stylesheet" href="http://cdn.example/x.css"><script src="gone.js"></script>',
                                       "@import 'https://fonts.example/x'; p { background: url(gone.png) }"), [
            "index.html loads https://cdn.example/x.js from the network",
            "index.html loads //cdn.example/x.png from the network",
            "index.html loads http://cdn.example/x.css from the network",
            "index.html loads gone.js, which there is not",
            "style.css loads https://fonts.example/x from the network",
            "style.css loads gone.png, which there is not"])


if __name__ == "__main__":
    unittest.main()
