"""A dataset on a Ray cluster of two nodes, one of which is lost in mid-run."""

import json
import threading
import time
from pathlib import Path

import pytest

from dataset.conftest import Build
from open_token.cli import main
from open_token.dataset.read import iter_documents

pytestmark = [
    pytest.mark.full,
    # Ray leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture
def many_sessions(sessions: Path) -> Path:
    for number in range(300):
        messages = [
            {"role": "user", "content": f"question {number} " * 50},
            {"role": "assistant", "content": "answer"},
        ]
        (sessions / f"{number}.json").write_text(json.dumps({"messages": messages}))
    return sessions


def test_a_lost_node_loses_and_doubles_nothing(
    many_sessions: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster_utils = pytest.importorskip("ray.cluster_utils", reason="ray is not installed")
    expected = sorted(iter_documents(str(build("sessions", name="local"))))
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        second = cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        records = tmp_path / "cluster" / "_open_token" / "shards"

        def remove_second_node() -> None:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and len(list(records.glob("*.json"))) < 3:
                time.sleep(0.05)
            cluster.remove_node(second, allow_graceful=False)

        monkeypatch.setattr("open_token.cli.dataset._MEGABYTE", 10_000)
        remover = threading.Thread(target=remove_second_node)
        remover.start()
        words = ["dataset", "sessions", "-o", str(tmp_path / "cluster"), "--shard-mb", "1", "-q"]
        code = main([*words, "--engine", "ray", "--address", cluster.address])
        remover.join()
    finally:
        cluster.shutdown()
    assert code == 0
    assert len(list(records.glob("*.json"))) > 10
    assert sorted(iter_documents(str(tmp_path / "cluster"))) == expected
