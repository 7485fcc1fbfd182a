"""The examples of the documents run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize(
    "page", ["docs/howto/python.md", "docs/howto/policies.md", "docs/howto/fleet.md", "crates/app/py/README.md"]
)
def test_examples_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert examples
    # Each uses what those before it have made.
    names: dict[str, object] = {}
    for number, example in enumerate(examples, 1):
        exec(compile(example, f"{page}, example {number}", "exec"), names)
