"""Tables for notebooks."""

from __future__ import annotations

import html as markup
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as _pandas

    from ._tranche import Table

# Rows that a notebook shows.
ROWS_MAX = 50


def pandas_of(what: str) -> Any:
    """The library pandas, which this package does without otherwise.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"{what} needs pandas: pip install pandas") from error
    return pandas


def to_pandas(table: Table) -> _pandas.DataFrame:
    """A table as a frame. A column of whole numbers that lacks some has pandas' type ``Int64``.

    Raises:
        ImportError: pandas is not installed.
    """
    library = pandas_of("to_pandas")

    def column(values: list[Any], kind: str) -> Any:
        if kind == "int":
            return library.Series(values, dtype="Int64" if None in values else "int64")
        if kind == "float":
            return library.Series(values, dtype="float64")
        # Which type texts have depends on the version.
        return library.Series(values, dtype=None if any(values) else "object")

    columns = table.to_pydict()
    return library.DataFrame({name: column(columns[name], kind) for name, kind in table.kinds.items()})


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
        return f'<td style="text-align:right">{text}</td>'
    return f'<td style="text-align:left">{markup.escape(str(value))}</td>'


def html(columns: Mapping[str, Sequence[object]], notes: Iterable[str] = ()) -> str:
    """A table for a notebook, and sentences below it."""
    rows = list(zip(*columns.values(), strict=True))
    head = "".join(f"<th>{markup.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:ROWS_MAX])
    below = [f"{len(rows) - ROWS_MAX:,} more rows"] if len(rows) > ROWS_MAX else []
    listed = "".join(f"<li>{markup.escape(note)}</li>" for note in [*below, *notes])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (f"<ul>{listed}</ul>" if listed else "")


def table_html(table: Table) -> str:
    """A table for a notebook."""
    return html(table.to_pydict())
