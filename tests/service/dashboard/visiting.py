"""A browser without a screen: signing in, forms, and what a page says."""

import re
from html import unescape
from html.parser import HTMLParser

import httpx

from conebandit.service.http import keys

EMPTY = ("meta", "link", "br", "input", "hr", "img")  # elements that are never closed


class Page(HTMLParser):
    """What a page has in it: its words, its forms with their fields, and every element."""

    def __init__(self, reply):
        super().__init__()
        self.reply, self.text = reply, reply.text
        self.forms, self.elements, self._open, self._words = [], [], [], []
        self.feed(reply.text)
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.elements.append((tag, given))
        if tag not in EMPTY:
            self._open.append(tag)
        if tag == "form":
            self.forms.append({"action": given.get("action", ""), "method": given.get("method", "get"), "fields": {}})
        if tag in ("input", "select", "textarea", "button") and "name" in given and "form" in self._open:
            self.forms[-1]["fields"][given["name"]] = given.get("value", "")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        self._words.append(data)

    @property
    def words(self):
        """All that can be read, with single spaces."""
        return re.sub(r"\s+", " ", "".join(self._words))

    def form(self, action):
        """The first form that is sent to an address that ends like this."""
        return next(form for form in self.forms if form["action"].endswith(action))

    @property
    def csrf(self):
        """The token of its forms."""
        return next(re.finditer(r'X-CSRF-Token": "([^"]*)"', unescape(self.text)))[1]


class Visitor:
    """Somebody with a browser."""

    def __init__(self, url, **options):
        self.http = httpx.Client(base_url=url, timeout=60, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def get(self, path, status=200, **options):
        reply = self.http.get(path, **options)
        assert reply.status_code == status, (reply.status_code, reply.text)
        return Page(reply)

    def send(self, path, status=303, **fields):
        """Send a form with the token of this session; gives the page that it leads to."""
        token = self.get("/dashboard").csrf
        reply = self.http.post(path, data={"csrf": token, **fields})
        assert reply.status_code == status, (reply.status_code, reply.text)
        return self.get(reply.headers["location"]) if status == 303 else Page(reply)

    def sign_in(self, key, actor="", where=""):
        return self.http.post("/dashboard/sign-in", data={"key": key, "actor": actor, "next": where})


def make_key(store, name, scope="read", **terms):
    """A new API key."""
    with store.write() as session:
        return keys.create_key(session, name, [scope], **terms)
