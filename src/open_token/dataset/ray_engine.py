"""Runs the shards of a dataset on a Ray cluster; the work itself is `build_shard`, as everywhere."""

from collections.abc import Callable, Iterator
from typing import Any

from open_token.dataset.shard import Shard, ShardJob, ShardRecord, build_shard
from open_token.errors import OpenTokenError, UsageError
from open_token.library.jobs import Outcome

# A shard whose machine was lost is tried once more, elsewhere.
_RETRIES = 1
# So many shards are submitted ahead of the first that is not finished: autoscalers see the demand,
# and a corpus of millions of shards does not fill the memory of the driver.
_MAX_SUBMITTED = 1024


def run_on_ray(
    address: str | None,
) -> Callable[[ShardJob, list[Shard]], Iterator[Outcome[Shard, ShardRecord]]]:
    """Return the engine that works on a Ray cluster; without an address, on one of this machine."""
    try:
        import ray
    except ImportError:
        raise UsageError(
            "this engine needs the package ray", help='pip install "open-token-cli[ray]"'
        ) from None

    def run(job: ShardJob, shards: list[Shard]) -> Iterator[Outcome[Shard, ShardRecord]]:
        started_here = not ray.is_initialized()
        if started_here:
            ray.init(address=address, log_to_driver=False)
        try:
            yield from _run(ray, job, shards)
        finally:
            if started_here:
                ray.shutdown()

    return run


def _run(ray: Any, job: ShardJob, shards: list[Shard]) -> Iterator[Outcome[Shard, ShardRecord]]:
    work = ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=False)(_build)
    shared_job = ray.put(job)
    pending = [work.remote(shared_job, shard) for shard in shards[:_MAX_SUBMITTED]]
    for position, shard in enumerate(shards):
        try:
            record, problem = ray.get(pending[position])
        except ray.exceptions.RayError as error:
            record = None
            problem = OpenTokenError(
                f"the worker of this shard was lost ({type(error).__name__})",
                help="run the same command again: finished shards are not repeated",
                code="worker.lost",
            )
        pending[position] = None
        following = position + _MAX_SUBMITTED
        if following < len(shards):
            pending.append(work.remote(shared_job, shards[following]))
        yield Outcome(shard, record, problem)


def _build(job: ShardJob, shard: Shard) -> tuple[ShardRecord | None, OpenTokenError | None]:
    """Build a shard in a process of the cluster; problems are returned, not raised."""
    try:
        return build_shard(job, shard), None
    except OpenTokenError as problem:
        return None, problem
    except Exception as error:
        # Without its message, which may quote a conversation.
        return None, OpenTokenError(f"internal error ({type(error).__name__})")
