"""What tests of pages and pictures read from them."""

import html.parser
import re
import xml.etree.ElementTree as ET


def named(pictures) -> dict:
    return {picture.name: picture for picture in pictures}


def texts(svg: str) -> list[str]:
    """What is written in a picture."""
    return ["".join(node.itertext()).strip() for node in ET.fromstring(svg).iter() if node.tag.endswith("text")]


class Page(html.parser.HTMLParser):
    """The elements of a page: every opened one must be closed, and ids must be unique."""

    VOID = {"meta", "link", "br", "img", "hr"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.texts = [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
            if name in ("src", "href", "xlink:href", "data", "action"):
                self.links.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.texts.append(text)


def check_alone(text: str) -> Page:
    """The page needs nothing from elsewhere."""
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith("data:image/png;base64,") for link in page.links)
    assert not re.search(r"https?:|@import|<script|<link|<iframe|url\(|javascript", text)
    assert len(text) < 300_000 and "prefers-color-scheme" not in text and "color-scheme: light dark" in text
    return page
