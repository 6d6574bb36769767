"""Profile files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltamirror.sharing import Profile, ProfileInvalid

GOOD = {"shareCredentialsVersion": 1, "endpoint": "https://x/delta-sharing/", "bearerToken": "SECRET"}


def test_a_trailing_slash_does_not_matter() -> None:
    assert Profile.from_dict(GOOD).endpoint == "https://x/delta-sharing"


def test_the_token_is_not_shown() -> None:
    assert "SECRET" not in repr(Profile.from_dict(GOOD))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"shareCredentialsVersion": 9}, "'shareCredentialsVersion' of the profile is 9"),
        ({"bearerToken": ""}, "lacks the field 'bearerToken'"),
        ({"endpoint": None}, "lacks the field 'endpoint'"),
        ({"endpoint": "x"}, "not an http or https URL"),
        ({"expirationTime": "tomorrow"}, "is no time"),
    ],
)
def test_a_mistake_names_the_field(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        Profile.from_dict({**GOOD, **change})
    assert sentence in str(caught.value)
    assert "SECRET" not in str(caught.value)


def test_an_expired_token_is_said_before_it_is_tried() -> None:
    profile = Profile.from_dict({**GOOD, "expirationTime": "2021-11-12T00:12:29.0Z"})
    with pytest.raises(ProfileInvalid, match="expired at 2021-11-12"):
        profile.check_expiry()


def test_a_file_that_is_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text("SECRET")
    with pytest.raises(ProfileInvalid, match="not JSON") as caught:
        Profile.from_file(path)
    assert "SECRET" not in str(caught.value)
    path.write_text(json.dumps([]))
    with pytest.raises(ProfileInvalid, match="not a JSON object"):
        Profile.from_file(path)
