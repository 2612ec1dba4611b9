"""The ground of the dashboard: signing in, sessions, forms, headers, and what becomes of nonsense."""

import asyncio
import base64
import copy
import json
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote, urljoin

import httpx
import pytest
import typer
from starlette.routing import Route

from conebandit.experiment.errors import InvalidError
from conebandit.pages.palette import SERIES
from conebandit.pages.template import render
from conebandit.service.commands import serving as serving_command
from conebandit.service.dashboard import pages as pages_module
from conebandit.service.dashboard import sessions as sessions_module
from conebandit.service.dashboard.pages import EXPERIMENTS, HEADERS, VIEWS, _local
from conebandit.service.dashboard.sessions import COOKIE, LIFETIME, MAX_LIFETIME, OPEN, Sessions, find_session_key
from conebandit.service.dashboard.views import front, progress, what_if
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import CorruptionError, UnavailableError
from conebandit.service.http import access, keys, server
from conebandit.service.http.app import create_app
from conebandit.service.http.connections import FewLines
from conebandit.service.http.server import serving
from conebandit.service.stores.base import open_store
from conebandit.service.stores.sqlite import SqliteStore
from tests.service.conftest import DECLARATION
from tests.service.dashboard.visiting import Page, make_key
from tests.service.driver import Driver

SECRET = b"a secret that several processes share"
OVERVIEW = "/dashboard/experiments/checkout"


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return str(tmp_path_factory.mktemp("dashboard") / "log.db")


@pytest.fixture(scope="module")
def done():
    """What was sent to the form that the service has for these tests."""
    return []


@pytest.fixture(scope="module")
def url(where, done):
    """A service with two experiments, and with one more form."""
    add_rest = pages_module.Pages.add_rest

    def add(pages):
        @pages.action("/try", scope="read")
        async def attempt(asked):
            done.append(asked.form)
            return pages.back(asked, "", f"done with {asked.form.get('what')}")

        @pages.view("/broken")
        async def broken(_):
            raise CorruptionError("event 7 is not what was written")

        add_rest(pages)

    store = open_store(where)
    for id_ in ("checkout", "other"):
        Driver(store, id_).create(copy.deepcopy(DECLARATION) | {"id": id_})
    store.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages_module.Pages, "add_rest", add)
        with serving(where, session_key=SECRET) as url:
            yield url


@pytest.fixture
def kept(where, url, done, monkeypatch):
    """Its store, without keys; what happens to keys is seen at once."""
    monkeypatch.setattr(access, "MAX_KEY_AGE", 0.0)
    store = open_store(where)
    done.clear()
    yield store
    with store.write() as session:
        for key in session.api_keys():
            session.remove_key(key.id)
        session._run("DELETE FROM store_log")  # or the next test could not use the same names
    store.close()


def cookies_of(reply):
    return [value for name, value in reply.headers.multi_items() if name == "set-cookie"]


# ---- signing in -----------------------------------------------------------------------------------------------------


def test_who_has_a_key_that_may_read_signs_in_and_out(kept, url, come):
    key, visitor = make_key(kept, "board"), come()
    assert visitor.http.get(f"{OVERVIEW}?{'a' * 5000}").headers["location"].endswith("next=%2Fdashboard")
    reply = visitor.http.get(f"{OVERVIEW}?a=1")
    assert reply.status_code == 303
    assert reply.headers["location"] == "/dashboard/sign-in?next=" + quote(f"{OVERVIEW}?a=1", safe="")
    form = visitor.get(reply.headers["location"])
    assert form.form("/sign-in")["fields"]["next"] == f"{OVERVIEW}?a=1"
    assert "everybody on this machine" not in form.words
    reply = visitor.sign_in(key, "Dr. Müller", f"{OVERVIEW}?a=1")
    assert (reply.status_code, reply.headers["location"]) == (303, f"{OVERVIEW}?a=1")
    assert key not in str(reply.headers), "the key itself is in no cookie"
    page = visitor.get(OVERVIEW)
    assert "board, Dr. Müller" in page.words
    assert "Control" not in page.words, "that takes a key with scope admin"
    visitor.http.post("/dashboard/sign-out", data={"csrf": "made up"})
    visitor.get(OVERVIEW)
    copied = visitor.http.cookies[COOKIE]
    visitor.http.post("/dashboard/sign-out", data={"csrf": page.csrf})
    assert COOKIE not in visitor.http.cookies
    assert visitor.http.get(OVERVIEW).status_code == 303
    assert come(cookies={COOKIE: copied}).http.get(OVERVIEW).status_code == 303, "a copy is worth nothing either"


