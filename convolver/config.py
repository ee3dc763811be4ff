"""Settings: flags > ``CONVOLVER_*`` > ``./convolver.toml`` > the user's TOML > defaults."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from convolver.errors import FormatError


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not valid TOML: {error}.") from error


@cache
def _files() -> dict[str, Any]:
    import platformdirs

    user = _read(Path(platformdirs.user_config_dir("convolver")) / "convolver.toml")
    local = _read(Path("convolver.toml"))
    return {**user, **local, **{k: {**user[k], **v} for k, v in local.items() if isinstance(v, dict) and k in user}}


def setting(section: str, key: str, default: Any) -> Any:
    """Return the value of ``[section] key``: ``CONVOLVER_SECTION_KEY``, then the TOML files, then ``default``."""
    text = os.environ.get(f"CONVOLVER_{section}_{key}".upper().replace("-", "_"))
    if text is not None:
        return type(default)(text) if default is not None and not isinstance(default, bool) else text
    group = _files().get(section, {})
    return group.get(key, default) if isinstance(group, dict) else default
