"""What somebody can do to a log who can write to its store and knows everything but the key that it is sealed with."""

import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from conebandit.cli import app
from conebandit.service.http.keys import create_key
from conebandit.service.log.anchors import STORE_LOG, Anchor
from conebandit.service.log.replay import rebuild
from conebandit.service.log.snapshots import to_parts
from conebandit.service.stores.base import Store, open_store
from conebandit.service.stores.keys import KeyRow
from conebandit.service.stores.records import Record, canonical, seal
from conebandit.service.stores.seals import START, UNKEYED, Seals, add_key, key_of
from tests.service.driver import Driver

KEY = "k1"
SECRET, MADE_UP = "what-the-attacker-does-not-know".ljust(40, "-"), "what-the-attacker-makes-up".ljust(40, "-")
TRUE_KEY, OTHER_KEY, UNKNOWN_KEY = Seals({KEY: SECRET}), Seals({KEY: MADE_UP}), Seals({"k2": MADE_UP})
DECLARATION = {
    "id": "trial",
    "arms": ["standard", "new"],
    "metrics": [{"name": "response"}, {"name": "toxicity", "direction": "min", "worst": 4}],
    "context": [{"name": "age", "low": 18, "high": 98}],
    "policy": {"name": "LinearParetoUCB"},
}


