#!/usr/bin/env python3
"""Checks that docs/extending.md lists every place to change. A place is a file and words in it: `a/path.ext`, `word`, `word`. Each section has an existing
example, and its numbered places must be all places of that example: every product source with a word of the example must be listed. docs/architecture.md
must have a row for each folder."""

import os
import re
import unittest

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
PRODUCT = ("analyzer", "collector", "gui", "proto", "recorder")
SECTIONS = ("An NCCL function to record", "A finding kind", "A view of the viewer", "A dump format", "An exporter")
PLACE = re.compile(r"`([\w-]+/[\w./-]+\.[a-z]+)`((?:, `[^`]+`)*)")


def read(path):
    with open(os.path.join(SOURCE, path), errors="replace") as file:
        return file.read()


def product_sources():
    for top in PRODUCT:
        for folder, folders, names in os.walk(os.path.join(SOURCE, top)):
            folders[:] = [name for name in folders if name not in ("testing", "tests")]
            for name in names:
                if re.search(r"\.(cpp|h|proto|txt)$", name) and not re.search(r"_test[_.]", name):
                    yield os.path.relpath(os.path.join(folder, name), SOURCE)


def has(text, word):
    """Returns whether the text contains the word, and not only as a part of a longer word."""
    return re.search(r"(?<!\w)" + re.escape(word) + r"(?!\w)", text) is not None


class Section:
    def __init__(self, text):
        self.example = re.search(r"^Example: `([^`]+)`\.$", text, re.M).group(1)
        self.numbered, self.others = [], []
        for mark, item in re.findall(r"^(\d+\.|-) (.*?)(?=^\d+\. |^- |^$|\Z)", text, re.M | re.S):
            places = [(path, re.findall(r"`([^`]+)`", words)) for path, words in PLACE.findall(item)]
            (self.others if mark == "-" else self.numbered).extend(places)

    def names(self):
        """Returns those words of the numbered places that contain the example's name."""
        return {word for _, words in self.numbered for word in words
                if self.example.lower() in word.lower() and not re.search(r"[ /]", word)}


class ExtendingTest(unittest.TestCase):
    def setUp(self):
        self.sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", read("docs/extending.md"), re.M | re.S))

    def test_places_exist_and_contain_their_words(self):
        for title in SECTIONS:
            section = Section(self.sections[title])
            self.assertGreater(len(section.numbered), 5, title)
            for path, words in section.numbered + section.others:
                with self.subTest(section=title, place=path):
                    self.assertTrue(os.path.isfile(os.path.join(SOURCE, path)), f"{title}: {path} does not exist")
                    self.assertEqual([], [word for word in words if not has(read(path), word)], f"{title}: {path} contains none of these")

    def test_each_numbered_place_has_a_word_of_the_example(self):
        for title in SECTIONS:
            section = Section(self.sections[title])
            for path, _ in section.numbered:
                with self.subTest(section=title, place=path):
                    self.assertTrue(os.path.isfile(os.path.join(SOURCE, path)), f"{title}: {path} does not exist")
                    self.assertIn(section.example.lower(), (path + read(path)).lower(), f"{title}: {path} does not mention {section.example}")

    def test_no_other_source_has_a_word_of_the_example(self):
        for title in SECTIONS:
            section = Section(self.sections[title])
            listed = {path for path, _ in section.numbered + section.others}
            names = section.names()
            self.assertTrue(names, title)
            for path in product_sources():
                if path in listed:
                    continue
                text = read(path)
                with self.subTest(section=title, place=path):
                    self.assertEqual([], [name for name in names if has(text, name)],
                                     f"{title}: {path} contains these, too: add it to the list, or move the fact into a table")

    def test_every_folder_is_in_the_table_of_the_architecture_page(self):
        folders = re.findall(r"^lockstep_folder\(([\w/]+)", read("cmake/LockstepLayers.cmake"), re.M)
        self.assertGreater(len(folders), 40)
        rows = "\n".join(re.findall(r"^\| `.*$", read("docs/architecture.md"), re.M))
        self.assertEqual([], [folder for folder in folders if f"`{folder}`" not in rows])


if __name__ == "__main__":
    unittest.main()
