"""The REST side against a model in memory: two people make, change, share, delete; nobody sees too
much."""

import itertools
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from helpers.server.rest_server import RestServer
from open_token.server.clock import Clock

WHO = st.sampled_from(["ann", "ben"])
WORD = st.sampled_from(["tea", "build", "night", "compiler", "grün", "夜"])
Thing = tuple[str, str]
"""Whose, and its id."""


def ticking() -> Callable[[], datetime]:
    """A clock on which no two things happen at once, so that the newest is always one."""
    ticks = itertools.count()
    return lambda: datetime(2026, 1, 31, tzinfo=UTC) + timedelta(milliseconds=next(ticks))


@dataclass
class Person:
    """What a person should have."""

    key: str
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    memories: dict[int, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)


class People(RuleBasedStateMachine):
    """Every rule does something over REST and to the model; what is another's must be a 404."""

    sessions: Bundle[Thing] = Bundle("sessions")
    memories: Bundle[Thing] = Bundle("memories")
    keys: Bundle[tuple[str, str, str]] = Bundle("keys")
    shares: Bundle[tuple[str, str, str]] = Bundle("shares")

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.rest = RestServer(Path(self.folder.name) / "data", clock=Clock(moment=ticking()))
        self.people = {"ann": Person(self.rest.key), "ben": Person(self.rest.person())}
        self.revoked: set[str] = set()
        self.open: dict[str, tuple[str, str]] = {}
        self.count = 0

    def call(self, who: str, method: str, path: str, json: Any = None) -> Any:
        return self.rest.call(method, path, json, key=self.people[who].key)

    def mine(self, who: str, thing: Thing, method: str, path: str, json: Any = None) -> Any:
        """A request about a thing; the answer when it is there and theirs, else it must be a
        404."""
        owner, name = thing
        held = self.people[who]
        is_there = who == owner and (
            name in held.sessions or (name.isdigit() and int(name) in held.memories)
        )
        answer = self.call(who, method, path, json)
        assert answer.status_code in (200, 201) if is_there else answer.status_code == 404, (
            answer.text
        )
        return answer.json() if is_there else None

    def touched(self, who: str, name: str) -> None:
        self.count += 1
        self.people[who].sessions[name]["touched"] = self.count

    @rule(target=sessions, who=WHO, word=WORD)
    def make_session(self, who: str, word: str) -> Thing:
        name = self.call(who, "POST", "/api/sessions", {"intent": f"about {word}"}).json()[
            "session_id"
        ]
        self.people[who].sessions[name] = {
            "intent": f"about {word}",
            "pinned": False,
            "said": [],
            "shared": False,
        }
        self.touched(who, name)
        return who, name

    @rule(who=WHO, thing=sessions, word=WORD)
    def rename_session(self, who: str, thing: Thing, word: str) -> None:
        if self.mine(who, thing, "PATCH", f"/api/sessions/{thing[1]}", {"intent": word}):
            known = self.people[who].sessions[thing[1]]
            if known["intent"] != word:
                known["intent"] = word
                self.touched(who, thing[1])

    @rule(who=WHO, thing=sessions, pinned=st.booleans())
    def pin(self, who: str, thing: Thing, pinned: bool) -> None:
        if self.mine(who, thing, "PATCH", f"/api/sessions/{thing[1]}/pin", {"pinned": pinned}):
            known = self.people[who].sessions[thing[1]]
            if known["pinned"] != pinned:
                known["pinned"] = pinned
                self.touched(who, thing[1])

    @rule(thing=sessions, word=WORD)
    def say(self, thing: Thing, word: str) -> None:
        who, name = thing
        if name not in self.people[who].sessions:
            return
        turn = self.rest.services.clock.name("turn")
        opened = {
            "turn_id": turn,
            "role": "user",
            "status": "completed",
            "blocks": [{"type": "text", "content": word}],
        }
        user = self.call(who, "GET", "/api/auth/me").json()["id"]
        steps = [("turn.opened", {"turn": opened}), ("turn.ended", {"turn_id": turn})]
        self.rest.run(self.rest.services.journal.write(user, name, lambda state: steps))
        self.people[who].sessions[name]["said"].append(word)
        self.touched(who, name)

    @rule(who=WHO, thing=sessions)
    def delete_session(self, who: str, thing: Thing) -> None:
        if self.mine(who, thing, "DELETE", f"/api/sessions/{thing[1]}"):
            del self.people[who].sessions[thing[1]]
            self.open = {token: place for token, place in self.open.items() if place[1] != thing[1]}

    @rule(who=WHO, thing=sessions)
    def read_messages(self, who: str, thing: Thing) -> None:
        turns = self.mine(who, thing, "GET", f"/api/sessions/{thing[1]}/messages")
        if turns is not None:
            said = [turn["blocks"][0]["content"] for turn in turns]
            assert said == self.people[who].sessions[thing[1]]["said"]

    @rule(who=WHO, word=WORD)
    def search(self, who: str, word: str) -> None:
        found = self.call(who, "GET", f"/api/sessions?limit=1000&q={word}").json()
        expected = {
            name
            for name, known in self.people[who].sessions.items()
            if word in known["intent"] or word in known["said"]
        }
        assert {item["id"] for item in found["items"]} == expected
        assert found["total"] == len(expected)

    @rule(target=shares, who=WHO, thing=sessions)
    def share(self, who: str, thing: Thing) -> tuple[str, str, str]:
        made = self.mine(who, thing, "POST", f"/api/sessions/{thing[1]}/share", {})
        if made is None:
            return who, thing[1], "no token at all"
        self.open[made["token"]] = thing
        known = self.people[who].sessions[thing[1]]
        if not known["shared"]:
            known["shared"] = True
            self.touched(who, thing[1])
        return who, thing[1], made["token"]

    @rule(who=WHO, share=shares)
    def take_back(self, who: str, share: tuple[str, str, str]) -> None:
        _, name, token = share
        answer = self.call(who, "DELETE", f"/api/sessions/{name}/share/{token}")
        is_theirs = self.open.get(token) == (who, name)
        assert answer.status_code == (200 if is_theirs else 404)
        if is_theirs:
            del self.open[token]

    @rule(who=WHO, thing=sessions)
    def close_all(self, who: str, thing: Thing) -> None:
        if self.mine(who, thing, "PATCH", f"/api/sessions/{thing[1]}/sharing", {"shared": False}):
            known = self.people[who].sessions[thing[1]]
            if known["shared"]:
                known["shared"] = False
                self.touched(who, thing[1])
            self.open = {token: place for token, place in self.open.items() if place != thing}

    @rule(share=shares)
    def look(self, share: tuple[str, str, str]) -> None:
        answer = self.rest.call("GET", f"/api/share/{share[2]}", key=None)
        place = self.open.get(share[2])
        assert answer.status_code == (200 if place else 404)
        if place:
            said = [turn["blocks"][0]["content"] for turn in answer.json()]
            assert said == self.people[place[0]].sessions[place[1]]["said"]

    @rule(target=memories, who=WHO, word=WORD, off=st.booleans())
    def remember(self, who: str, word: str, off: bool) -> Thing:
        made = self.call(
            who, "POST", "/api/memories", {"content": f"likes {word}", "disabled": off}
        ).json()
        self.people[who].memories[made["id"]] = {"content": f"likes {word}", "disabled": off}
        return who, str(made["id"])

    @rule(who=WHO, thing=memories, off=st.booleans())
    def switch_memory(self, who: str, thing: Thing, off: bool) -> None:
        if self.mine(who, thing, "PATCH", f"/api/memories/{thing[1]}", {"disabled": off}):
            self.people[who].memories[int(thing[1])]["disabled"] = off

    @rule(who=WHO, thing=memories, word=WORD)
    def change_memory(self, who: str, thing: Thing, word: str) -> None:
        if self.mine(who, thing, "PUT", f"/api/memories/{thing[1]}", {"content": word}):
            self.people[who].memories[int(thing[1])]["content"] = word

    @rule(
        who=WHO,
        things=st.lists(memories, max_size=3),
        action=st.sampled_from(["delete", "disable", "enable"]),
    )
    def batch(self, who: str, things: list[Thing], action: str) -> None:
        ids = {int(name) for _, name in things}
        done = self.call(
            who, "POST", "/api/memories/batch", {"action": action, "ids": sorted(ids)}
        ).json()
        held = self.people[who].memories
        theirs = ids & held.keys()
        assert done == {"ok": True, "count": len(theirs)}
        for number in theirs:
            if action == "delete":
                del held[number]
            else:
                held[number]["disabled"] = action == "disable"

    @rule(target=keys, who=WHO, scope=st.sampled_from(["full", "read"]))
    def make_key(self, who: str, scope: str) -> tuple[str, str, str]:
        made = self.call(who, "POST", "/api/user/api-keys/", {"name": "k", "scope": scope}).json()
        self.people[who].keys[made["id"]] = scope
        return who, made["id"], made["plaintext"]

    @rule(who=WHO, key=keys)
    def revoke_key(self, who: str, key: tuple[str, str, str]) -> None:
        is_theirs = key[1] in self.people[who].keys
        answer = self.call(who, "DELETE", f"/api/user/api-keys/{key[1]}")
        assert answer.status_code == (204 if is_theirs else 404)
        if is_theirs:
            del self.people[who].keys[key[1]]

    @rule(key=keys)
    def use_key(self, key: tuple[str, str, str]) -> None:
        who, key_id, plaintext = key
        scope = self.people[who].keys.get(key_id)
        seen = self.rest.call("GET", "/api/auth/me", key=plaintext).status_code
        wrote = self.rest.call(
            "POST", "/api/memories/batch", {"action": "enable", "ids": []}, key=plaintext
        ).status_code
        assert (seen, wrote) == {None: (401, 401), "read": (200, 403), "full": (200, 200)}[scope]

    @rule(thing=consumes(sessions))
    def forget_a_name(self, thing: Thing) -> None:
        """Fewer names to choose from, so that rules meet more often."""

    @invariant()
    def lists_are_as_the_model_says(self) -> None:
        for who, person in getattr(self, "people", {}).items():
            listed = self.call(who, "GET", "/api/sessions?limit=1000").json()
            order = sorted(person.sessions, key=lambda name: self._rank(person.sessions[name]))
            assert [
                (item["id"], item["intent"], item["is_pinned"]) for item in listed["items"]
            ] == [
                (name, person.sessions[name]["intent"], person.sessions[name]["pinned"])
                for name in order
            ]
            remembered = self.call(who, "GET", "/api/memories?limit=1000").json()["items"]
            assert {
                item["id"]: {"content": item["content"], "disabled": item["disabled"]}
                for item in remembered
            } == (person.memories)
            ids = {
                item["id"]
                for item in self.call(who, "GET", "/api/user/api-keys/?limit=1000").json()["items"]
            }
            assert ids >= person.keys.keys()
            assert len(ids) == len(person.keys) + 1

    @staticmethod
    def _rank(known: dict[str, Any]) -> tuple[bool, int]:
        return not known["pinned"], -known["touched"]

    def teardown(self) -> None:
        if hasattr(self, "rest"):
            self.rest.close()
            self.folder.cleanup()


HOW = settings(
    max_examples=4, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPeople = People.TestCase
TestPeople.settings = HOW


@pytest.mark.full
class TestManyPeople(People.TestCase):  # type: ignore[misc]
    settings = settings(HOW, max_examples=40, derandomize=True, database=None)
