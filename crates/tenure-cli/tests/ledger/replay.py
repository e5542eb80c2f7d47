"""Replays ledgers as any other program would: by the pseudocode of the protocol for external tools,
which is in pseudocode.py, word for word. Prints what each ledger comes to, one JSON object a line."""

import json
import os
import sys
from datetime import datetime, timezone
from types import SimpleNamespace

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "pseudocode.py")) as file:
    pseudocode = compile(file.read(), "pseudocode.py", "exec")


def parse_time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def events_of(directory):
    ledger = os.path.join(directory, "ledger")
    names = sorted(n for n in os.listdir(ledger) if n.startswith("event-") and n.endswith(".json"))
    for number, name in enumerate(names, 1):
        assert name == f"event-{number:06}.json", f"{directory}: {name} is number {number}"
        with open(os.path.join(ledger, name)) as file:
            yield SimpleNamespace(**{"type": None, **json.load(file)})


for directory in sys.argv[1:]:
    scope = {
        "replay_ledger": lambda: events_of(directory),
        "current_time": lambda: datetime.now(timezone.utc),
        "parse_time": parse_time,
    }
    exec(pseudocode, scope)
    print(json.dumps({"locks": scope["locks"], "active": sorted(scope["active_locks"])}))
