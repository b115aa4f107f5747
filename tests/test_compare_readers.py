"""The golden inputs, folded by the independent readers of `scripts/compare_readers`."""

from importlib import import_module
from pathlib import Path

import pytest

from compare_readers import common
from helpers.golden_cases import CASES, read_case
from open_token import export

FORMATS = {
    path.stem
    for path in Path(common.__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "__main__", "common")
}


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.parent.name in FORMATS],
    ids=lambda case: f"{case.parent.name}-{case.name}",
)
def test_golden_inputs_are_reported_alike(case: Path, tmp_path: Path) -> None:
    source, _ = read_case(case, tmp_path)
    module = import_module(f"compare_readers.{case.parent.name}")
    reason = getattr(module, "NOT_FOLDED", {}).get(case.name)
    if reason:
        pytest.skip(reason)
    document = export(source, reader=case.parent.name, **common.OPTIONS)
    result = common.compare(module.fold_session(source), common.fold_export(document))
    assert not result.missing
    assert not result.extra
    assert not result.misordered
    assert result.source.tokens == result.export.tokens


def test_differences_are_found() -> None:
    source = common.Fold()
    source.add(common.MAIN, "human", "hello")
    source.add(common.MAIN, "answer", "hi")
    export_fold = common.Fold()
    export_fold.add(common.MAIN, "answer", "hi")
    assert common.compare(source, export_fold).missing == {common.Item("human", "hello"): 1}
    export_fold.add(common.MAIN, "human", "hello")
    result = common.compare(source, export_fold)
    assert (result.misordered, result.is_equal) == (["main"], False)
    assert common.compare(source, source).is_equal
    export_fold.add_tokens({"output_tokens": 3})
    assert not common.compare(source, export_fold).has_equal_tokens