def test_nobody_else_signs_in(kept, url, caplog, monkeypatch, come):
    key, visitor = make_key(kept, "board"), come()
    late = make_key(kept, "late", expires="1s")
    decides = make_key(kept, "page", "decide")
    monkeypatch.setattr(keys, "has_expired", lambda key: key.name == "late")
    counted = re.findall(r'{reason="key",key=""} (\d+)', httpx.get(f"{url}/metrics", headers={"x-api-key": key}).text)
    before = int(counted[0]) if counted else 0
    for wrong in ("", "x", key + "x", key[:-1], "cb__", "\0", "é" * 1000):
        reply = visitor.sign_in(wrong)
        assert reply.status_code == 401
        assert "this is not a key" in Page(reply).words
        assert not cookies_of(reply)
    reply = visitor.sign_in(late)
    assert reply.status_code == 401
    assert "has expired" in Page(reply).words
    reply = visitor.sign_in(decides)
    assert reply.status_code == 403
    assert "has not the scope 'read'" in Page(reply).words
    for actor in ("a\nb", "x" * 129, chr(0x202E)):
        reply = visitor.sign_in(key, actor)
        assert reply.status_code == 422
        assert not cookies_of(reply)
    assert visitor.http.get(OVERVIEW).status_code == 303
    metrics = httpx.get(f"{url}/metrics", headers={"x-api-key": key}).text
    for reason, name, count in (("key", "", before + 7), ("expired", "late", 1), ("scope", "page", 1)):
        assert f'conebandit_refused_requests_total{{reason="{reason}",key="{name}"}} {count}' in metrics


def test_refused_sign_ins_fill_no_log(kept, url, caplog, monkeypatch, come):
    make_key(kept, "board")
    monkeypatch.setattr(pages_module.sign_ins, "filters", [FewLines()])
    visitor = come()
    with caplog.at_level(logging.WARNING):
        for _ in range(50):
            assert visitor.sign_in("a guess").status_code == 401
    said = [record for record in caplog.records if record.name == pages_module.sign_ins.name]
    assert len(said) == 10
    assert "a guess" not in caplog.text, "it may be a key with a typo"
    assert said[0].fields["remote"] == "127.0.0.1"


def test_a_session_ends_with_its_key(kept, done, monkeypatch, come):
    make_key(kept, "another")
    key, visitor = make_key(kept, "board"), come()
    visitor.sign_in(key)
    visitor.get(OVERVIEW)
    with monkeypatch.context() as patch:
        patch.setattr(keys, "has_expired", lambda key: key.name == "board")
        assert visitor.http.get(OVERVIEW).headers["location"].startswith("/dashboard/sign-in")
    visitor.get(OVERVIEW)
    with kept.write() as session:
        keys.revoke_key(session, key.split("_")[1])
    reply = visitor.http.get(OVERVIEW)
    assert (reply.status_code, reply.headers["location"][:18]) == (303, "/dashboard/sign-in")
    reply = visitor.http.get(OVERVIEW, headers={"hx-request": "true"})
    assert (reply.status_code, reply.headers["hx-redirect"][:18]) == (204, "/dashboard/sign-in")
    token = Sessions(SECRET).token(Sessions(SECRET).read(visitor.http.cookies[COOKIE]))
    reply = visitor.http.post(f"{OVERVIEW}/try", data={"csrf": token})
    assert reply.headers["location"].startswith("/dashboard/sign-in")
    assert done == []


def test_a_key_for_some_experiments_shows_only_these(kept, url, come):
    visitor = come()
    visitor.sign_in(make_key(kept, "some", experiments=["other", "missing"]))
    links = [of.get("href") for tag, of in visitor.get("/dashboard").elements if tag == "a"]
    assert "/dashboard/experiments/other" in links
    assert OVERVIEW not in links
    visitor.get("/dashboard/experiments/other")
    refused = visitor.get(OVERVIEW, 403)
    assert "not for experiment 'checkout'" in refused.words
    assert not any("/experiments/checkout" in str(of.get("href")) for _, of in refused.elements)
    visitor.get("/dashboard/experiments/missing", 404)
    visitor.get("/dashboard/nonsense", 404)


