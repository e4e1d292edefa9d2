import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.example import SHARED
from while_pipeline.watch.read import read_file, read_traffic

DAY = "2025-03-01"


def _line(text: str) -> str:
    return json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)


def test_gzip_and_zstd_read_as_they_are(tmp_path: Path) -> None:
    plain = (_line("a") + "\n" + _line("b") + "\n").encode()
    (tmp_path / "p.jsonl").write_bytes(plain)
    (tmp_path / "g.jsonl.gz").write_bytes(gzip.compress(plain[:40]) + gzip.compress(plain[40:]))
    (tmp_path / "z.jsonl.zst").write_bytes(pa.compress(plain, codec="zstd", asbytes=True))
    texts = [
        [c.messages[0].content for c in read_file(path, DAY).conversations]
        for path in sorted(tmp_path.iterdir())
    ]
    assert texts == [["a", "b"]] * 3


def test_a_broken_line_is_rejected_with_its_place_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{_line("a")}\n{{"messages": [{"x" * 500}\n\n{_line("b")}\n[1]\n{{"other": 1}}')
    traffic = read_file(path, DAY)
    assert [c.messages[0].content for c in traffic.conversations] == ["a", "b"]
    assert [(r.source, r.line) for r in traffic.rejects] == [("t.jsonl", 2), ("t.jsonl", 5), ("t.jsonl", 6)]
    assert len(traffic.rejects[0].excerpt) == 200
    assert traffic.rejects[2].excerpt == '{"other": 1}'
    assert "no reader knows a record with the keys other" in traffic.rejects[2].reason


def test_a_broken_first_line_hides_nothing_either(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"messages": [\n{_line("b")}\n')
    traffic = read_file(path, DAY)
    assert ([c.messages[0].content for c in traffic.conversations], traffic.rejects[0].line) == (["b"], 1)


def test_a_broken_document_is_one_reject_not_one_per_line(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([json.loads(_line("a"))] * 50, indent=1)[:-1])
    (reject,) = read_file(path, DAY).rejects
    assert reject.line is None


def test_strings_may_hold_any_line_end_and_broken_unicode(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lone = r'{"messages":[{"role":"user","content":"\ud83c!"}]}'
    path.write_bytes(
        b"\xef\xbb\xbf" + _line("a\u2028b\x85c").encode() + b"\r\n" + lone.encode() + b"\n\xff\n"
    )
    traffic = read_file(path, DAY)
    assert [c.messages[0].content for c in traffic.conversations] == ["a\u2028b\x85c", "\ufffd!"]
    assert [r.line for r in traffic.rejects] == [3]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"a,b"),
        ("t.jsonl.gz", gzip.compress(b"{}" * 99, mtime=0)[:-9]),  # the time would be part of the name
        ("t.json.zst", b"\x28\xb5\x2f\xfd\x00"),
    ],
)
def test_a_file_that_cannot_be_opened_is_a_reject(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (reject,) = read_file(tmp_path / name, DAY).rejects
    assert (reject.source, reject.line) == (name, None)
    assert reject.reason.startswith("cannot be opened")


def test_an_absent_file_is_a_reject_and_an_empty_one_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    traffic = read_traffic([tmp_path / "gone.jsonl", tmp_path / "empty.jsonl"], tmp_path, DAY)
    assert [r.source for r in traffic.rejects] == ["gone.jsonl"]


def test_sources_are_relative_to_the_root_and_order_of_files_changes_nothing(tmp_path: Path) -> None:
    files = [tmp_path / DAY / name for name in ("b.jsonl", "a.jsonl")]
    files[0].parent.mkdir()
    for path in files:
        path.write_text(_line(path.name))
    traffic = read_traffic(files, tmp_path, DAY)
    assert [c.source for c in traffic.conversations] == [f"{DAY}/a.jsonl", f"{DAY}/b.jsonl"]
    assert traffic == read_traffic(files[::-1], tmp_path, DAY)


def test_the_same_conversation_in_two_files_is_read_once(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(_line("Hi"))
    assert len(read_traffic(sorted(tmp_path.iterdir()), tmp_path, DAY).conversations) == 1


def test_a_fixed_dialect_takes_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(_line("a"))
    assert read_file(path, DAY, dialect="openai_chat").conversations
    (reject,) = read_file(path, DAY, dialect="otel_genai").rejects
    assert "dialect otel_genai" in reject.reason
    with pytest.raises(ValueError, match="'otlq' is not one of auto, otel_genai"):
        read_file(path, DAY, dialect="otlq")


def test_no_public_trace_file_is_passed_over_in_silence() -> None:
    if not SHARED.exists():
        pytest.skip("the public trace files are not beside this checkout")
    for path in sorted((SHARED / "traces").rglob("*.json")):
        traffic = read_file(path, DAY)
        assert traffic.conversations or traffic.rejects, path.name
        assert all(reject.reason for reject in traffic.rejects)


_keys = (
    "messages role content parts type tool_calls function name arguments resourceSpans scopeSpans spans "
    "attributes key value traceId spanId events stringValue intValue arrayValue values trace_id span_id "
    "gen_ai.input.messages gen_ai.output.messages gen_ai.tool.name traj task_id start_time id"
)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_keys.split()), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(_json, max_size=3))
def test_no_shape_of_json_stops_the_reader(tmp_path: Path, records: list[object]) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(map(json.dumps, records)))
    traffic = read_file(path, DAY)
    assert all(made.messages for made in traffic.conversations)
    assert all(reject.reason for reject in traffic.rejects)
