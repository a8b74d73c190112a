from __future__ import annotations

import pytest

from tests.support.request_records import request_record


def test_a_record_cannot_be_changed_once_it_is_written_down() -> None:
    record = request_record()
    with pytest.raises(AttributeError):
        record.status = 500  # type: ignore[misc]