# ---- cookies --------------------------------------------------------------------------------------------------------


def test_the_cookie_is_for_the_dashboard_alone(kept, url, come):
    key, visitor = make_key(kept, "board"), come()
    [cookie] = cookies_of(visitor.sign_in(key))
    flags = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert flags == {"httponly", "path=/dashboard", "samesite=lax"}
    https = {"x-forwarded-proto": "https"}  # as a proxy on this machine says
    [cookie] = cookies_of(visitor.http.post("/dashboard/sign-in", data={"key": key}, headers=https))
    assert "secure" in cookie.lower()
    old = come(cookies={COOKIE: cookie_of(key, 600)})
    [renewed] = cookies_of(old.get(OVERVIEW, headers=https).reply)
    assert "secure" in renewed.lower()
    assert cookies_of(visitor.http.get("/experiments", headers={"x-api-key": key})) == []


def cookie_of(key, ago, secret=SECRET, **changes):
    """A cookie of somebody who has signed in so many seconds ago."""
    sessions = Sessions(secret, clock=lambda: time.time() - ago)
    return sessions.cookie(sessions.begin(key.split("_")[1], "ann")._replace(**changes))


def test_a_session_ends_an_hour_after_the_last_request_and_twelve_after_the_first(kept, url, come):
    key = make_key(kept, "board")

    def status(cookie):
        return httpx.get(url + OVERVIEW, cookies={COOKIE: cookie}).status_code

    assert status(cookie_of(key, LIFETIME - 60)) == 200
    assert status(cookie_of(key, LIFETIME + 1)) == 303
    now = int(time.time())
    reply = httpx.get(url + OVERVIEW, cookies={COOKIE: cookie_of(key, LIFETIME - 60)})
    renewed = Sessions(SECRET).read(reply.cookies[COOKIE])
    assert 0 <= renewed.ends - now - LIFETIME <= 10, "every request gives it another hour"
    assert renewed.begun == pytest.approx(now - LIFETIME + 60, abs=10)
    almost = cookie_of(key, MAX_LIFETIME - 600, ends=now + 60)
    reply = httpx.get(url + OVERVIEW, cookies={COOKIE: almost})
    assert reply.status_code == 200
    last = Sessions(SECRET).read(reply.cookies[COOKIE])
    assert last.ends == last.begun + MAX_LIFETIME
    assert not cookies_of(httpx.get(url + OVERVIEW, cookies={COOKIE: cookie_of(key, 30)})), "not with every reply"
    clock = [0.0]
    sessions = Sessions(SECRET, clock=lambda: clock[0])
    session = sessions.begin("a")
    for half_hour in range(1, 48):
        clock[0] = half_hour * 1800
        read = sessions.read(sessions.cookie(session))
        assert (read is not None) == (half_hour < 24)
        session = sessions.renewed(session)


def test_sessions_that_have_ended_are_remembered_as_long_as_it_matters(monkeypatch):
    clock = [0.0]
    sessions = Sessions(SECRET, clock=lambda: clock[0])
    first, second = sessions.begin("a"), sessions.begin("a")
    sessions.end(first)
    assert sessions.read(sessions.cookie(first)) is None
    assert sessions.read(sessions.cookie(sessions.renewed(first))) is None
    assert sessions.read(sessions.cookie(second)) == second
    clock[0] = MAX_LIFETIME + 1.0
    sessions.end(sessions.begin("a"))
    assert len(sessions._ended) == 1
    monkeypatch.setattr(sessions_module, "MAX_ENDED", 3)
    for _ in range(9):
        sessions.end(sessions.begin("a"))
    assert len(sessions._ended) == 3


def test_no_cookie_can_be_forged(kept, url, come):
    key = make_key(kept, "board")
    fine = cookie_of(key, 0)
    body, _, signature = fine.partition(".")
    other = base64.urlsafe_b64encode(json.dumps([key.split("_")[1], "eve", 0, 2**40, "id"]).encode()).decode()
    forged = [
        *("", ".", "..", body, f"{body}.", f".{signature}", f"{other}.{signature}", fine[:-1], fine + "0", "x" * 4000),
        *(cookie_of(key, 0, secret) for secret in (b"another secret of 16", SECRET + b"0")),
        "\x7f.\x7f",
        base64.urlsafe_b64encode(b"[]").decode() + "." + signature,
    ]
    with httpx.Client(base_url=url) as client:
        assert client.get(OVERVIEW, headers={"cookie": f"{COOKIE}={fine}"}).status_code == 200
        for cookie in forged:
            reply = client.get(OVERVIEW, headers={b"cookie": f"{COOKIE}={cookie}".encode("latin-1")})
            assert reply.status_code == 303, cookie
        assert client.get(OVERVIEW, headers={b"cookie": COOKIE.encode() + b"=\xff\xfe.\xed\xa0\x80"}).status_code == 303
    sessions = Sessions(SECRET)
    text = base64.urlsafe_b64encode(b'["only one entry"]').decode()
    assert sessions.read(f"{text}.{sessions._sign('session', text)}") is None, "of another release"


