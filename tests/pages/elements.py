"""Pages, taken apart."""

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Start tags with what they are in, and nothing left open."""

    def __init__(self, text):
        super().__init__()
        self.path, self.seen = [], []
        self.feed(text)
        assert self.path == []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes), [(name, dict(of)) for name, of in self.path]))
        if tag not in ("meta", "link", "br"):
            self.path.append((tag, attributes))

    def handle_startendtag(self, tag, attributes):
        self.seen.append((tag, dict(attributes), [(name, dict(of)) for name, of in self.path]))

    def handle_endtag(self, tag):
        assert self.path.pop()[0] == tag

    def all(self, tag):
        return [(attributes, path) for name, attributes, path in self.seen if name == tag]