class Target:
    """A store with a sealed log, another one beside it, anchors that are kept elsewhere, and an old copy."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        self.path, self.old, self.anchors = (folder / name for name in ("log.db", "old.db", "anchors.jsonl"))
        # In mode off no decision depends on what was learned, so none of them can tell.
        mode = rng.choice(["off", "live"])
        for n_patients, after in ((rng.randint(5, 12), 0), (rng.randint(5, 12), 100)):
            if after:
                shutil.copy(self.path, self.old)
            patients = range(after, after + n_patients)
            with self.open(TRUE_KEY) as store:
                for id_ in ("trial", "other"):
                    self._treat(Driver(store, id_), {**DECLARATION, "id": id_, "mode": mode}, patients)
            with self.open(TRUE_KEY) as store, store.write() as session:
                create_key(session, f"office {after}", ["read"], expires="90d")
        heads = [Anchor(id_, self.records(id_)[-1].head) for id_ in ("trial", "other")]
        with self.open(TRUE_KEY) as store, store.read() as session:
            heads.append(Anchor(STORE_LOG, session.operations_head()))
        self.anchors.write_text("".join(anchor.line() for anchor in heads))

    def _treat(self, run: Driver, declaration: dict[str, Any], patients: range) -> None:
        run.now += 60_000 * patients.start
        run.create(declaration)
        for i in patients:
            run.now += 60_000
            run.ask(f"p{i}", {"age": self.rng.uniform(18, 98)})
            run.tell(f"p{i}", response=self.rng.random(), toxicity=float(self.rng.randint(1, 4)))
            if self.rng.random() < 0.1:
                run.tell(f"p{i}", toxicity=0.5)  # corrected
        run.write_snapshot()

    def open(self, seals: Seals = UNKEYED) -> closing[Store]:
        return closing(open_store(str(self.path), seals=seals))

    def records(self, id_: str = "trial") -> list[Record]:
        with self.open() as store, store.read() as session:
            return session.events(id_, limit=10**6)

    def write(self, records: Sequence[Record]) -> None:
        """Put these in the place of the log, as they are."""
        with self.open() as store, store.write() as session:
            session.drop_snapshots("trial", 0)
            session._run("DELETE FROM events WHERE experiment = 'trial'")
            session._insert("trial", records)
            session._run("UPDATE experiments SET head = ?, last_check = ? WHERE id = 'trial'", records[-1].head)

    def changed(self) -> list[Record]:
        """The log with some toxicities set to 0; the checksums do not fit any more."""
        records = self.records()
        told = [r.seq for r in records if r.kind == "reported" and "toxicity" in json.loads(r.text)["values"]]
        harmless = self.rng.sample(told, self.rng.randint(1, 5))
        return [_without_toxicity(record) if record.seq in harmless else record for record in records]

    def some(self, most: int = 1) -> list[int]:
        """Some indices of records, not of the first."""
        return self.rng.sample(range(1, len(self.records())), most)


def _without_toxicity(record: Record) -> Record:
    body = json.loads(record.text)
    body["values"]["toxicity"] = 0.0
    return record._replace(text=canonical(body))


def sealed_anew(records: Iterable[Record], seals: Seals, first: int = 1) -> list[Record]:
    """Numbered and sealed from record ``first`` on, as the service would do it with other keys, or with none."""
    done: list[Record] = []
    for seq, record in enumerate(records, start=1):
        before = done[-1].check if done else START
        if seals is UNKEYED and key_of(before) is not None:
            before = START  # nobody seals like that, but somebody may try
        new = seal(before, seq, record.kind, record.decision, json.loads(record.text), seals=seals, experiment="trial")
        done.append(record if seq < first else new)
    return done


# ---- what can be done -----------------------------------------------------------------------------------------------


def change_values(target: Target) -> None:
    target.write(target.changed())


def change_and_strip_all_keys(target: Target) -> None:
    target.write(sealed_anew(target.changed(), UNKEYED))


def change_and_strip_keys_from_there_on(target: Target) -> None:
    changed = target.changed()
    first = next(r.seq for r, was in zip(changed, target.records(), strict=True) if r != was)
    target.write(sealed_anew(changed, UNKEYED, first))


def change_and_seal_with_another_secret(target: Target) -> None:
    target.write(sealed_anew(target.changed(), OTHER_KEY))


def change_and_seal_with_another_key(target: Target) -> None:
    target.write(sealed_anew(target.changed(), UNKNOWN_KEY))


def change_strip_and_say_it_was_sealed_later(target: Target) -> None:
    """As a log that was begun before there was a key."""
    plain = sealed_anew(target.changed(), UNKEYED)
    last = seal(plain[-1].check, len(plain) + 1, "sealed", None, {"at": 10**12}, seals=OTHER_KEY, experiment="trial")
    target.write([*plain, last])


def strip_keys(target: Target) -> None:
    target.write(sealed_anew(target.records(), UNKEYED))


def delete(target: Target) -> None:
    records = target.records()
    del records[target.some()[0]]
    target.write(records if target.rng.random() < 0.5 else [r._replace(seq=i) for i, r in enumerate(records, start=1)])


def swap(target: Target) -> None:
    records, (one, other) = target.records(), target.some(2)
    records[one], records[other] = records[other]._replace(seq=one + 1), records[one]._replace(seq=other + 1)
    target.write(records)


def insert(target: Target) -> None:
    records, (one, other) = target.records(), target.some(2)
    records.insert(one, records[other])
    target.write([record._replace(seq=i) for i, record in enumerate(records, start=1)])


def truncate(target: Target) -> None:
    target.write(target.records()[: target.some()[0]])


def move_the_end_back(target: Target) -> None:
    """All rows stay."""
    head = target.records()[target.some()[0] - 1].head
    with target.open() as store, store.write() as session:
        session._run("UPDATE experiments SET head = ?, last_check = ? WHERE id = 'trial'", head)


def take_another_log(target: Target) -> None:
    target.write(target.records("other"))


def take_a_part_of_another_log(target: Target) -> None:
    records, other = target.records(), target.records("other")
    first, last = sorted(target.rng.sample(range(1, min(len(records), len(other)) + 1), 2))
    target.write([*records[:first], *other[first:last], *records[last:]])


def put_an_old_copy_back(target: Target) -> None:
    shutil.copy(target.old, target.path)


def delete_the_experiment(target: Target) -> None:
    with target.open() as store, store.write() as session:
        for table, column in (("events", "experiment"), ("experiments", "id")):
            session._run(f"DELETE FROM {table} WHERE {column} = 'trial'")


def make_an_api_key(target: Target) -> None:
    with target.open() as store, store.write() as session:
        session.add_key(KeyRow("aaaaaaaaaaaa", "mine", "admin", "0" * 64, "2026-01-01T00:00:00+00:00"))


def widen_an_api_key(target: Target) -> None:
    change = target.rng.choice(["scopes = 'admin'", "expires = '2999-01-01T00:00:00+00:00'"])
    with target.open() as store, store.write() as session:
        session._run(f"UPDATE key_terms SET {change}")


def take_over_an_api_key(target: Target) -> None:
    with target.open() as store, store.write() as session:
        session._run("UPDATE api_keys SET digest = ?", ("0" * 64,))


def change_the_log_of_the_store(target: Target) -> None:
    """So that it says of a key what the key opens now, with checksums that fit, but for the keyed ones."""
    with target.open(TRUE_KEY) as store, store.write() as session:
        records, before = session.operations(), START
        session._run("UPDATE key_terms SET scopes = 'admin'")
        for record in records:
            body = {**record.body, **({"scopes": "admin"} if record.kind == "key_created" else {})}
            made = seal(before, record.seq, record.kind, None, body)
            sql = "UPDATE store_log SET body = ?, sealed = ? WHERE seq = ?"
            session._run(sql, (made.text, made.check, record.seq))
            before = made.check


def cut_off_the_log_of_the_store(target: Target) -> None:
    with target.open() as store, store.write() as session:
        [(last,)] = session._run("SELECT MAX(seq) FROM store_log")
        session._run("DELETE FROM store_log WHERE seq > ?", (target.rng.randrange(last),))


def change_a_snapshot(target: Target) -> None:
    """With a checksum that fits."""
    with target.open(TRUE_KEY) as store, store.write() as session:
        state = rebuild(session, "trial", session.existing_head("trial"))
        state.version -= 1
        [latest, *_] = session.snapshots("trial")
        session.drop_snapshots("trial", latest, latest)
        session.save_snapshot("trial", latest, to_parts(state))


TAMPERINGS: dict[str, Callable[[Target], None]] = {
    tampering.__name__.replace("_", " "): tampering
    for tampering in (
        change_values,
        change_and_strip_all_keys,
        change_and_strip_keys_from_there_on,
        change_and_seal_with_another_secret,
        change_and_seal_with_another_key,
        change_strip_and_say_it_was_sealed_later,
        strip_keys,
        delete,
        swap,
        insert,
        truncate,
        move_the_end_back,
        take_another_log,
        take_a_part_of_another_log,
        put_an_old_copy_back,
        delete_the_experiment,
        change_a_snapshot,
        make_an_api_key,
        widen_an_api_key,
        take_over_an_api_key,
        change_the_log_of_the_store,
        cut_off_the_log_of_the_store,
    )
}


def findings(target: Target) -> tuple[int, str]:
    """Exit code and words of ``conebandit verify`` with the key and the anchors."""
    keys = target.path.with_name("seal.keys")
    if not keys.exists():
        add_key(keys, f"{KEY}:{SECRET}")
    options = ["verify", "--store", str(target.path), "--seal-keys", str(keys), "--expect", str(target.anchors)]
    result = CliRunner().invoke(app, options)
    return result.exit_code, result.output