def test_processes_that_share_a_secret_share_sessions(where, kept, url, come):
    key = make_key(kept, "board")
    visitor = come()
    visitor.sign_in(key)
    cookie = {COOKIE: visitor.http.cookies[COOKIE]}
    with serving(where, session_key=SECRET) as second, serving(where) as third:
        assert httpx.get(second + OVERVIEW, cookies=cookie).status_code == 200
        assert httpx.get(third + OVERVIEW, cookies=cookie).status_code == 303


# ---- the secret -----------------------------------------------------------------------------------------------------


def test_the_secret_comes_from_a_file_or_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv(sessions_module.VARIABLE, raising=False)
    assert find_session_key(None) is None
    file = tmp_path / "session.key"
    file.write_text("0123456789abcdef\n")
    file.chmod(0o600)
    assert find_session_key(file) == b"0123456789abcdef"
    monkeypatch.setenv(sessions_module.VARIABLE, "fedcba9876543210")
    assert find_session_key(None) == b"fedcba9876543210"
    with pytest.raises(InvalidError, match="give one of them"):
        find_session_key(file)
    monkeypatch.setenv(sessions_module.VARIABLE, "short secret")
    with pytest.raises(InvalidError, match="at least 16 bytes") as refusal:
        find_session_key(None)
    assert "short secret" not in str(refusal.value)
    monkeypatch.delenv(sessions_module.VARIABLE)
    file.chmod(0o644)
    with pytest.raises(InvalidError, match="others may read the session key"):
        find_session_key(file)
    with pytest.raises(InvalidError, match="cannot be read"):
        find_session_key(tmp_path / "missing")


def test_serve_takes_the_secret(tmp_path, monkeypatch, capsys):
    given = {}
    monkeypatch.setattr(server, "serve", lambda *args, **options: given.update(options))
    monkeypatch.setattr(serving_command, "set_up_logs", lambda _: None)
    monkeypatch.delenv(sessions_module.VARIABLE, raising=False)
    file = tmp_path / "session.key"
    file.write_bytes(SECRET)
    file.chmod(0o600)
    serving_command.serve(str(tmp_path / "log.db"), session_key=file)
    assert given["session_key"] == SECRET
    monkeypatch.setenv(sessions_module.VARIABLE, "x" * 16)
    with pytest.raises(typer.Exit):
        serving_command.serve(str(tmp_path / "log.db"), session_key=file)
    assert "give one of them" in capsys.readouterr().err


# ---- forms ----------------------------------------------------------------------------------------------------------


def test_a_form_must_come_from_a_page_of_the_session(kept, url, done, come):
    key = make_key(kept, "board")
    ann, bob, there = come(), come(), f"{OVERVIEW}/try"
    ann.sign_in(key)
    bob.sign_in(key)
    token, others = ann.get(OVERVIEW).csrf, bob.get(OVERVIEW).csrf
    assert token != others
    host = url.removeprefix("http://")
    for refused in (
        {},
        {"data": {"csrf": ""}},
        {"data": {"csrf": others}},
        {"data": {"csrf": token.upper() + "é"}},
        {"headers": {"x-csrf-token": others}, "data": {"csrf": token}},
        {"data": {"csrf": token}, "headers": {"origin": "https://evil.example"}},
        {"data": {"csrf": token}, "headers": {"origin": "null"}},
        {"data": {"csrf": token}, "headers": {"origin": "http://["}},
        {"data": {"csrf": token}, "headers": {"origin": f"http://{host}.evil.example"}},
        {"json": {"csrf": token}},
        {"params": {"csrf": token}},
        {"files": {"csrf": token.encode()}},
    ):
        reply = ann.http.post(there, **refused)
        assert reply.status_code == 403, refused
        assert "not from this page" in Page(reply).words
    assert done == []
    assert ann.http.post(there, data={"csrf": token, "what": "field"}).status_code == 303
    reply = ann.http.post(there, data={"what": "header"}, headers={"x-csrf-token": token, "origin": url})
    assert reply.status_code == 303
    assert [form["what"] for form in done] == ["field", "header"]
    page = ann.get(reply.headers["location"])
    assert "done with header" in page.words
    forged = reply.headers["location"].replace("header", "your+money")
    assert "your money" not in ann.get(forged).words, "no link makes the page say something"
    assert "done with" not in bob.get(reply.headers["location"]).words
    many = "&".join(f"f{i}=1" for i in range(2000))
    assert ann.http.post(there, content=many).status_code == 422
    assert ann.http.post(there, content=b"x" * (1 << 21)).status_code == 413
    assert ann.http.post(there, content=b"\xff\xed\xa0\x80%ED%A0%80=%00&csrf=%ED%A0%80\0").status_code == 403
    assert len(done) == 2


