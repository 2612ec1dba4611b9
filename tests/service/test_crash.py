"""Killed at random moments: what was acknowledged is there, once. CONEBANDIT_KILLS=50 for the long version."""

import os
import random
import time

import conebandit as cb
from tests.service.load import Load, Process, check

KILLS = int(os.environ.get("CONEBANDIT_KILLS", "3"))


def test_killing_the_service(tmp_path, declaration):
    rng = random.Random(5)
    address = str(tmp_path / "log.db")
    server = Process(address)
    server.wait_until_ready()
    with cb.Client(server.url) as client:
        client.create(declaration)
    load = Load([server.url])
    try:
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.05, 0.5))
            server.kill()
            server.start()
            server.wait_until_ready()
        time.sleep(0.3)
    finally:
        load.stop()
        server.stop()
    check(address, load.acknowledged)


def test_killing_the_database_under_four_processes(postgres, declaration):
    rng = random.Random(6)
    address = postgres.fresh_database("crash")
    servers = [Process(address) for _ in range(4)]
    for server in servers:
        server.wait_until_ready()
    clients = [cb.Client(server.url) for server in servers]
    clients[0].create(declaration)
    load = Load([server.url for server in servers])
    try:
        for _ in range(max(KILLS // 2, 1)):
            time.sleep(rng.uniform(0.2, 1.0))
            postgres.kill()
            postgres.restart()
        time.sleep(0.5)
        load.stop()
        context = {"age": 30, "device": "phone"}
        fronts = [client.front("checkout", context) for client in clients]
        states = [client.state("checkout") for client in clients]
        retried = [client.decide("checkout", context, id="once") for client in clients]
    finally:
        load.stop()
        for client in clients:
            client.close()
        for server in servers:
            server.stop()
    assert all(front == fronts[0] for front in fronts)
    assert all(state == states[0] for state in states)
    assert all(assignment == retried[0] for assignment in retried)
    check(address, load.acknowledged)