def test_no_page_of_another_origin_signs_anybody_in(kept, url, come):
    key, visitor = make_key(kept, "board"), come()
    reply = visitor.http.post("/dashboard/sign-in", data={"key": key}, headers={"origin": "https://evil.example"})
    assert reply.status_code == 403
    assert not cookies_of(reply)


ELSEWHERE = [
    *("//evil.example", "https://evil.example/dashboard", "\\\\evil.example", "/\\evil.example", "/dashboard/\\evil"),
    *("/dashboard\r\nset-cookie: a=b", "/dashboard/\n", "/dashboardx", "/docs", "dashboard", "javascript:alert(1)", ""),
    *("/dashboard/../docs", "/dashboard/%2e%2E/docs", "/dashboard/experiments/../../docs", "/dashboard/%5c", "\0"),
    *("/dashboard/\u202e", "/dashboard/é", "/dashboard/\ud800"),
]


@pytest.mark.parametrize("where", ELSEWHERE)
def test_signing_in_leads_nowhere_else(where):
    assert _local(where) == "/dashboard"


def test_signing_in_leads_to_pages(kept, url, come):
    for fine in ("/dashboard", "/dashboard?a=1", OVERVIEW, f"{OVERVIEW}/log?decision=a%2Fb&x=//y"):
        assert _local(fine) == fine
    key = make_key(kept, "board")
    for where in [text for text in ELSEWHERE if text.isascii()]:
        assert come().sign_in(key, where=where).headers["location"] == "/dashboard"
        page = come().get("/dashboard/sign-in", params={"next": where})
        assert page.form("/sign-in")["fields"]["next"] == "/dashboard"


# ---- without keys ---------------------------------------------------------------------------------------------------


def test_without_keys_this_machine_sees_everything_and_no_page_of_others_does(kept, done, come):
    visitor = come()
    page = visitor.get(OVERVIEW)
    assert "no keys: everybody on this machine" in page.words
    assert "Control" in page.words
    assert not cookies_of(page.reply), "there is nobody to remember"
    assert visitor.http.get("/").headers["location"] == "/dashboard"
    assert visitor.http.get("/dashboard/sign-in").headers["location"] == "/dashboard"
    assert visitor.http.post("/dashboard/sign-in", data={"key": "x"}).headers["location"] == "/dashboard"
    for headers in ({"origin": "https://evil.example"}, {"host": "evil.example"}, {"host": "["}):
        for path in ("/dashboard", OVERVIEW):
            assert "without API keys" in visitor.get(path, 403, headers=headers).words
        reply = visitor.http.post(f"{OVERVIEW}/try", data={"csrf": page.csrf}, headers=headers)
        assert reply.status_code == 403
    assert visitor.http.post(f"{OVERVIEW}/try", data={"csrf": "x"}).status_code == 403
    assert done == []
    assert visitor.http.post(f"{OVERVIEW}/try", data={"csrf": page.csrf}).status_code == 303
    assert len(done) == 1
    make_key(kept, "first")
    assert visitor.http.get(OVERVIEW).status_code == 303
    assert visitor.http.post(f"{OVERVIEW}/try", data={"csrf": page.csrf}).status_code == 303, "to sign in"
    cookie = Sessions(SECRET).cookie(OPEN)
    assert visitor.http.get(OVERVIEW, headers={"cookie": f"{COOKIE}={cookie}"}).status_code == 303
    assert len(done) == 1


# ---- whatever is asked for ------------------------------------------------------------------------------------------


def assert_headers(reply):
    for name, value in HEADERS.items():
        assert reply.headers[name] == value, (reply.url, name)


def test_headers_are_on_every_page(kept, url, come):
    key, visitor = make_key(kept, "board"), come()
    for path in ("/", "/dashboard", OVERVIEW, "/dashboard/sign-in", "/dashboard/x", "/dashboard/"):
        assert_headers(visitor.http.get(path))
    assert_headers(visitor.http.get(OVERVIEW, headers={"hx-request": "true"}))
    assert_headers(visitor.sign_in("wrong"))
    assert_headers(visitor.sign_in(key, "\n"))
    assert_headers(visitor.sign_in(key))
    for path in ("/dashboard", OVERVIEW, f"{OVERVIEW}x", f"{OVERVIEW}/nonsense", "/dashboard/static/nonsense"):
        assert_headers(visitor.http.get(path))
    assert_headers(visitor.http.post(f"{OVERVIEW}/nonsense"))
    assert_headers(visitor.http.post("/dashboard/sign-out", data={"csrf": visitor.get("/dashboard").csrf}))
    policy = HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none';")


def test_pages_hold_no_script_and_no_style_of_their_own(kept, url, come):
    for path in ("/dashboard", OVERVIEW, "/dashboard/sign-in", "/dashboard/nonsense"):
        page = Page(come(follow_redirects=True).http.get(path))
        for tag, given in page.elements:
            assert tag != "style"
            assert tag != "script" or given["src"].startswith("/dashboard/static/")
            assert not any(name.startswith(("on", "style", "hx-on")) for name in given), (tag, given)


def test_files_are_kept_for_good(kept, url, come):
    visitor = come()
    page = visitor.get("/dashboard")
    addresses = [given.get("src") or given.get("href") for tag, given in page.elements if tag in ("script", "link")]
    found = [address for address in addresses if address.startswith("/dashboard/static/")]
    assert len(found) == 3
    for address in found:
        reply = visitor.http.get(address)
        assert reply.status_code == 200
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["content-type"].startswith(("text/css", "text/javascript"))
    css = visitor.http.get("/dashboard/static/page.css").text
    assert all(shade in css for shades in SERIES for shade in shades)
    for name in ("nonsense.js", "..%2Fpage.css", "%00", "page.css%00"):
        assert visitor.get(f"/dashboard/static/{name}", 404).words


def test_what_is_not_there_is_not_found(kept, url, come):
    visitor = come()
    page = visitor.get("/dashboard/experiments/nothing", 404)
    assert "there is no experiment 'nothing'" in page.words
    assert "Views of the experiment" not in page.text
    strange = ("%00", "a%00b", "%ED%A0%80", "a%20b", "%3Cscript%3E", "x" * 100, "a%0d%0ab", "%E2%80%AE")
    for name in strange:
        for path, _, _ in VIEWS:
            assert visitor.http.get(f"/dashboard/experiments/{name}{path}").status_code == 404, name
    assert "<script>a" not in visitor.get("/dashboard/experiments/%3Cscript%3Ea", 404).text
    assert visitor.http.get("/dashboard/").headers["location"] == "/dashboard"


def test_a_store_that_is_away_is_said_on_a_page(kept, url, monkeypatch, come):
    visitor, key = come(), make_key(kept, "board")
    visitor.sign_in(key)

    def away(self):
        raise UnavailableError("the disk is at /secret/place")

    monkeypatch.setattr(SqliteStore, "read", away)
    for path in ("/dashboard", OVERVIEW, "/dashboard/sign-in"):
        page = visitor.get(path, 503)
        assert "The store does not answer" in page.words
        assert "secret" not in page.text
        assert "everybody on this machine" not in page.words
        assert "Control" not in page.words
    reply = visitor.sign_in(key)
    assert reply.status_code == 503
    assert_headers(reply)


def test_a_fault_shows_nothing_of_our_insides(kept, caplog, come):
    page = come().get(f"{OVERVIEW}/broken", 500)
    assert "Something is broken" in page.words
    assert "event 7" not in page.text
    assert "event 7" in caplog.text


def test_no_request_is_too_strange(kept, url, come):
    visitor = come()
    for path in ("/dashboard", OVERVIEW):
        reply = visitor.http.head(path)
        assert (reply.status_code, reply.content) == (200, b"")
    for method in ("OPTIONS", "PUT", "DELETE", "PATCH"):
        for path in ("/dashboard/sign-in", OVERVIEW, "/dashboard/static/page.css"):
            reply = visitor.http.request(method, path)
            assert reply.status_code == 405
            assert_headers(reply)
    assert visitor.http.request("TRACE", OVERVIEW).status_code == 405
    for query in ("%00=%00", "a=%ED%A0%80", "%FF%FE", "said=a&seal=%ED%A0%80", "&&&==", "a" * 50_000, "a=&" * 15_000):
        assert visitor.http.get(f"{OVERVIEW}?{query}").status_code == 200
    for body in (b"\0", b"%00=%00", b"key=%ED%A0%80&actor=%00", b"&" * 5000, b"=" * 5000, b"\xff" * 500):
        reply = visitor.http.post("/dashboard/sign-in", content=body)
        assert reply.status_code in (303, 422)


@pytest.mark.parametrize(("view", "module"), [("/front", front), ("/what-if", what_if), ("/progress", progress)])
def test_however_many_look_they_keep_one_thread_busy(kept, url, monkeypatch, view, module):
    busy, most, show = [], [], module._show

    def slowly(*args):
        busy.append(1)
        most.append(len(busy))
        time.sleep(0.02)
        busy.pop()
        return show(*args)

    monkeypatch.setattr(module, "_show", slowly)
    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(httpx.get, [url + OVERVIEW + view] * 8))
    assert [reply.status_code for reply in replies] == [200] * 8
    assert most == [1] * 8


def test_no_page_is_written_in_the_event_loop(kept, url, monkeypatch, come):
    """Decisions would wait for it."""
    places = []

    def note(template, **values):
        try:
            places.append((template, asyncio.get_running_loop()))
        except RuntimeError:
            places.append((template, None))
        return render(template, **values)

    monkeypatch.setattr("conebandit.service.dashboard.pages.render", note)
    visitor = come()
    paths = [path for path, _, _ in VIEWS]
    paths += ["/segments?colour=leader", "/segments/rules", "/shift?since=2026-01-01", "/shift/alarm", "/log/held"]
    paths += ["/shift/population", "/progress/settled", "/log/audit", "/log?decision=x", "/report/body"]
    for path in paths:
        for headers in ({}, {"hx-request": "true"}):
            visitor.http.get(OVERVIEW + path, headers=headers)
    visitor.get("/dashboard")
    visitor.send(f"{OVERVIEW}/control/confirm", 200, what="mode", value="off")
    written = {template for template, _ in places} - {"dashboard/problem.html"}
    assert len(written) > 20
    assert not [template for template, loop in places if loop is not None and template in written]


def test_an_experiment_may_be_called_like_a_page(kept, come):
    Driver(kept, "settled").create(copy.deepcopy(DECLARATION) | {"id": "settled"})
    progress = "/dashboard/experiments/settled/progress"
    page = come().get(f"{progress}/settled")
    links = [urljoin(f"{progress}/settled", given["href"]) for tag, given in page.elements if tag == "a"]
    assert links.count(progress) == 2, "in the navigation and below"


def test_a_key_for_some_experiments_opens_no_route_of_another_one(kept, where, url, come):
    writer = Writer(open_store(where))
    found = [route for route in create_app(writer).routes if isinstance(route, Route)]
    routes = [(route.path, method) for route in found for method in sorted(route.methods or ())]
    routes = [route for route in routes if route[0].startswith(EXPERIMENTS)]
    writer.close()
    assert len(routes) > 2 * len(VIEWS)
    key = make_key(kept, "some", "admin", experiments=["checkout"])
    visitor, stranger = come(), come()
    assert visitor.sign_in(key).status_code == 303
    token = visitor.get("/dashboard").csrf
    for path, method in [(path.replace("{experiment}", "other"), method) for path, method in routes]:
        for headers in ({}, {"hx-request": "true"}):
            data = {"csrf": token} if method == "POST" else None
            replies = [who.http.request(method, path, headers=headers, data=data) for who in (visitor, stranger)]
            assert [reply.status_code for reply in replies] == [403, 204 if headers else 303], (method, path)
            assert {reply.headers["cache-control"] for reply in replies} == {"no-store"}
